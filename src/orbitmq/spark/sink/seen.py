"""Looks up messages of a batch that the brokers hold already, by their unique ids.

Brokers index every message by its unique id, whatever topic waits for its time in between, for as long as
they keep the message. The index follows the log by moments;
`wait_until_indexed` waits until it has caught up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from orbitmq.net.errors import CallTimeout
from orbitmq.net.replies import read_reply
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.names import WRITE_PROPERTY
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.records.properties import find_property
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.pull import QueryMessage
from orbitmq.spark.sink.connections import Connections
from orbitmq.spark.sink.encoding import Outgoing
from orbitmq.spark.sink.errors import CannotLookUp
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.routes import Routes

ANSWER_MS = 10_000
AHEAD = 64
"""Look-ups under way at a time."""
FOREVER_MS = (1 << 63) - 1
IN_FLIGHT_SECONDS = 1.0
"""After it nothing of an ended task is on its way any more: brokers drop what waits for 200 ms."""
SHOWN_WITHIN_SECONDS = 30.0
"""Time in s for an index to show a message before it counts as an index that shows none."""

_PROPERTY = WRITE_PROPERTY.encode()


class Seen:
    """Looks messages of one partition up, at every broker of their topics."""

    def __init__(self, options: WriteOptions, routes: Routes) -> None:
        self._routes = routes
        self._connections = Connections(options.connecting)
        self._known: dict[str, list[str]] = {}
        """Brokers of further topics; none of one that does not exist."""

    def close(self) -> None:
        self._connections.close()

    def missing(self, messages: Sequence[Outgoing]) -> list[Outgoing]:
        """Those that no broker holds. Raises CannotLookUp, NetError, BrokerRefused."""
        self.wait_until_indexed({message.topic for message in messages})
        return self.not_found(messages)

    def not_found(self, messages: Sequence[Outgoing]) -> list[Outgoing]:
        """The same, of messages that were sent long enough ago."""
        found: set[int] = set()
        asked: dict[str, list[tuple[QueryMessage, Outgoing]]] = {}
        for message in messages:
            for topic, at in self._places(message):
                request = QueryMessage(topic, message.unique_id, 32, 0, FOREVER_MS, None, None, True)
                for address in at:
                    asked.setdefault(address, []).append((request, message))
        for address, questions in asked.items():
            for start in range(0, len(questions), AHEAD):
                self._query(address, questions[start : start + AHEAD], found)
        return [message for message in messages if message.row not in found]

    def _places(self, message: Outgoing) -> Iterator[tuple[str, list[str]]]:
        """Topics that may hold a message, and their brokers; a delayed one waits in a topic of brokers."""
        masters = self._routes.masters(message.topic)
        yield message.topic, masters
        if message.waits_in is not None:
            yield message.waits_in, masters
        if message.also_in is not None:
            if message.also_in not in self._known:
                self._known[message.also_in] = self._routes.masters_if_known(message.also_in)
            yield message.also_in, self._known[message.also_in]

    def _query(
        self, address: str, questions: Sequence[tuple[QueryMessage, Outgoing]], found: set[int]
    ) -> None:
        connection = self._connections.to(address)
        waiting = {connection.send(request): (request, message) for request, message in questions}
        while waiting:
            command = connection.receive(ANSWER_MS)
            request, message = waiting.pop(command.opaque)
            try:
                reply = read_reply(request, command, address)
            except BrokerRefused as error:
                if error.code != ResponseCode.QUERY_NOT_FOUND:
                    connection.close()
                    raise
                continue
            for record in decode_records(reply.body or b"")[0]:
                if find_property(record.properties, _PROPERTY) == message.name:
                    found.add(message.row)

    def until_shown(self, message: Outgoing) -> None:
        """Returns once a look-up finds a message that is stored. Raises CannotLookUp."""
        deadline = time.monotonic() + SHOWN_WITHIN_SECONDS
        pause = 0.001
        while self.not_found([message]):
            if time.monotonic() > deadline:
                raise CannotLookUp(
                    f"topic {message.topic}: a message that was stored is not found by its id, so a batch "
                    "that is run again could not be recognised. Is messageIndexEnable off?"
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.5)

    def wait_until_indexed(self, topics: Iterable[str]) -> None:
        """Waits until everything of an ended task has arrived and is indexed. Raises what calls raise."""
        time.sleep(IN_FLIGHT_SECONDS)
        for address in sorted({address for topic in topics for address in self._routes.masters(topic)}):
            self._indexed(address)

    def _indexed(self, address: str) -> None:
        deadline = time.monotonic() + SHOWN_WITHIN_SECONDS
        end: int | None = None
        pause = 0.01
        while True:
            try:
                table = self._connections.to(address).call(GetBrokerRuntimeInfo(), ANSWER_MS).body.table
            except BrokerRefused:
                # Not for everybody where brokers have access control.
                time.sleep(IN_FLIGHT_SECONDS)
                return
            log_end = int(table["commitLogMaxOffset"])
            end = log_end if end is None else end
            if log_end - int(table["dispatchBehindBytes"]) >= end:
                return
            if time.monotonic() > deadline:
                raise CallTimeout(address, "the index to catch up", SHOWN_WITHIN_SECONDS * 1000)
            time.sleep(pause)
            pause = min(pause * 2, 0.5)
