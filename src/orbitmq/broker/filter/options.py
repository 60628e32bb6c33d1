"""The rows of Apache's BrokerConfig that are about SQL92 filters."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import Long, Settings, option


@dataclass(kw_only=True)
class FilterSettings(Settings, owner="BrokerConfig"):
    """Options of filters."""

    enable_property_filter: bool = option(
        False, "Let consumers filter messages by SQL92 expressions over their properties.", mutable=True
    )
    enable_calc_filter_bit_map: bool = option(
        False,
        "Evaluate all filters of a topic for each stored message, and keep the results as bits "
        "in the extension of its queue (enableConsumeQueueExt). A pull then skips messages "
        "without reading them.",
        mutable=True,
    )
    expect_consumer_num_use_filter: int = option(
        32,
        "Number of groups with filters for which the bits of a message are sized.",
        minimum=1,
        maximum=10_000,
    )
    max_error_rate_of_bloom_filter: int = option(
        20,
        "Percentage of false positives: messages that match by their bits but not by the filter.",
        unit="%",
        minimum=1,
        maximum=99,
    )
    filter_data_clean_time_span: Long = option(
        86_400_000,
        "Time that the filter of a disconnected group is kept.",
        unit="ms",
        mutable=True,
        minimum=0,
    )
    filter_support_retry: bool = option(
        False,
        "Apply the group's filter to messages of retry topics as well. Otherwise all of them are delivered.",
        mutable=True,
    )
