"""Broker rules over a real store in a temporary folder, asked as the dispatcher asks them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orbitmq.broker.broker import Broker
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.handling.call import Call, Outcome, Peer, Wait
from orbitmq.options import Layer
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, FrameSplitter, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.requests.send import SendMessageV2, SendReply
from orbitmq.protocol.schema.declare import REQUESTS, Request
from orbitmq.store import MessageStore, StoreOptions
from orbitmq.store.files import Disk
from tests.kit.waiting import met

NOW = 1_795_000_000_000
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
PEER = Peer(1, bytes([10, 0, 0, 9, 0, 0, 0x30, 0x39]), "10.0.0.9:12345", 493)


class RealBroker:
    """`ask` goes one request at a time, `send_together` as several of one read do."""

    def __init__(
        self,
        root: Path,
        now: int = NOW,
        files: Mapping[str, str] | None = None,
        disk: Disk | None = None,
        **properties: object,
    ) -> None:
        settings = BROKER_TABLE.load(
            [
                Layer(
                    "the test",
                    {
                        "storePathRootDir": str(root),
                        "mappedFileSizeCommitLog": 1 << 20,
                        "diskMaxUsedSpaceRatio": 95,
                        **properties,
                    },
                )
            ]
        )
        self.store = MessageStore.open(StoreOptions.from_settings(settings), now, disk)
        identity = BrokerIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912", HOST)
        self.broker = Broker(
            identity,
            settings,
            self.store,
            now=now,
            new_unique_id=lambda now: "MADEHERE",
            figures=self.store.figures,
        )
        for name, (_, _, load_text) in self.broker.files.items():
            if files and name in files:
                load_text(files[name])
        self.broker.start(now)
        for _ in self.broker.recover(now):
            pass
        self._handlers, self.many, (sends, pulls, pops, acks) = self.broker.bind()
        self.handle_sends = sends.handle
        self.handle_pulls = pulls.handle
        self.handle_pops = pops.handle
        self.handle_acks = acks.handle

    def close(self) -> None:
        self.store.close()

    def handle(self, request: Request[Any], now: int = NOW, peer: Peer = PEER) -> Any:
        """The handler's answer: a reply, a wait, None; raises its Refused."""
        command = request.to_command()
        command.version = peer.version
        decoded = REQUESTS[command.code].from_command(command)
        return self._handlers[command.code](Call(decoded, command, peer), now)

    def refusal(self, request: Request[Any]) -> Refused:
        """The refusal of a request by its handler."""
        try:
            result = self.handle(request)
        except Refused as refused:
            return refused
        raise AssertionError(f"{request} was accepted: {result}")

    def send_together(self, requests: Sequence[Request[Any]], now: int = NOW, peer: Peer = PEER) -> list[Any]:
        """One result per request; whole frames come back as the reply they hold."""
        commands = [request.to_command(opaque=number) for number, request in enumerate(requests)]
        results = self.many[commands[0].code](commands, peer, now)
        return [_reply(result) if isinstance(result, bytes) else result for result in results]

    def read_sends(
        self, data: bytes, now: int = NOW, peer: Peer = PEER, *, at_once: bool = True
    ) -> list[Any]:
        """Answers to sends that one read brings as frames: an answer each, or what was raised.

        `at_once` offers them to what takes frames first, and the rest together, as connections do; else each
        takes the general path by itself.
        """
        taken = self.handle_sends(data, peer, now) if at_once else None
        answers: list[Any] = [] if taken is None else FrameSplitter().feed(taken.answers)
        commands, _ = decode_frames(data, MAX_FRAME_BYTES, 0 if taken is None else taken.end)
        results = [self.by_rules(command, now, peer) for command in commands] if not at_once else []
        if at_once and commands:
            results = self.many[SendMessageV2.CODE](commands, peer, now)
        for command, result in zip(commands, results, strict=True):
            ended = resumed(result, now=now) if isinstance(result, Wait) else result
            answers.append(ended if isinstance(ended, Exception) else as_sent(ended, command.opaque))
        return answers

    def by_rules(self, command: Command, now: int = NOW, peer: Peer = PEER) -> Any:
        """The result of a request, or what it raises, the general path: by none of those that are shorter."""
        try:
            request = REQUESTS[command.code].from_command(command)
            return self._handlers[command.code](Call(request, command, peer), now)
        except Exception as error:
            return error

    def read(
        self, data: bytes, now: int = NOW, peer: Peer = PEER, *, at_once: bool = True
    ) -> dict[int, tuple[int, dict[str, str], str | None]]:
        """The answers to the sends, ends of transactions and acknowledgements of one read, by opaque: code,
        fields, remark.

        `at_once` offers it to what takes frames first, as connections do; else each takes the general path by
        itself.
        """
        take = self.handle_acks if data[8:23] == b'{"code":200051,' else self.handle_sends
        taken = take(data, peer, now) if at_once else None
        answers: list[Command] = [] if taken is None else FrameSplitter().feed(taken.answers)
        commands, _ = decode_frames(data, MAX_FRAME_BYTES, 0 if taken is None else taken.end)
        for command in commands:
            if at_once:
                (result,) = self.many[command.code]([command], peer, now)
            else:
                result = self.by_rules(command, now, peer)
            if command.is_oneway or result is None:
                continue
            if isinstance(result, bytes):
                answers += FrameSplitter().feed(result)
                continue
            if isinstance(result, Wait):
                result = resumed(result, now=now)
            if isinstance(result, Refused):
                answers.append(
                    Command(int(result.code), command.opaque, 1, result.extra, None, result.remark)
                )
            elif isinstance(result, Exception):
                answers.append(Command(-1, command.opaque, 1, None, None, repr(result)))
            else:
                answers.append(result.to_command(command.opaque))
        return {one.opaque: (one.code, dict(one.ext or {}), one.remark) for one in answers}

    def read_pulls(
        self, data: bytes, now: int = NOW, peer: Peer = PEER, *, at_once: bool = True
    ) -> tuple[dict[int, Command], dict[int, Wait]]:
        """The answers to the pulls of one read, and what is held of them, by opaque; `at_once` as above."""
        taken = self.handle_pulls(data, peer, now) if at_once else None
        answers = [] if taken is None else FrameSplitter().feed(taken.answers)
        held = {} if taken is None else {command.opaque: wait for command, wait in taken.results}
        commands, _ = decode_frames(data, MAX_FRAME_BYTES, 0 if taken is None else taken.end)
        for command in commands:
            try:
                request = REQUESTS[command.code].from_command(command)
                result = self._handlers[command.code](Call(request, command, peer), now)
            except Refused as refused:
                answers.append(
                    Command(int(refused.code), command.opaque, 1, refused.extra, None, refused.remark)
                )
            else:
                if isinstance(result, Wait):
                    held[command.opaque] = result
                elif result is not None:
                    answers.append(as_sent(result, command.opaque))
        return {answer.opaque: answer for answer in answers}, held

    def taken_bytes(self, data: bytes, now: int = NOW, peer: Peer = PEER) -> int:
        """Number of bytes of a read that are taken as frames."""
        taken = self.handle_sends(data, peer, now)
        return 0 if taken is None else taken.end

    def log(self) -> list[StoredMessage]:
        """All records, in the order of the log."""
        return list(self.store.log.records(0))

    def send(self, now: int = NOW, peer: Peer = PEER, **fields: Any) -> Any:
        """The result of one send."""
        (result,) = self.send_together([message(**fields)], now, peer)
        return result

    def stored(self, topic: str, queue_id: int, queue_offset: int = 0) -> StoredMessage:
        """A message of a queue, as it stands in the log."""
        found = self.store.physical_offset_of(topic, queue_id, queue_offset)
        assert found is not None, f"nothing at {topic}:{queue_id}:{queue_offset}"
        record = self.store.record_at(found[0])
        assert record is not None
        return decode_record(record)


