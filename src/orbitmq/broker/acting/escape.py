"""Messages that are due at a slave that acts for its master: they leave for other masters.

The slave's own log stays a beginning of its master's, so nothing is appended to it. Timers work on an
`EscapeStore`: it takes a message for stored once another master has said so, and asks them to try again
until then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from orbitmq.broker.delay.timer_records import identity_of
from orbitmq.broker.delay.timer_state import is_of_pop
from orbitmq.broker.transaction.records import Half
from orbitmq.protocol.names import (
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
)
from orbitmq.protocol.records.message import TRANSACTION_PREPARED as PREPARED
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.store import Appended, MessageStore, PendingMessage, PutStatus
from orbitmq.store.timer.recovery import Identity


class EscapeStore:
    """The store of the slave, with appends that leave. Reads are those of the store itself. `on_pop` is given
    the records of POP that are due.
    """

    def __init__(self, store: MessageStore, on_pop: Callable[[PendingMessage], None]) -> None:
        self._store = store
        self._on_pop = on_pop
        self.outbox: deque[PendingMessage] = deque()
        """Messages to send, in order."""
        self._sent: Counter[Identity] = Counter()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    else:

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

    def room(self, now_ms: int) -> None:
        """None: nothing is written here."""

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
    properties = dict(half.properties)
    for name in (
        REAL_TOPIC,
        REAL_QUEUE_ID,
        TRANSACTION_CHECK_TIMES,
        TRANSACTION_ID,
        TRANSACTION_PREPARED_QUEUE_OFFSET,
    ):
        properties.pop(name, None)
    properties[TRANSACTION_PREPARED] = "true"
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
        properties=encode_properties(properties),
    )
