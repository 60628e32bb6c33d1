"""Options of administration."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.metadata.options import IdentityOptions, TopicOptions
from orbitmq.broker.role.options import ControllerModeOptions
from orbitmq.options import Status, option

_NO_QUEUES = (
    "only shown in the runtime info: requests are handled in the turn they arrive in, no queue holds them"
)


@dataclass(kw_only=True)
class AdminOptions(ControllerModeOptions, IdentityOptions, TopicOptions, owner="BrokerConfig"):
    """Options of administration, and those that it only shows."""

    config_black_list: str = option(
        "configBlackList;brokerConfigPath",
        "Options that may not be changed over the network, separated by `;`.",
    )
    send_thread_pool_queue_capacity: int = option(
        10_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    pull_thread_pool_queue_capacity: int = option(
        100_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    lite_pull_thread_pool_queue_capacity: int = option(
        100_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    query_thread_pool_queue_capacity: int = option(
        20_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    ack_thread_pool_queue_capacity: int = option(
        100_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
    end_transaction_pool_queue_capacity: int = option(
        100_000, "", mutable=True, status=Status.NO_EFFECT, reason=_NO_QUEUES
    )
