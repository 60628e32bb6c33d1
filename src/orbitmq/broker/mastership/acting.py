"""A master's work, done by a slave while the master is away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from orbitmq.broker.delay.timer_state import Appends
from orbitmq.broker.mastership.mastership import Mastership
from orbitmq.broker.mastership.reviver import ActingReviver
from orbitmq.protocol.bodies.offset import ActedFor
from orbitmq.store import PendingMessage


@dataclass(slots=True)
class ActingWork:
    """One broker's. How far it got stands in `DelayDelivery.acted`, for the master that comes back."""

    mastership: Mastership
    reviver: ActingReviver | None = field(default=None, init=False)
    """While the work continues."""

    def begin(self, into: Appends, now: int) -> Iterator[None]:
        """Takes up what the log says is open, a slice at a step; timers append what is due to `into`. The
        store has opened the files of timers again before.
        """
        own = self.mastership
        own.delay.stop()
        own.delay.start()
        before = own.delay.acted or ActedFor()
        # Its master may not know of the work that it did the last time.
        own.note_elsewhere(before)
        self.reviver = ActingReviver(own.reviver)
        own.timer.open(now, into)
        own.timer.start(list(own.topics.by_name))
        own.transactions.forget()
        yield from own.load_transactions(now)
        own.delay.note_acted(replace(before, is_open=True, log_end=own.store.max_physical), soon=False)

    def take_due_pop(self, message: PendingMessage) -> None:
        """Takes a record of POP that is due, and that the master would store in the revive topic now."""
        if self.reviver is not None:
            self.reviver.take(message)

    def revive(self, now: int) -> bool:
        """Continues with popped messages; true if a copy waits to leave."""
        if self.reviver is None:
            return False
        self.reviver.run(now, self.mastership.timer.delivered_to_ms)
        return bool(self.reviver.outbox)

    def note(self, *, is_open: bool = True, soon: bool = False) -> None:
        """Notes how far timers and pops got; `soon` where messages have left."""
        own = self.mastership
        acted = own.delay.acted
        if acted is None:
            return
        delivered_to_ms = own.timer.delivered_to_ms
        timers_to, points_to = max(acted.timers_to, delivered_to_ms), acted.points_to
        if self.reviver is not None:
            points_to = max(points_to, self.reviver.worked_up_to_ms(delivered_to_ms))
        noted = replace(acted, is_open=is_open, timers_to=timers_to, points_to=points_to)
        if noted != acted:
            own.delay.note_acted(noted, soon=soon)

    def end(self) -> None:
        """Lets go of that work. The next one who does it begins where the files of timers say, as if no
        broker had, and passes over what `acted` says was done.
        """
        self.note(is_open=False, soon=True)
        self.let_go()

    def let_go(self) -> None:
        """Ends without a word of how far it got: it could not begin."""
        own = self.mastership
        own.timer.close()
        own.delay.stop()
        own.transactions.forget()
        self.reviver = None
