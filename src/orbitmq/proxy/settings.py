"""The settings that a client gets in answer to its own: back-off, batches and times of its group."""

from __future__ import annotations

from orbitmq.protocol.bodies.group import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicyType,
    SubscriptionGroupConfig,
)
from orbitmq.proxy.lite.rules import LITE_CLIENTS, quota_of
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.wire import messaging_pb2 as pb


def producer_settings(asked: pb.Settings, options: ProxySettings) -> pb.Settings:
    """The settings of a producer."""
    merged = pb.Settings()
    merged.CopyFrom(asked)
    merged.publishing.max_body_size = options.max_message_size
    merged.publishing.validate_message_type = options.enable_topic_message_type_check
    policy = merged.backoff_policy
    policy.max_attempts = options.grpc_client_producer_max_attempts
    backoff = policy.exponential_backoff
    backoff.initial.FromMilliseconds(options.grpc_client_producer_backoff_initial_millis)
    backoff.max.FromMilliseconds(options.grpc_client_producer_backoff_max_millis)
    backoff.multiplier = options.grpc_client_producer_backoff_multiplier
    return merged


def consumer_settings(
    asked: pb.Settings, options: ProxySettings, group: SubscriptionGroupConfig
) -> pb.Settings:
    """The settings of a consumer, as its group is configured."""
    merged = pb.Settings()
    merged.CopyFrom(asked)
    subscription = merged.subscription
    subscription.fifo = group.consume_message_orderly
    subscription.receive_batch_size = options.grpc_client_consumer_long_polling_batch_size
    subscription.long_polling_timeout.FromMilliseconds(
        options.grpc_client_consumer_max_long_polling_timeout_millis
    )
    if asked.client_type in LITE_CLIENTS:
        subscription.lite_subscription_quota = quota_of(group)
        subscription.max_lite_topic_size = options.max_lite_topic_size
    policy = merged.backoff_policy
    policy.max_attempts = max_attempts(group)
    waits = group.group_retry_policy
    if waits.type is GroupRetryPolicyType.EXPONENTIAL:
        growing = waits.exponential_retry_policy or ExponentialRetryPolicy()
        policy.exponential_backoff.initial.FromMilliseconds(growing.initial)
        policy.exponential_backoff.max.FromMilliseconds(growing.max)
        policy.exponential_backoff.multiplier = growing.multiplier
    else:
        for wait_ms in (waits.customized_retry_policy or CustomizedRetryPolicy()).next:
            policy.customized_backoff.next.add().FromMilliseconds(wait_ms)
    return merged


def max_attempts(group: SubscriptionGroupConfig) -> int:
    """Deliveries of a message before it is a dead letter."""
    return group.retry_max_times + 1


def retry_delay_ms(group: SubscriptionGroupConfig, attempt: int) -> int:
    """The pause (ms) before the delivery after number `attempt`, by the policy of the group."""
    waits = group.group_retry_policy
    if waits.type is GroupRetryPolicyType.EXPONENTIAL:
        growing = waits.exponential_retry_policy or ExponentialRetryPolicy()
        steps = min(max(attempt - 1, 0), 32)
        return min(growing.max, growing.initial * int(growing.multiplier**steps))
    fixed = (waits.customized_retry_policy or CustomizedRetryPolicy()).next or [1000]
    # The first two levels are for delayed messages; retries begin at 10 s, as Apache's do.
    return fixed[min(max(attempt, 1) + 1, len(fixed) - 1)]
