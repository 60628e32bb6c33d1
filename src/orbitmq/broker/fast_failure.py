"""Fast failure: a request that is too old when the broker gets to it is refused.

Its sender then goes elsewhere at once instead of waiting for an answer that comes too late. No queue stands
before handlers here: requests that were read wait behind the turns of others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from orbitmq.options import Long, Settings, option
from orbitmq.protocol.schema.declare import REQUESTS, RequestQueue


@dataclass(kw_only=True)
class FastFailureOptions(Settings, owner="BrokerConfig"):
    """Options of the age of requests."""

    broker_fast_failure_enable: bool = option(
        True,
        "Refuse requests (SYSTEM_BUSY) that have waited longer than their waitTimeMillsIn... option.",
        mutable=True,
    )
    wait_time_mills_in_send_queue: Long = option(
        200,
        "Maximum wait of sends, recalls and messages that consumers send back.",
        unit="ms",
        mutable=True,
        minimum=1,
    )
    wait_time_mills_in_pull_queue: Long = option(
        5000, "Maximum wait of pulls, pops and notifications.", unit="ms", mutable=True, minimum=1
    )
    wait_time_mills_in_lite_pull_queue: Long = option(
        5000, "Maximum wait of pulls by lite pull consumers.", unit="ms", mutable=True, minimum=1
    )
    wait_time_mills_in_heartbeat_queue: Long = option(
        31_000, "Maximum wait of heartbeats.", unit="ms", mutable=True, minimum=1
    )
    wait_time_mills_in_transaction_queue: Long = option(
        3000, "Maximum wait of commits and rollbacks of transactions.", unit="ms", mutable=True, minimum=1
    )
    wait_time_mills_in_ack_queue: Long = option(
        3000,
        "Maximum wait of acknowledgements of pops and changes of their invisible time.",
        unit="ms",
        mutable=True,
        minimum=1,
    )
    wait_time_mills_in_admin_broker_queue: Long = option(
        5000, "Maximum wait of other requests, except queries.", unit="ms", mutable=True, minimum=1
    )


class FastFailure:
    """The age limits as they are now."""

    def __init__(self, settings: FastFailureOptions) -> None:
        self._settings = settings

    def max_age_ms(self, code: int) -> float:
        """Largest age of a request of this code when it is handled; infinite without a limit."""
        settings = self._settings
        if not settings.broker_fast_failure_enable:
            return math.inf
        declared = REQUESTS.get(code)
        match RequestQueue.ADMIN if declared is None else declared.QUEUE:
            case RequestQueue.SEND:
                return settings.wait_time_mills_in_send_queue
            case RequestQueue.PULL:
                return settings.wait_time_mills_in_pull_queue
            case RequestQueue.LITE_PULL:
                return settings.wait_time_mills_in_lite_pull_queue
            case RequestQueue.HEARTBEAT:
                return settings.wait_time_mills_in_heartbeat_queue
            case RequestQueue.TRANSACTION:
                return settings.wait_time_mills_in_transaction_queue
            case RequestQueue.ACK:
                return settings.wait_time_mills_in_ack_queue
            case RequestQueue.ADMIN:
                return settings.wait_time_mills_in_admin_broker_queue
            case RequestQueue.UNLIMITED:
                return math.inf
