"""Subscription groups: their configuration, retry policies, tables of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.schema.json_body import JsonBody, Long


class GroupRetryPolicyType(IntEnum):
    """The policy that is in use."""

    EXPONENTIAL = 0
    CUSTOMIZED = 1


_RETRY_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


@dataclass(slots=True)
class CustomizedRetryPolicy(JsonBody):
    """Waits before each retry, in ms; the last one repeats."""

    next: list[Long] = field(default_factory=lambda: [seconds * 1000 for seconds in _RETRY_SECONDS])


@dataclass(slots=True)
class ExponentialRetryPolicy(JsonBody):
    """Waits that grow by `multiplier` from `initial` to `max` ms."""

    initial: Long = 5000
    max: Long = 7_200_000
    multiplier: Long = 2


@dataclass(slots=True)
class GroupRetryPolicy(JsonBody):
    """Delays between retries for POP consumers of the group."""

    type: GroupRetryPolicyType | None = GroupRetryPolicyType.CUSTOMIZED
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


@dataclass(slots=True)
class SimpleSubscriptionData(JsonBody):
    """A subscription that is part of a group's configuration."""

    topic: str = ""
    expression_type: str = ""
    expression: str = ""
    version: Long = 0


@dataclass(slots=True)
class SubscriptionGroupConfig(JsonBody):
    """A consumer group on one broker. Attribute keys have a sign in update requests, as those of topics."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: Long = 0
    which_broker_when_consume_slowly: Long = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SubscriptionGroupList(JsonBody):
    """Groups to create or change in one request."""

    group_config_list: list[SubscriptionGroupConfig] | None = None


@dataclass(slots=True)
class SubscriptionGroupWrapper(JsonBody):
    """The table of groups, as `subscriptionGroup.json` holds it."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    forbidden_table: dict[str, dict[str, int]] = field(default_factory=dict)
    """Group -> topic -> bits; bit 4: the group may not read the topic."""
    data_version: DataVersion = field(default_factory=DataVersion)


@dataclass(slots=True)
class GroupForbidden(JsonBody):
    """A permission or ban of a group to read a topic."""

    topic: str = ""
    group: str = ""
    readable: bool | None = None


@dataclass(slots=True)
class DeleteSubscriptionGroupListRequestBody(JsonBody):
    """Groups to delete, and whether their offsets go, too."""

    clean_offset: bool = False
    group_name_list: list[str] | None = None


@dataclass(slots=True)
class GroupList(JsonBody):
    """Names of groups."""

    group_list: list[str] = field(default_factory=list)
