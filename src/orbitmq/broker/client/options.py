"""Options of clients and their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.filter.options import FilterSettings
from orbitmq.options import Long, option


@dataclass(kw_only=True)
class ClientOptions(FilterSettings, owner="BrokerConfig"):
    """Options of producers and consumers that are connected."""

    reject_pull_consumer_enable: bool = option(False, "Refuse heartbeats of pull consumers.", mutable=True)
    enable_register_producer: bool = option(True, "Keep a list of producers.", mutable=True)
    notify_consumer_ids_changed_enable: bool = option(
        True, "Notify the members of a group when its members change.", mutable=True
    )
    channel_expired_timeout: Long = option(
        120_000, "A client without a heartbeat for this long is disconnected.", unit="ms", minimum=1
    )
