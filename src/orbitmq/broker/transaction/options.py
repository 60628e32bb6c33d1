"""The options of transactions."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import Long, option
from orbitmq.store.option_rows import StoreSettings


@dataclass(kw_only=True)
class TransactionOptions(StoreSettings, owner="BrokerConfig"):
    """Options of a broker about half messages and those who decide about them."""

    reject_transaction_message: bool = option(False, "Refuse half messages.", mutable=True)
    transaction_time_out: Long = option(
        6000,
        "Time after its birth before the broker first asks the producer about a half message.",
        unit="ms",
        mutable=True,
        minimum=0,
    )
    transaction_check_interval: Long = option(
        30_000,
        "Interval of the checks of open half messages with their producers, to the second.",
        unit="ms",
        mutable=True,
        minimum=1,
    )
    transaction_check_max: int = option(
        15,
        "Number of checks after which a half message is moved to TRANS_CHECK_MAX_TIME_TOPIC.",
        mutable=True,
        minimum=1,
    )
    transaction_op_msg_max_size: int = option(
        4096,
        "Maximum body size of an op record, which lists completed half messages.",
        unit="bytes",
        mutable=True,
        minimum=1,
    )
    transaction_metric_flush_interval: Long = option(
        10_000, "Interval at which the counts of open half messages are saved.", unit="ms", minimum=1
    )