@contextlib.contextmanager
def two_brokers(folder: Path, **properties: object) -> Iterator[tuple[RealBroker, RealBroker]]:
    """Two that are alike, to be asked the same in two ways; both have queues 0 to 3 of the topic."""
    # A disk that stalls has neither of them refuse messages.
    properties = {"osPageCacheBusyTimeOutMills": 600_000, **properties}
    pair = RealBroker(folder / "a", **properties), RealBroker(folder / "b", **properties)
    for broker in pair:
        for queue_id in range(4):
            broker.send(queue_id=queue_id)
        broker.broker.topics.note_saved()
    try:
        yield pair
    finally:
        for broker in pair:
            broker.close()


def message(**fields: Any) -> SendMessageV2:
    """A send of a Java client, with other fields where a test says so."""
    values: dict[str, Any] = {
        "producer_group": "PG",
        "topic": "TopicTest",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 1,
        "sys_flag": 0,
        "born_timestamp": NOW - 5,
        "flag": 7,
        "properties": "UNIQ_KEY\x017F000001ABCD\x02WAIT\x01true\x02TAGS\x01TagA\x02",
        "reconsume_times": 0,
        "unit_mode": False,
        "batch": False,
        "broker_name": "broker-a",
        "body": b"hello",
    }
    return SendMessageV2(**{**values, **fields})


def _reply(frame: bytes) -> SendReply:
    (command,) = FrameSplitter().feed(frame)
    assert isinstance(command, Command)
    assert command.is_response
    return SendReply.from_command(command)


def as_sent(result: Any, opaque: int) -> Command:
    """The answer as its peer reads it: of a reply, or of a whole frame."""
    frame = result if isinstance(result, bytes) else encode_command(result.to_command(opaque))
    (command,) = FrameSplitter().feed(frame)
    return command


def told(answer: Command | Exception) -> tuple[Any, ...]:
    """Frames that a peer is told, whoever wrote them and in which order."""
    if isinstance(answer, Exception):
        return (repr(answer),)
    return answer.code, answer.opaque, answer.flag, answer.ext or {}, answer.remark, answer.body or b""


def resumed(result: Any, timed_out: bool = False, now: int = NOW) -> Any:
    """The reply of a wait once it is over."""
    assert isinstance(result, Wait)
    return result.then(Outcome(timed_out) if timed_out else met(result), now)
