"""Messages of a batch that is run again: those that brokers hold are found by their ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq.net.errors import CallTimeout
from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.pull import QueryMessage, QueryReply
from orbitmq.protocol.schema.declare import JsonReply
from orbitmq.spark.sink import seen
from orbitmq.spark.sink.encoding import Outgoing
from orbitmq.spark.sink.errors import CannotLookUp
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.seen import AHEAD, Seen
from tests.kit.spark_broker import FakeBroker

OPTIONS = WriteOptions.parse({"namesrv": "127.0.0.1:9876", "topic": "T"})


def outgoing(row: int, *, waits_in: str | None = None) -> Outgoing:
    return Outgoing("T", None, 0, b"body", b"", f"ID{row}", row, b"w-%d" % row, waits_in)


def record(topic: str, name: bytes) -> bytes:
    out = bytearray(500)
    properties = b"orbitmq.write\x01" + name + b"\x02"
    size = encode_record(
        out, 0, 0, 0, 0, 0, 0, 1, bytes(8), 1, bytes(8), 0, 0, b"b", topic.encode(), properties
    )
    return bytes(out[:size])


class Broker(FakeBroker):
    """Holds messages by topic and unique id; its index is behind by some bytes, ever fewer."""

    def __init__(self) -> None:
        super().__init__(self._serve_one)
        self.held: dict[tuple[str, str], bytes] = {}
        self.behind = [0]
        self.code = 22
        self.looks = 0

    def _serve_one(self, command: Command) -> Command:
        if command.code == GetBrokerRuntimeInfo.CODE:
            self.looks += 1
            behind = self.behind.pop(0) if len(self.behind) > 1 else self.behind[0]
            table = {"commitLogMaxOffset": "1000", "dispatchBehindBytes": str(behind)}
            return JsonReply[KVTable](body=KVTable(table)).to_command(0)
        request = QueryMessage.from_command(command)
        body = self.held.get((request.topic, request.key))
        if body is None:
            return Command(self.code, 0, FLAG_RESPONSE, None, None, "not found")
        reply = QueryReply(index_last_update_timestamp=0, index_last_update_phyoffset=0, body=body)
        return reply.to_command(0)


class OneBroker:
    """Routes on which every topic has one broker."""

    def __init__(self, address: str) -> None:
        self._address = address

    def masters(self, topic: str) -> list[str]:
        return [self._address]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen.time, "sleep", lambda _: None)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def looked(broker: Broker) -> Iterator[Seen]:
    routes: Any = OneBroker(broker.address)
    made = Seen(OPTIONS, routes)
    yield made
    made.close()


def rows(messages: list[Outgoing]) -> list[int]:
    return [one.row for one in messages]


def test_messages_that_no_broker_holds_are_missing(broker: Broker, looked: Seen) -> None:
    broker.held["T", "ID1"] = record("T", b"w-1")
    assert rows(looked.missing([outgoing(row) for row in range(3)])) == [0, 2]


def test_a_message_of_another_write_with_the_same_id_is_another_message(broker: Broker, looked: Seen) -> None:
    broker.held["T", "ID1"] = record("T", b"other-1")
    assert rows(looked.not_found([outgoing(1)])) == [1]
    broker.held["T", "ID1"] += record("T", b"w-1")
    assert rows(looked.not_found([outgoing(1)])) == []


def test_a_delayed_message_is_looked_for_where_it_waits_too(broker: Broker, looked: Seen) -> None:
    broker.held["SCHEDULE", "ID1"] = record("SCHEDULE", b"w-1")
    assert rows(looked.not_found([outgoing(1, waits_in="SCHEDULE")])) == []
    assert rows(looked.not_found([outgoing(1)])) == [1]


def test_very_many_messages_are_looked_up(broker: Broker, looked: Seen) -> None:
    for row in range(0, 3 * AHEAD, 2):
        broker.held["T", f"ID{row}"] = record("T", b"w-%d" % row)
    assert rows(looked.not_found([outgoing(row) for row in range(3 * AHEAD)])) == list(range(1, 3 * AHEAD, 2))


def test_a_refusal_of_a_look_up_is_an_error_and_not_a_missing_message(broker: Broker, looked: Seen) -> None:
    broker.code = 16
    with pytest.raises(BrokerRefused):
        looked.not_found([outgoing(1)])


def test_it_waits_for_the_index_before_it_looks(broker: Broker, looked: Seen) -> None:
    broker.behind = [500, 100, 0]
    looked.missing([outgoing(1)])
    assert broker.looks == 3


def test_an_index_that_never_catches_up_is_an_error(
    broker: Broker, looked: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.behind = [500]
    monkeypatch.setattr(seen, "SHOWN_WITHIN_SECONDS", 0.0)
    with pytest.raises(CallTimeout, match="the index to catch up"):
        looked.missing([outgoing(1)])


def test_a_message_that_was_stored_and_is_never_shown_means_there_is_no_index(
    broker: Broker, looked: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "SHOWN_WITHIN_SECONDS", 0.0)
    with pytest.raises(CannotLookUp, match="Is messageIndexEnable off"):
        looked.until_shown(outgoing(1))
    broker.held["T", "ID1"] = record("T", b"w-1")
    looked.until_shown(outgoing(1))
