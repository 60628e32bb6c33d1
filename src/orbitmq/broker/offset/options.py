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
    use_server_side_reset_offset: bool = option(
        True, "Reset offsets in the broker, with or without running consumers.", mutable=True
    )
    flush_consumer_offset_interval: int = option(
        5000, "Interval at which consumer offsets are saved.", unit="ms", minimum=1
    )
    consumer_offset_update_version_step: Long = option(
        500, "Number of offset updates after which their table gets a new version.", minimum=1
    )
