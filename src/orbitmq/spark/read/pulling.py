"""Reads a range of a queue with several pulls under way, and hands out the answers in queue order.

The broker chooses how many messages an answer holds (by count, by bytes, by what is in its memory), so the
ranges asked for ahead follow what its last answers held. An answer that holds less than was asked for is
completed before later ones are handed out.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import KW_ONLY, dataclass

from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import NetError
from orbitmq.net.replies import read_reply
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.pull import PullMessage, PullReply
from orbitmq.spark.errors import DataLost
from orbitmq.spark.read.cluster import PASSING, pull_request
from orbitmq.spark.read.connecting import PLAIN, Connecting
from orbitmq.spark.read.planning import OffsetRange, Queue

log = logging.getLogger(__name__)

UNDER_WAY = 8
"""Pulls sent ahead of their answers."""
USUAL_COUNT = 32
"""Messages that every broker hands out at once, if they are small; by default Apache's gives no more."""
MOST_COUNT = 4096
MOST_FULL_ANSWERS = 64
"""Answers of the usual size after which, at the latest, more is asked for once."""
REMEMBERED = 4
"""Answers that say how much one holds: one that ends early, with a file, is no reason to ask for less."""
TIMEOUT_MS = 15_000
TRIES = 20
"""Attempts without progress before a task fails: a broker that restarts is waited for, for about a minute."""
LONGEST_PAUSE_S = 3.2
SAME_PLACE = 5
"""Most redirects of a read from offsets that the queue claims to have (an admin reset the group's)."""
GONE = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER})
"""Refusals that say: there is no such topic, or no longer such a queue of it."""

Answer = tuple[bytes | memoryview, int, int]
"""Stored records back to back, and the queue offsets from (inclusive) to (exclusive) they answer for."""


class SlaveBehind(NetError):
    """The master is away and its slave has not got all that the master had: wait for either."""


class _Idle:
    """Open connections of this worker process, by address and user: Spark uses a process for many tasks."""

    def __init__(self) -> None:
        self._connections: dict[tuple[str, Connecting], list[BlockingConnection]] = defaultdict(list)

    def take(self, address: str, connecting: Connecting) -> BlockingConnection:
        idle = self._connections[address, connecting]
        return idle.pop() if idle else connecting.connect(address)

    def give_back(self, connection: BlockingConnection, connecting: Connecting) -> None:
        if not connection.is_closed:
            self._connections[connection.address, connecting].append(connection)

    def close(self) -> None:
        """Closes what is kept."""
        for idle in self._connections.values():
            while idle:
                idle.pop().close()


_idle = _Idle()
atexit.register(_idle.close)


