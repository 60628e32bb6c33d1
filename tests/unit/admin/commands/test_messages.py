"""Messages by key, by place and by id, as brokers are asked for them."""

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.commands.messages import NoMessage, message_at, message_by_id, messages_by_key
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import MalformedId, pack_host
from orbitmq.protocol.requests.pull import PullMessage, PullReply, QueryMessage, QueryReply, ViewMessageById
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
