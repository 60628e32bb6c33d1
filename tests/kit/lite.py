"""A broker with lite topics, and clients of it, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.handling.call import Peer
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.lite import (
    LiteAction,
    LiteSubscriptionCtlBody,
    LiteSubscriptionEntry,
    OffsetOption,
)
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.lite_topics import lite_queue
from orbitmq.protocol.names import INNER_MULTI_QUEUE_OFFSET, LITE_TOPIC
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.lite import LiteReply, LiteSubscriptionCtl, PopLiteMessage
from orbitmq.protocol.requests.pop import AckMessage, ChangeMessageInvisibletime, InvisibletimeReply
from tests.kit.pop import Call, PopWorld
from tests.kit.real_broker import PEER, message

PARENT, GROUP = "Sessions", "LiteGroup"


@dataclass(frozen=True)
class LiteGot:
    """A message of a lite topic that a client got."""

    body: bytes
    lite_topic: str
    offset: int
    times: int
    handle: PopHandle
    group: str


class LiteWorld(PopWorld):
    """Actions name lite topics by their own names."""

    def __init__(self, root: Path, **properties: object) -> None:
        super().__init__(root, {"enableLmq": True, "enableMultiDispatch": True, **properties})
        topics = self.broker.topics
        topics.put(TopicConfig(PARENT, 4, 4, 6, attributes={"message.type": "LITE"}), self.now)
        topics.note_saved()
        self.group()

    def group(self, name: str = GROUP, **attributes: str) -> None:
        """Makes a lite group; attributes without their beginning `lite.sub.`, `_` for a dot."""
        bound = {f"lite.sub.{key.replace('_', '.')}": value for key, value in attributes.items()}
        config = SubscriptionGroupConfig(name, attributes={"lite.bind.topic": PARENT, **bound})
        self.broker.groups.put(config, self.now)

    def put(self, lite_topic: str, count: int = 1, **properties: str) -> list[bytes]:
        """Sends messages with numbered bodies to a lite topic."""
        bodies = []
        for _ in range(count):
            body = b"m%d" % self.sent
            self.sent += 1
            values = {"UNIQ_KEY": body.decode(), LITE_TOPIC: lite_topic, **properties}
            text = "".join(f"{name}\x01{value}\x02" for name, value in values.items())
            (sent,) = self.real.send_together([message(topic=PARENT, body=body, properties=text)], self.now)
            if isinstance(sent, Exception):
                raise sent
            bodies.append(body)
        self.turn()
        return bodies

    def tell(
        self,
        action: str,
        client: str,
        *names: str,
        group: str = GROUP,
        option: OffsetOption | None = None,
        peer: Peer = PEER,
    ) -> None:
        """Changes what a client subscribes to."""
        entry = LiteSubscriptionEntry(LiteAction(action), client, group, list(names), option, PARENT)
        self.real.handle(LiteSubscriptionCtl(LiteSubscriptionCtlBody([entry])), self.now, peer)
        self.turn()

    def add(self, client: str, *names: str, **more: Any) -> None:
        """Subscribes a client to lite topics besides those that it has."""
        self.tell("PARTIAL_ADD", client, *names, **more)

    def ask(self, client: str, *, group: str = GROUP, **fields: Any) -> Call:
        """Sends a pop, and does not wait for its reply."""
        values: dict[str, Any] = {
            "max_msg_num": 32, "invisible_time": 10_000, "poll_time": 0, "born_time": self.now, **fields
        }  # fmt: skip
        call = Call(None)
        self.took(call, self.real.handle(PopLiteMessage(client, group, PARENT, **values), self.now))
        if call.result is not None:
            self.calls.append(call)
        return call

    def take(self, client: str, *, group: str = GROUP, **fields: Any) -> list[LiteGot]:
        """The messages of a pop that does not wait."""
        return self.found(self.ask(client, group=group, **fields), group)

    @staticmethod
    def found(call: Call, group: str = GROUP) -> list[LiteGot]:
        """The messages of an answer, as a proxy reads it."""
        reply = call.reply
        assert isinstance(reply, LiteReply)
        if reply.code != ResponseCode.SUCCESS:
            assert (reply.code, reply.body) == (ResponseCode.POLLING_TIMEOUT, None)
            return []
        records, bad = decode_records(reply.body or b"")
        parts = (reply.order_count_info or "").split(";")
        assert not bad
        assert len(parts) == len(records)
        found = []
        for record, part in zip(records, parts, strict=True):
            properties = decode_properties(record.properties)
            offset = int(properties[INNER_MULTI_QUEUE_OFFSET])
            handle = PopHandle(
                0, reply.pop_time, reply.invisible_time, reply.revive_qid, 0, "broker-a", 0, offset
            )
            times = int(part.split(" ")[-1])
            found.append(LiteGot(record.body, properties[LITE_TOPIC], offset, times, handle, group))
        return found

    def settle(self, *got: LiteGot) -> None:
        """Acknowledges messages."""
        for one in got:
            self.real.handle(
                AckMessage(one.group, PARENT, 0, one.handle.to_text(), one.offset, one.lite_topic), self.now
            )
        self.turn()

    def postpone(self, one: LiteGot, ms: int, *, suspend: bool = False) -> InvisibletimeReply:
        """Changes the invisible time of a message."""
        reply = self.real.handle(
            ChangeMessageInvisibletime(
                one.group, PARENT, 0, one.handle.to_text(), one.offset, ms, one.lite_topic, suspend
            ),
            self.now,
        )
        assert isinstance(reply, InvisibletimeReply)
        self.turn()
        return reply

    def committed(self, lite_topic: str, group: str = GROUP) -> int:
        """The offset of a group in a lite topic."""
        return self.broker.offsets.get(group, lite_queue(PARENT, lite_topic), 0)