@dataclass(eq=False, repr=False)
class QueuePuller:
    """Iterates over the answers that cover `work`, in the order of the queue.

    `on_loss(work, from, to)` is called for offsets that are gone; it raises, or lets the rest be read. A
    broker that does not answer is tried again for about a minute without progress; `relocate` then says where
    the queue is by now. Raises NetError, BrokerRefused, and what `on_loss` raises.
    """

    _work: OffsetRange
    _: KW_ONLY
    group: str
    subscription: str
    on_loss: Callable[[OffsetRange, int, int], None]
    connecting: Connecting = PLAIN
    expression_type: str = "TAG"
    relocate: Callable[[Queue], Queue] | None = None

    def __post_init__(self) -> None:
        self._queue = self._work.queue
        # A filtered answer covers an unknown number of offsets: nothing can be asked for ahead.
        self._is_filtered = self.subscription != "*"
        self._ahead = 1
        self._sent_away = 0
        self._count = MOST_COUNT
        self._full_answers = 0
        self._grow_after = 4
        self._recent: deque[int] = deque(maxlen=REMEMBERED)
        self._cursor = self._work.from_queue_offset
        self._next_to_ask = self._cursor
        self._under_way: dict[int, tuple[int, int, PullMessage]] = {}
        self._held: dict[int, tuple[int, PullReply]] = {}

    def __iter__(self) -> Generator[Answer, None, None]:
        tries = 0
        while self._cursor < self._work.to_queue_offset:
            before = self._cursor
            try:
                yield from self._read_over_one_connection()
            except (NetError, BrokerRefused) as error:
                if isinstance(error, BrokerRefused):
                    if error.code in GONE:
                        self.on_loss(self._work, self._cursor, self._work.to_queue_offset)
                        return
                    if error.code not in PASSING:
                        raise
                tries = 1 if self._cursor > before else tries + 1
                if tries == TRIES:
                    raise
                log.warning("pulling %s %s again: %s", self._queue.topic, self._queue.key, error)
                time.sleep(min(0.2 * 2**tries, LONGEST_PAUSE_S))
                if self.relocate is not None:
                    self._queue = self.relocate(self._queue)

    def _read_over_one_connection(self) -> Iterator[Answer]:
        self._under_way.clear()
        self._held.clear()
        self._next_to_ask = self._cursor
        connection = _idle.take(self._queue.address, self.connecting)
        try:
            while self._cursor < self._work.to_queue_offset:
                self._pull_ahead(connection)
                while self._cursor not in self._held:
                    self._receive(connection)
                asked_to, reply = self._held.pop(self._cursor)
                answer = self._accept(reply, asked_to)
                if answer is not None:
                    yield answer
                # Only now: where the connection is gone, what came before has been handed out.
                if self._cursor < asked_to and not self._under_way and not self._held:
                    self._next_to_ask = self._cursor
                elif self._cursor < asked_to:
                    self._send_pull(connection, self._cursor, asked_to)
            _idle.give_back(connection, self.connecting)
            connection = None  # type: ignore[assignment]
        finally:
            # Spark may stop reading at any batch: answers under way would confuse the next task.
            if connection is not None:
                connection.close()

    def _pull_ahead(self, connection: BlockingConnection) -> None:
        end = self._work.to_queue_offset
        while self._next_to_ask < end and len(self._under_way) + len(self._held) < self._ahead:
            to = end if self._is_filtered else min(end, self._next_to_ask + self._count)
            self._send_pull(connection, self._next_to_ask, to)
            self._next_to_ask = to

    def _send_pull(self, connection: BlockingConnection, low: int, high: int) -> None:
        request = pull_request(
            self._queue,
            low,
            min(high - low, MOST_COUNT),
            group=self.group,
            subscription=self.subscription,
            expression_type=self.expression_type,
        )
        self._under_way[connection.send(request)] = (low, high, request)

    def _receive(self, connection: BlockingConnection) -> None:
        command = connection.receive(TIMEOUT_MS)
        asked = self._under_way.pop(command.opaque, None)
        if asked is not None:
            low, high, request = asked
            self._held[low] = (high, read_reply(request, command, connection.address))

    def _accept(self, reply: PullReply, asked_to: int) -> Answer | None:
        """Moves the cursor over what an answer covers; its records, if it has any."""
        low = self._cursor
        covered_to = min(reply.next_begin_offset, asked_to)
        if reply.code == ResponseCode.SUCCESS and reply.body is not None:
            if covered_to <= low:
                raise OrbitError(f"{self._work.queue}: an answer at {low} leads to {covered_to}")
            self._adapt(covered_to - low, short=covered_to < asked_to)
            self._cursor = covered_to
            return reply.body, low, covered_to
        if reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY and covered_to > low:
            self._cursor = covered_to
            return None
        if reply.code == ResponseCode.PULL_OFFSET_MOVED and reply.min_offset <= low < reply.max_offset:
            # The offset is there: the group's offset was reset, which is nothing to a read with its own.
            self._sent_away += 1
            if self._sent_away <= SAME_PLACE:
                return None
        if not self._queue.is_master and low >= reply.max_offset:
            raise SlaveBehind(
                f"the slave at {self._queue.address} has no offset {low} of {self._queue.key} yet"
            )
        # Before the first message that is left, behind the last one, or in a segment that is gone.
        gone_to = covered_to if covered_to > low else asked_to
        self.on_loss(self._work, low, gone_to)
        self._cursor = gone_to
        return None

    def _adapt(self, held: int, *, short: bool) -> None:
        """Asks for as many messages as answers hold; tries more now and then, ever more rarely.

        The first answer says how many these are; only then are others asked for ahead of time.
        """
        if not self._is_filtered:
            self._ahead = UNDER_WAY
        if short:
            self._recent.append(held)
            if self._full_answers == 0:
                self._grow_after = min(self._grow_after * 4, MOST_FULL_ANSWERS)
            self._full_answers = 0
            if held == max(self._recent):
                # One that ended with its bytes would be short again and again by the length of a message.
                self._count = held if held <= USUAL_COUNT else held - held // 8
        elif held >= self._count:
            self._recent.append(held)
            self._full_answers += 1
            if self._full_answers >= self._grow_after:
                # If that is held as well, the next step comes sooner.
                self._count, self._grow_after = (
                    min(self._count * 2, MOST_COUNT),
                    max(4, self._grow_after // 2),
                )
                self._full_answers = 0


def close_idle_connections() -> None:
    """Closes what this process keeps open between tasks."""
    for connections in _idle._connections.values():
        while connections:
            with contextlib.suppress(OSError):
                connections.pop().close()


def refuse_loss(work: OffsetRange, low: int, high: int) -> None:
    """Raises DataLost: for `failOnDataLoss=true`."""
    raise DataLost(
        f"{work.queue.topic} {work.queue.key}: offsets {low} to {high - 1} were planned to be read and are "
        "gone (retention, or a topic made anew); failOnDataLoss=false reads what is left"
    )


def log_loss(work: OffsetRange, low: int, high: int) -> None:
    """Logs what is gone: for `failOnDataLoss=false`."""
    log.warning("%s %s: offsets %d to %d are gone", work.queue.topic, work.queue.key, low, high - 1)
