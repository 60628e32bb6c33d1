"""Options of static topics."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import Long, Settings, option


@dataclass(kw_only=True)
class StaticTopicOptions(Settings, owner="BrokerConfig"):
    """Requests for queues that were moved here from other brokers."""

    forward_timeout: Long = option(
        3000,
        "Longest wait for another broker that holds earlier messages of a queue.",
        unit="ms",
        mutable=True,
        minimum=1,
    )
