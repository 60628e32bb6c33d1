"""Options of what becomes of the positions of groups."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import Long, Settings, option


@dataclass(kw_only=True)
class UpkeepOptions(Settings, owner="BrokerConfig"):
    """Options of positions of groups."""

    disable_consume_if_consumer_read_slowly: bool = option(
        False,
        "Every 3 minutes, forbid groups to consume (consumeEnable) that read what lies more than "
        "consumerFallbehindThreshold behind; an administrator allows them again.",
        mutable=True,
    )
    consumer_fallbehind_threshold: Long = option(
        17_179_869_184,
        "How far behind the end of the log a group may read under disableConsumeIfConsumerReadSlowly.",
        unit="bytes",
        mutable=True,
        minimum=0,
    )
    enable_clean_expired_offset: bool = option(
        False,
        "Every hour, remove offsets of topics to which no member of their group subscribes, if what they "
        "point to is gone and they stood still since the look before.",
        mutable=True,
        owner="MessageStoreConfig",
    )
