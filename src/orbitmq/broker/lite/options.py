"""The rows of Apache's BrokerConfig that are about lite topics."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import Long, Settings, option


@dataclass(kw_only=True)
class LiteOptions(Settings, owner="BrokerConfig"):
    """Options of lite topics."""

    max_lite_subscription_count: Long = option(
        100_000, "Maximum of lite topics that all clients together subscribe to.", mutable=True, minimum=0
    )
    max_client_event_count: int = option(
        100,
        "Lite topics with messages that wait for one client; the group attribute "
        "lite.sub.client.max.event.cnt comes first.",
        mutable=True,
        minimum=1,
    )
    lite_lag_count_metrics_enable: bool = option(
        False,
        "Report the messages that lite groups have not consumed; each scrape looks at all lite topics that "
        "these groups have offsets of.",
        mutable=True,
    )
    lite_lag_latency_metrics_enable: bool = option(
        False, "Report the age of the oldest of these messages.", mutable=True
    )
    lite_event_check_interval: Long = option(
        10_000,
        "Clients that fetch nothing for this long lose their waiting lite topics to other members.",
        unit="ms",
        mutable=True,
        minimum=100,
    )
    lite_subscription_check_interval: Long = option(
        120_000, "Interval of checks for clients that are gone.", unit="ms", minimum=100
    )
    lite_subscription_check_timeout_mills: Long = option(
        180_000,
        "A client that has not said for this long what it subscribes to is gone.",
        unit="ms",
        mutable=True,
        minimum=1,
    )
    lite_ttl_check_interval: Long = option(
        120_000, "Interval of checks for lite topics that have expired.", unit="ms", minimum=100
    )
    min_lite_t_tl: Long = option(
        900_000,
        "Minimum age of the newest message of a lite topic that expires; none expires before the broker has "
        "run for this long.",
        name="minLiteTTl",
        unit="ms",
        mutable=True,
        minimum=0,
    )
