"""Options of pulls."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.filter.options import FilterSettings
from orbitmq.broker.metadata.options import IdentityOptions
from orbitmq.broker.role.options import ReplicationOptions
from orbitmq.options import Long, option


@dataclass(kw_only=True)
class PullOptions(FilterSettings, ReplicationOptions, IdentityOptions, owner="BrokerConfig"):
    """Options of pulls, and of offsets that broadcasting members keep themselves."""

    long_polling_enable: bool = option(
        True, "Hold a pull that finds no message for as long as the client asks.", mutable=True
    )
    short_polling_time_mills: Long = option(
        1000, "Time that a pull is held if longPollingEnable is off.", unit="ms", mutable=True, minimum=0
    )
    slave_read_enable: bool = option(
        False,
        "Suggest a slave (the group's whichBrokerWhenConsumeSlowly) for pulls of messages that "
        "are probably not in memory, and the group's brokerId for others.",
        mutable=True,
    )
    lite_pull_message_enable: bool = option(True, "Serve lite pull consumers.", mutable=True)
    enable_broadcast_offset_store: bool = option(
        True,
        "Keep offsets of members of broadcasting groups that connect through a proxy, and "
        "store the smallest offset of each group as that of GROUP@broadcast.",
        mutable=True,
    )
    broadcast_offset_expire_second: Long = option(
        120, "Time that the offset of a disconnected member is kept.", unit="s", mutable=True, minimum=1
    )
    broadcast_offset_expire_max_second: Long = option(
        300,
        "Time that the offset of a connected member without pulls is kept.",
        unit="s",
        mutable=True,
        minimum=1,
    )
