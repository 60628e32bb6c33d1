"""Sends the messages of a task: a sender per queue, one request under way in each, all queues at a time.

One request at a time is what keeps the order within a queue, and with it that of messages with one sharding
key, also when a request has to be sent again. Messages without a key go a batch to one queue, the next batch
to the next; when one cannot be sent it goes to another broker, as a producer's does.

`Producer.send_all` does not do this work, for three reasons. A Spark task has no event loop and uses blocking
sockets. Its messages come encoded from columns, and a `Message` for each would only be taken apart again. And
before a batch of known identity is sent again, the brokers are asked which of its messages they hold. Both
share the choice of queues, the codes after which another broker is tried, and the form of requests.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from orbitmq.client.sending.attempts import (
    DECIDED_CODES,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    RETRY_CODES,
)
from orbitmq.client.sending.queue_choice import RoundRobin, queue_of_key
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import NetError
from orbitmq.net.replies import read_reply
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, Malformed
from orbitmq.protocol.remoting.command import VERSION
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
"""Time in ms after which a request without an answer counts as failed."""
MOST_HELD_BYTES = 32 << 20
"""Bytes held for all queues at which everything is sent, full batches or not: topics can be many."""


class Known(Protocol):
    """Looks up which messages a broker holds already."""

    def missing(self, messages: Sequence[Outgoing]) -> list[Outgoing]:
        """Those that are not there. Raises CannotLookUp, NetError, BrokerRefused."""


class _QueueSender:
    """Messages for one queue."""

    __slots__ = ("held", "held_bytes", "keyed", "queue", "under_way")

    def __init__(self, queue: MessageQueue, keyed: bool) -> None:
        self.queue = queue
        self.keyed = keyed
        """True if its messages may go to no other queue."""
        self.held: deque[Outgoing] = deque()
        self.held_bytes = 0
        self.under_way: list[Outgoing] | None = None


class QueueSenders:
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
        self._call_connections = Connections(options.connecting)
        """For calls that may not meet answers of requests under way."""
        self._versions: dict[str, int] = {}
        self._senders: dict[tuple[MessageQueue, bool], _QueueSender] = {}
        self._queues: dict[str, Sequence[MessageQueue]] = {}
        self._filling: dict[str, _QueueSender] = {}
        self._turns: dict[str, int] = {}
        self._in_turn = RoundRobin()
        self._under_way: dict[BlockingConnection, dict[int, tuple[_QueueSender, AnySend]]] = {}
        """Requests under way on each connection; the connection of the oldest request comes first."""
        self._held_bytes = 0

    # Taking messages.

    def add(self, message: Outgoing) -> None:
        """Takes a message; sends, and waits for answers, as senders fill. Raises WriteFailed, BadOption."""
        sender = self._sender_of(message)
        while self._is_full(sender):
            if sender.under_way is None:
                self._send(sender)
            else:
                self._receive()
        sender.held.append(message)
        size = message.size_bytes
        sender.held_bytes += size
        self._held_bytes += size
        if self._is_full(sender):
            if sender.under_way is None:
                self._send(sender)
            if not sender.keyed:
                self._filling.pop(message.topic, None)
        if self._held_bytes > MOST_HELD_BYTES:
            self.finish()

    def finish(self) -> None:
        """Sends what is held and waits until everything is stored."""
        self._filling.clear()
        while True:
            for sender in self._senders.values():
                if sender.held and sender.under_way is None:
                    self._send(sender)
            if not self._under_way:
                return
            self._receive()

    def store_now(self, message: Outgoing) -> None:
        """Sends one message by itself and returns once it is stored."""
        sender = self._sender_of(message)
        sender.held.append(message)
        sender.held_bytes += message.size_bytes
        self._held_bytes += message.size_bytes
        self.finish()

    def close(self) -> None:
        """Closes the connections; what was not finished may or may not be stored."""
        self._connections.close()
        self._call_connections.close()

    def _sender_of(self, message: Outgoing) -> _QueueSender:
        topic = message.topic
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = self._routes.queues(topic)
            self._turns[topic] = random.randrange(len(queues))
        if message.sharding_key is not None:
            return self._sender(queue_of_key(queues, message.sharding_key), keyed=True)
        sender = self._filling.get(topic)
        if sender is None:
            turn = self._turns[topic] = self._turns[topic] + 1
            sender = self._filling[topic] = self._sender(queues[turn % len(queues)], keyed=False)
        return sender

    def _sender(self, queue: MessageQueue, *, keyed: bool) -> _QueueSender:
        sender = self._senders.get((queue, keyed))
        if sender is None:
            sender = self._senders[queue, keyed] = _QueueSender(queue, keyed)
        return sender

    def _is_full(self, sender: _QueueSender) -> bool:
        return len(sender.held) >= self._batch_size or sender.held_bytes >= self._options.batch_bytes

    # Sending.

    def _send(self, sender: _QueueSender) -> None:
        messages = self._next_of(sender)
        self._pace.wait(len(messages))
        sender.under_way = messages
        request = request_for(messages, sender.queue, self._options.group)
        try:
            address = self._routes.master(sender.queue)
            request = for_version(request, self._version(address, sender.queue))
            connection = self._connections.to(address)
            opaque = connection.send(request)
        except (NetError, WriteFailed) as error:
            self._send_again(sender, error)
        else:
            self._under_way.setdefault(connection, {})[opaque] = (sender, request)

    def _next_of(self, sender: _QueueSender) -> list[Outgoing]:
        """The messages of the next request: as many as may travel together."""
        messages: list[Outgoing] = []
        size = 0
        while sender.held and len(messages) < self._batch_size:
            message = sender.held[0]
            if messages and (goes_alone(message) or size + message.size_bytes > self._options.batch_bytes):
                break
            messages.append(sender.held.popleft())
            size += message.size_bytes
            if goes_alone(message):
                break
        sender.held_bytes -= size
        self._held_bytes -= size
        return messages

    def _version(self, address: str, queue: MessageQueue) -> int:
        """The version that a broker speaks as; ours where it would not say."""
        version = self._versions.get(address)
        if version is None:
            connection = self._call_connections.to(address)
            connection.send(GetMaxOffset(queue.topic, queue.queue_id))
            version = self._versions[address] = connection.receive(ANSWER_MS).version or VERSION
        return version

    def _receive(self) -> None:
        """Waits for one answer of the broker that has been asked first."""
        connection, asked = next(iter(self._under_way.items()))
        try:
            command = connection.receive(ANSWER_MS)
        except (NetError, Malformed) as error:
            del self._under_way[connection]
            for sender, _ in asked.values():
                self._send_again(sender, error)
            return
        found = asked.pop(command.opaque, None)
        # The next answer is taken from the next broker.
        del self._under_way[connection]
        if asked:
            self._under_way[connection] = asked
        if found is None:
            return
        sender, request = found
        try:
            reply = read_reply(request, command, connection.address)
        except (BrokerRefused, Malformed) as error:
            self._send_again(sender, error)
        else:
            self._stored(sender, reply)
            if self._is_full(sender):
                self._send(sender)

    def _stored(self, sender: _QueueSender, reply: SendReply) -> None:
        messages, sender.under_way = sender.under_way or [], None
        size = sum(len(message.body) for message in messages)
        self._counts.stored(sender.queue.topic, len(messages), size, safe=reply.code == 0)

    # Sending again.

    def _send_again(self, sender: _QueueSender, error: Exception) -> None:
        """Tries until the sender's messages are stored, for `timeoutMs`. Raises WriteFailed."""
        messages = sender.under_way or []
        topic = sender.queue.topic
        queue = sender.queue
        deadline = time.monotonic() + self._options.timeout_ms / 1000
        pause = FIRST_PAUSE_SECONDS
        tries = 1
        while True:
            if isinstance(error, BrokerRefused) and error.code not in RETRY_CODES - DECIDED_CODES:
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
                    messages = sender.under_way = missing
                    if not messages:
                        sender.under_way = None
                        return
                if self._known is None and not sender.keyed:
                    now = time.monotonic() * 1000
                    queue = self._in_turn.next(self._routes.queues(topic), now, queue.broker_name)
                reply = self._once(messages, queue)
            except (NetError, BrokerRefused, Malformed, WriteFailed) as failed:
                error = failed
            else:
                self._stored(sender, reply)
                return

    def _once(self, messages: Sequence[Outgoing], queue: MessageQueue) -> SendReply:
        address = self._routes.master(queue)
        request = request_for(messages, queue, self._options.group)
        request = for_version(request, self._version(address, queue))
        return self._call_connections.to(address).call(request, ANSWER_MS)


def _may_be_stored(error: Exception) -> bool:
    """True if messages may be stored in spite of a failure; most refusals exclude it."""
    return not isinstance(error, BrokerRefused) or error.code == ResponseCode.SYSTEM_ERROR
