"""The rows of Apache's BrokerConfig that are about SQL92 filters."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import option
from orbitmq.options.declare import Settings


@dataclass(kw_only=True)
class FilterSettings(Settings):
    """What a broker is told about filters."""

    enable_property_filter: bool = option(
        "enablePropertyFilter",
        "boolean",
        False,
        "Consumers may choose messages by SQL92 expressions over their properties.",
        mutable=True,
    )
    enable_calc_filter_bit_map: bool = option(
        "enableCalcFilterBitMap",
        "boolean",
        False,
        "Try all filters of a topic on each message that is stored, and keep the results as bits in the "
        "extension of its queue (enableConsumeQueueExt): a pull then passes over messages without a look at "
        "them.",
        mutable=True,
    )
    expect_consumer_num_use_filter: int = option(
        "expectConsumerNumUseFilter",
        "int",
        32,
        "For how many groups with filters the bits of a message are laid out.",
        minimum=1,
        maximum=10_000,
    )
    max_error_rate_of_bloom_filter: int = option(
        "maxErrorRateOfBloomFilter",
        "int",
        20,
        "How many of 100 messages that a group does not want may look wanted by their bits.",
        unit="%",
        minimum=1,
        maximum=99,
    )
    filter_data_clean_time_span: int = option(
        "filterDataCleanTimeSpan",
        "long",
        86_400_000,
        "How long the filter of a group that is gone is kept.",
        unit="ms",
        mutable=True,
        minimum=0,
    )
    filter_support_retry: bool = option(
        "filterSupportRetry",
        "boolean",
        False,
        "Ask the group's filter for messages of retry topics too; else every one of them is delivered.",
        mutable=True,
    )
