"""The options of transactions."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import option, without_effect
from orbitmq.options.declare import Settings


@dataclass(kw_only=True)
class TransactionOptions(Settings):
    """What a broker is told about half messages and those who decide about them."""

    reject_transaction_message: bool = option(
        "rejectTransactionMessage", "boolean", False, "Refuse half messages.", mutable=True
    )
    transaction_time_out: int = option(
        "transactionTimeOut",
        "long",
        6000,
        "For so long after its birth nobody is asked about a half message.",
        unit="ms",
        mutable=True,
        minimum=0,
    )
    transaction_check_interval: int = option(
        "transactionCheckInterval",
        "long",
        30_000,
        "How often producers are asked about open half messages, to the second.",
        unit="ms",
        mutable=True,
        minimum=1,
    )
    transaction_check_max: int = option(
        "transactionCheckMax",
        "int",
        15,
        "Half messages asked about so often are laid aside in TRANS_CHECK_MAX_TIME_TOPIC.",
        mutable=True,
        minimum=1,
    )
    transaction_op_msg_max_size: int = option(
        "transactionOpMsgMaxSize",
        "int",
        4096,
        "The longest body of a record that names half messages that have ended.",
        unit="bytes",
        mutable=True,
        minimum=1,
    )
    transaction_metric_flush_interval: int = option(
        "transactionMetricFlushInterval",
        "long",
        10_000,
        "How often the counts of open half messages are saved.",
        unit="ms",
        minimum=1,
    )


TRANSACTION_ROWS = without_effect(
    "decisions are written in the turn in which they come: none waits in memory for others to go with it",
    "BrokerConfig",
    ("transactionOpBatchInterval", "int", 3000),
)
"""Rows of transactions that change nothing."""
