"""Messages on their way to a handler of batches: gathered until there are enough, or for long enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from orbitmq.client.consumer.process_queue import ProcessQueue
from orbitmq.client.core.message import ReceivedMessage

Taken = list[tuple[ProcessQueue, ReceivedMessage]]
"""Messages that one call of a handler gets, each with the queue that holds it."""


class Gathering:
    """The batch of one topic that is not full yet."""

    def __init__(self, put: Callable[[Taken], None]) -> None:
        self._put = put
        self._batch: Taken = []
        self._timer: asyncio.TimerHandle | None = None

    def add(
        self, held: ProcessQueue, message: ReceivedMessage, max_messages: int, max_wait_ms: float
    ) -> None:
        """Takes one more; a full batch goes at once, another one `max_wait_ms` after its first message.

        Without such a wait it goes with what else came in the same answer of a broker.
        """
        self._batch.append((held, message))
        if len(self._batch) >= max_messages:
            self._go()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(max_wait_ms / 1000, self._go)

    def _go(self) -> None:
        self.cancel()
        batch, self._batch = self._batch, []
        self._put(batch)

    def leave_out(self, held: ProcessQueue) -> None:
        """Drops what came from a queue that is no more ours."""
        self._batch = [one for one in self._batch if one[0] is not held]
        if not self._batch:
            self.cancel()

    def cancel(self) -> None:
        """Stops waiting; what was gathered stays unhandled."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def parts(taken: Taken, most: int) -> Iterator[Taken]:
    """The same, in pieces of `most` messages at most."""
    return (taken[at : at + most] for at in range(0, len(taken), most))
