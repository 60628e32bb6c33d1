"""Sends the messages of a task: a lane per queue, one request under way in each, all queues at a time.

One request at a time is what keeps the order within a queue, and with it that of messages with one sharding
key, also when a request has to be sent again. Messages without a key go a batch to one queue, the next batch
to the next; when one cannot be sent it goes to another broker, as a producer's does.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from orbitmq.client.queue_choice import RoundRobin, queue_of_key
from orbitmq.client.sending import RETRY_CODES
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import NetError
from orbitmq.net.replies import read_reply
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.command import VERSION
from orbitmq.protocol.errors import BrokerRefused, Malformed
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.send import SendReply
from orbitmq.spark.sink.connections import Connections
from orbitmq.spark.sink.counts import Counts
from orbitmq.spark.sink.encoding import Outgoing
from orbitmq.spark.sink.errors import WriteFailed
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.pacing import Pace
from orbitmq.spark.sink.requests import AnySend, for_version, goes_alone, request_for
from orbitmq.spark.sink.routes import Routes

ANSWER_MS = 10_000
"""How long a request may be under way before it counts as failed."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
MOST_HELD_BYTES = 32 << 20
"""What all lanes hold together before everything is sent, batches full or not: topics can be many."""


class Known(Protocol):
    """Who can tell which messages a broker holds already."""

    def missing(self, messages: Sequence[Outgoing]) -> list[Outgoing]:
        """Those that are not there. Raises CannotLookUp, NetError, BrokerRefused."""


class _Lane:
    """What goes to one queue."""

    __slots__ = ("held", "held_bytes", "keyed", "queue", "under_way")

    def __init__(self, queue: MessageQueue, keyed: bool) -> None:
        self.queue = queue
        self.keyed = keyed
        """Whether its messages may go nowhere else."""
        self.held: deque[Outgoing] = deque()
        self.held_bytes = 0
        self.under_way: list[Outgoing] | None = None


