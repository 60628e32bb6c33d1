"""Messages by key, by place and by id, as brokers are asked for them."""

import json
from typing import Any

import pytest

from orbitmq import Message, Producer, sync
from orbitmq.admin import Admin
from orbitmq.admin.bodies import BodyTooLarge
from orbitmq.admin.messages import NoMessage, message_at, message_by_id, messages_by_key
from orbitmq.cli.app import run
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import MalformedId, pack_host
from orbitmq.protocol.records.message import COMPRESSED
from orbitmq.protocol.requests.pull import PullMessage, PullReply, QueryMessage, QueryReply, ViewMessageById
from orbitmq.testing import LocalBroker
from tests.kit.scripted_admin import alone

HOST = pack_host("127.0.0.1", 10911)


def record(topic: str = "t", queue_offset: int = 0, properties: bytes = b"", body: bytes = b"body") -> bytes:
    out = bytearray(1000)
    size = encode_record(
        out,
        0,
        queue_id=1,
        flag=0,
        queue_offset=queue_offset,
        physical_offset=0,
        sys_flag=0,
        born_timestamp=1,
        born_host=HOST,
        store_timestamp=2,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        topic=topic.encode(),
        properties=properties,
    )
    return bytes(out[:size])


async def test_only_messages_that_carry_the_key_are_given() -> None:
    body = record(properties=b"KEYS\x01k other\x02") + record(properties=b"KEYS\x01collides\x02")
    reply = QueryReply(index_last_update_timestamp=0, index_last_update_phyoffset=0, body=body)
    async with alone({QueryMessage: reply}) as peer, Admin(peer.address) as admin:
        found = await messages_by_key(admin, "t", "k")
        assert [message.keys for message in found] == [["k", "other"]]
        peer.answers[QueryMessage] = Refused(22, "can not find message")
        assert await messages_by_key(admin, "t", "k") == []


async def test_a_message_by_its_place() -> None:
    def pull(request: PullMessage) -> PullReply:
        fields = {"suggest_which_broker_id": 0, "next_begin_offset": 5, "min_offset": 0, "max_offset": 9}
        if request.queue_offset == 4:
            return PullReply(**fields, body=record(queue_offset=4))
        return PullReply(**fields, code=21)

    async with alone({PullMessage: pull}) as peer, Admin(peer.address) as admin:
        queue = MessageQueue("t", "a", 1)
        assert (await message_at(admin, queue, 4)).body == b"body"
        with pytest.raises(NoMessage, match="no message at offset 99 of queue 1 of t on a: it holds 0 up to"):
            await message_at(admin, queue, 99)
        with pytest.raises(NoMessage, match="broker b has no queues of topic t"):
            await message_at(admin, MessageQueue("t", "b", 0), 0)


async def test_a_message_by_its_id_is_asked_of_the_broker_in_the_id() -> None:
    async with alone(
        {ViewMessageById: lambda request: Refused(1, f"can not find message by the offset, {request.offset}")}
    ) as peer:
        port = int(peer.address.rpartition(":")[2])
        message_id = (pack_host("127.0.0.1", port) + (77).to_bytes(8, "big")).hex().upper()
        async with Admin(peer.address) as admin:
            with pytest.raises(Exception, match="by the offset, 77"):
                await message_by_id(admin, message_id)
            with pytest.raises(MalformedId):
                await message_by_id(admin, "zz")


def test_commands_tell_bodies_above_the_maximum_and_show_the_others(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    def sent() -> str:
        with sync.Producer("p", rocketmq.namesrv) as producer:
            producer.send(Message("cut", b"small", keys="k"))
            return producer.send(Message("cut", bytes(20_000), keys="k")).offset_message_id

    def said(*arguments: str) -> Any:
        given = ["admin", "message", *arguments, "--namesrv", rocketmq.namesrv, "--json"]
        assert run([*given, "--max-inflated-body-bytes", "10000"]) == 0
        return json.loads(capsys.readouterr().out)

    rocketmq.create_topic("cut", 1)
    message_id = sent()
    for way in (["id", message_id], ["offset", "cut", "broker-a", "0", "1"]):
        one = said(*way)
        assert one["body"] is None
        assert "more than 10000 bytes: --max-inflated-body-bytes sets" in one["bodyError"]
    assert "bodyError" not in said("offset", "cut", "broker-a", "0", "0")
    for way in (["key", "cut", "k"], ["list", "cut"]):
        assert [row["bodySize"] for row in said(*way)] == [5, None]


async def test_the_library_inflates_bodies_or_raises_the_reason(rocketmq: LocalBroker) -> None:
    rocketmq.create_topic("plain", 1)
    async with Producer("p", rocketmq.namesrv) as producer:
        sent = await producer.send(Message("plain", bytes(20_000), keys="k"))
    async with Admin(rocketmq.namesrv) as admin:
        for found in (
            await admin.view_message(sent.offset_message_id),
            await admin.message_at(sent.queue, 0),
            (await admin.query_messages("plain", "k"))[0],
        ):
            assert (found.body, found.sys_flag & COMPRESSED) == (bytes(20_000), 0)
    async with Admin(rocketmq.namesrv, max_inflated_body_bytes=10_000) as admin:
        with pytest.raises(BodyTooLarge, match="more than 10000 bytes"):
            await admin.view_message(sent.offset_message_id)
        with pytest.raises(BodyTooLarge, match="more than 10000 bytes"):
            await admin.message_at(sent.queue, 0)
        assert (await admin.query_messages("plain", "k"))[0].sys_flag & COMPRESSED
