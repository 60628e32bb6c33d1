"""Messages that are due at a slave that acts for its master: they leave for other masters.

The slave's own log stays a beginning of its master's, so nothing is appended to it. Timers append to an
`Escape`: it takes a message for stored once another master has said so, and asks them to try again before.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from orbitmq.broker.copied_properties import MAX_COPIED_PROPERTIES_BYTES, NoRoom, copied_properties
from orbitmq.broker.delay.level_delivery import delivery_of
from orbitmq.broker.delay.timer_due import TIMER_PROPERTIES
from orbitmq.broker.delay.timer_records import AT_ONCE, identity_of, waited
from orbitmq.broker.delay.timer_state import is_of_pop
from orbitmq.broker.transaction.records import Half, half_of
from orbitmq.protocol.names import (
    CLUSTER,
    DELAY,
    MSG_REGION,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRACE_ON,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
)
from orbitmq.protocol.records.message import MAX_SENT_PROPERTIES_BYTES, StoredMessage
from orbitmq.protocol.records.message import TRANSACTION_PREPARED as PREPARED
from orbitmq.protocol.records.properties import change_properties
from orbitmq.store import Appended, PendingMessage, PutStatus
from orbitmq.store.timer.recovery import Identity

OWN_BYTES = 64
"""Room for what another master adds when it accepts a message (its region, its cluster), at least."""


class Escape:
    """Takes messages that leave for other masters. `on_pop` is given the records of POP that are due."""

    def __init__(self, on_pop: Callable[[PendingMessage], None]) -> None:
        self._on_pop = on_pop
        self.outbox: deque[PendingMessage] = deque()
        """Messages to send, in order."""
        self._sent: Counter[Identity] = Counter()

    def append_many(
        self, messages: Sequence[PendingMessage], now_ms: int, answers: list[Appended] | None = None
    ) -> list[Appended]:
        """Answers for the first messages, as many of them as another master has; the rest is to be asked for
        again. A message that goes around once more in the timer topic waits for its master.
        """
        results: list[Appended] = [] if answers is None else answers
        for index, message in enumerate(messages):
            identity = identity_of(message)
            if is_of_pop(message.topic):
                self._on_pop(message)
            elif message.topic == TIMER_TOPIC:
                pass
            elif self._sent[identity]:
                self._sent[identity] -= 1
            else:
                if not self.outbox:
                    self.outbox.extend(
                        later
                        for later in messages[index:]
                        if later.topic != TIMER_TOPIC and not is_of_pop(later.topic)
                    )
                break
            results.append(Appended(PutStatus.PUT_OK))
        self._sent = +self._sent
        return results

    def sent(self, message: PendingMessage) -> None:
        """Notes that another master has the first message of the outbox."""
        self._sent[identity_of(message)] += 1
        self.outbox.popleft()


def moved(half: Half) -> PendingMessage:
    """A half message as its producer sent it, for another master, which asks about it."""
    changes: dict[str, str | None] = dict.fromkeys(
        (
            REAL_TOPIC,
            REAL_QUEUE_ID,
            TRANSACTION_CHECK_TIMES,
            TRANSACTION_ID,
            TRANSACTION_PREPARED_QUEUE_OFFSET,
        )
    )
    changes[TRANSACTION_PREPARED] = "true"
    record = half.record
    return PendingMessage(
        topic=half.topic,
        queue_id=half.queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag | PREPARED,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=0,
        body=record.body,
        properties=change_properties(record.properties, changes),
        copy_of=record.physical_offset,
    )


def leaving(record: StoredMessage, now: int) -> tuple[PendingMessage, str] | None:
    """The message that a record which waits in the slave's log leaves as, and its producer group; None if it
    is of no such kind.
    """
    if record.topic == SCHEDULE_TOPIC:
        message = delivery_of(record)
    elif record.topic == TIMER_TOPIC:
        message = waited(record, AT_ONCE, now)
    else:
        half = half_of(record)
        return None if half is None else (moved(half), half.group)
    return None if message is None else (message, "")


def escaping(properties: bytes) -> bytes:
    """The properties with which a message that is due leaves: it waits for nothing any more, and says no more
    than its new master takes, if it can.
    """
    # The master adds its own, as long as these.
    own = change_properties(properties, dict.fromkeys((MSG_REGION, TRACE_ON, CLUSTER)))
    room = (
        MAX_COPIED_PROPERTIES_BYTES - MAX_SENT_PROPERTIES_BYTES + max(OWN_BYTES, len(properties) - len(own))
    )
    changes = dict.fromkeys((DELAY, *TIMER_PROPERTIES))
    try:
        return copied_properties(own, changes, (REAL_QUEUE_ID, REAL_TOPIC), room)
    except NoRoom:
        return change_properties(own, changes)