class Lanes:
    """`add` messages, then `finish`. With `known`, nothing is sent again that a broker holds already."""

    def __init__(
        self, options: WriteOptions, routes: Routes, counts: Counts, known: Known | None = None
    ) -> None:
        self._options = options
        self._routes = routes
        self._counts = counts
        self._known = known
        self._pace = Pace(options.messages_per_second)
        most = self._pace.most_at_once
        self._batch_size = options.batch_size if most is None else min(options.batch_size, most)
        self._connections = Connections(options.connecting)
        self._aside = Connections(options.connecting)
        """For calls that may not meet answers of requests under way."""
        self._versions: dict[str, int] = {}
        self._lanes: dict[tuple[MessageQueue, bool], _Lane] = {}
        self._queues: dict[str, Sequence[MessageQueue]] = {}
        self._filling: dict[str, _Lane] = {}
        self._turns: dict[str, int] = {}
        self._in_turn = RoundRobin()
        self._under_way: dict[BlockingConnection, dict[int, tuple[_Lane, AnySend]]] = {}
        """What was asked over each connection, the one that was asked first in front."""
        self._held_bytes = 0

    # Taking messages.

    def add(self, message: Outgoing) -> None:
        """Takes a message; sends, and waits for answers, as lanes fill. Raises WriteFailed, BadOption."""
        lane = self._lane_of(message)
        while self._is_full(lane):
            if lane.under_way is None:
                self._send(lane)
            else:
                self._take_answer()
        lane.held.append(message)
        size = message.size_bytes
        lane.held_bytes += size
        self._held_bytes += size
        if self._is_full(lane):
            if lane.under_way is None:
                self._send(lane)
            if not lane.keyed:
                self._filling.pop(message.topic, None)
        if self._held_bytes > MOST_HELD_BYTES:
            self.finish()

    def finish(self) -> None:
        """Sends what is held and waits until everything is stored."""
        self._filling.clear()
        while True:
            for lane in self._lanes.values():
                if lane.held and lane.under_way is None:
                    self._send(lane)
            if not self._under_way:
                return
            self._take_answer()

    def store_now(self, message: Outgoing) -> None:
        """Sends one message by itself and returns once it is stored."""
        lane = self._lane_of(message)
        lane.held.append(message)
        lane.held_bytes += message.size_bytes
        self._held_bytes += message.size_bytes
        self.finish()

    def close(self) -> None:
        """Closes the connections; what was not finished may or may not be stored."""
        self._connections.close()
        self._aside.close()

    def _lane_of(self, message: Outgoing) -> _Lane:
        topic = message.topic
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = self._routes.queues(topic)
            self._turns[topic] = random.randrange(len(queues))
        if message.sharding_key is not None:
            return self._lane(queue_of_key(queues, message.sharding_key), keyed=True)
        lane = self._filling.get(topic)
        if lane is None:
            turn = self._turns[topic] = self._turns[topic] + 1
            lane = self._filling[topic] = self._lane(queues[turn % len(queues)], keyed=False)
        return lane

    def _lane(self, queue: MessageQueue, *, keyed: bool) -> _Lane:
        lane = self._lanes.get((queue, keyed))
        if lane is None:
            lane = self._lanes[queue, keyed] = _Lane(queue, keyed)
        return lane

    def _is_full(self, lane: _Lane) -> bool:
        return len(lane.held) >= self._batch_size or lane.held_bytes >= self._options.batch_bytes

    # Sending.

    def _send(self, lane: _Lane) -> None:
        messages = self._next_of(lane)
        self._pace.wait(len(messages))
        lane.under_way = messages
        request = request_for(messages, lane.queue, self._options.group)
        try:
            address = self._routes.master(lane.queue)
            request = for_version(request, self._version(address, lane.queue))
            connection = self._connections.to(address)
            opaque = connection.send(request)
        except (NetError, WriteFailed) as error:
            self._send_again(lane, error)
        else:
            self._under_way.setdefault(connection, {})[opaque] = (lane, request)

    def _next_of(self, lane: _Lane) -> list[Outgoing]:
        """The messages of the next request: as many as may travel together."""
        messages: list[Outgoing] = []
        size = 0
        while lane.held and len(messages) < self._batch_size:
            message = lane.held[0]
            if messages and (goes_alone(message) or size + message.size_bytes > self._options.batch_bytes):
                break
            messages.append(lane.held.popleft())
            size += message.size_bytes
            if goes_alone(message):
                break
        lane.held_bytes -= size
        self._held_bytes -= size
        return messages

    def _version(self, address: str, queue: MessageQueue) -> int:
        """The version that a broker speaks as; ours where it would not say."""
        version = self._versions.get(address)
        if version is None:
            connection = self._aside.to(address)
            connection.send(GetMaxOffset(queue.topic, queue.queue_id))
            version = self._versions[address] = connection.receive(ANSWER_MS).version or VERSION
        return version

    def _take_answer(self) -> None:
        """Waits for one answer of the broker that has been asked first."""
        connection, asked = next(iter(self._under_way.items()))
        try:
            command = connection.receive(ANSWER_MS)
        except (NetError, Malformed) as error:
            del self._under_way[connection]
            for lane, _ in asked.values():
                self._send_again(lane, error)
            return
        found = asked.pop(command.opaque, None)
        # The next answer is taken from the next broker.
        del self._under_way[connection]
        if asked:
            self._under_way[connection] = asked
        if found is None:
            return
        lane, request = found
        try:
            reply = read_reply(request, command, connection.address)
        except (BrokerRefused, Malformed) as error:
            self._send_again(lane, error)
        else:
            self._stored(lane, reply)
            if self._is_full(lane):
                self._send(lane)

    def _stored(self, lane: _Lane, reply: SendReply) -> None:
        messages, lane.under_way = lane.under_way or [], None
        size = sum(len(message.body) for message in messages)
        self._counts.stored(lane.queue.topic, len(messages), size, safe=reply.code == 0)

    # Sending again.

    def _send_again(self, lane: _Lane, error: Exception) -> None:
        """Tries until the lane's messages are stored, for `timeoutMs`. Raises WriteFailed."""
        messages = lane.under_way or []
        topic = lane.queue.topic
        queue = lane.queue
        deadline = time.monotonic() + self._options.timeout_ms / 1000
        pause = FIRST_PAUSE_SECONDS
        tries = 1
        while True:
            if isinstance(error, BrokerRefused) and error.code not in RETRY_CODES:
                raise WriteFailed(f"{len(messages)} messages to {topic} were refused: {error}") from error
            if time.monotonic() + pause > deadline:
                raise WriteFailed(
                    f"{len(messages)} messages to {topic} not sent after {tries} tries: {error}"
                ) from error
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            tries += 1
            self._counts.retries += 1
            try:
                self._routes.refresh(topic)
                if self._known is not None and _may_be_stored(error):
                    # It may be stored though no answer came. Nowhere else, then, before that is known.
                    missing = self._known.missing(messages)
                    self._counts.already_there += len(messages) - len(missing)
                    messages = lane.under_way = missing
                    if not messages:
                        lane.under_way = None
                        return
                if self._known is None and not lane.keyed:
                    now = time.monotonic() * 1000
                    queue = self._in_turn.next(self._routes.queues(topic), now, queue.broker_name)
                reply = self._once(messages, queue)
            except (NetError, BrokerRefused, Malformed, WriteFailed) as failed:
                error = failed
            else:
                self._stored(lane, reply)
                return

    def _once(self, messages: Sequence[Outgoing], queue: MessageQueue) -> SendReply:
        address = self._routes.master(queue)
        request = request_for(messages, queue, self._options.group)
        request = for_version(request, self._version(address, queue))
        return self._aside.to(address).call(request, ANSWER_MS)


def _may_be_stored(error: Exception) -> bool:
    """Whether a failure leaves open what became of the messages: most refusals do not."""
    return not isinstance(error, BrokerRefused) or error.code == ResponseCode.SYSTEM_ERROR
