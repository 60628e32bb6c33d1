"""Records that clients wrote about a message, old clients' too, as the steps of that message."""

from __future__ import annotations

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.reading.trace import Traced, traces_of
from orbitmq.client.trace.records import (
    Handled,
    MessageKind,
    after_handling,
    before_handling,
    published,
)
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.records.message import COMPRESSED
from orbitmq.protocol.requests.pull import QueryMessage, QueryReply
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from tests.kit.scripted_admin import alone

HOST = pack_host("10.0.0.9", 4711)
STORED_MS = 900
SENT = published(
    at_ms=1_000, region="R", group="makers", topic="T", message_id="M1", tags=None, keys="", store_host="b",
    body_length=4, cost_ms=7, kind=MessageKind.NORMAL, offset_message_id="O", success=True,
).text  # fmt: skip
BEFORE = before_handling(
    at_ms=2_000,
    region="R",
    group="users",
    topic="T",
    request_id="R1",
    message_id="M1",
    retry_times=2,
    keys="",
).text


def after(handled: Handled = Handled.SUCCESS, request_id: str = "R1") -> str:
    return after_handling(
        at_ms=2_500, group="users", topic="T", request_id=request_id, message_id="M1", cost_ms=40, keys="",
        handled=handled,
    ).text  # fmt: skip


def carrier(text: str, sys_flag: int = 0) -> bytes:
    """A message of the trace topic."""
    out = bytearray(5000)
    size = encode_record(
        out, 0, 0, 0, 0, 0, sys_flag, 1, HOST, STORED_MS, HOST, 0, 0, text.encode(), TRACE_TOPIC.encode(),
        b"KEYS\x01M1\x02",
    )  # fmt: skip
    return bytes(out[:size])


async def traced(*texts: str) -> list[Traced]:
    """The steps of message M1 where messages of the trace topic hold these texts."""
    body = b"".join(map(carrier, texts))
    reply = QueryReply(index_last_update_timestamp=0, index_last_update_phyoffset=0, body=body)
    async with alone({QueryMessage: reply}) as peer, Admin(peer.address) as admin:
        return await traces_of(admin, "M1")


async def test_a_message_is_sent_delivered_and_handled() -> None:
    assert await traced(SENT, BEFORE + after()) == [
        Traced("sent", 1_000, "makers", "10.0.0.9", None, 7, True),
        Traced("delivered", 2_000, "users", "10.0.0.9", 2),
        Traced("handled", 2_500, "users", "10.0.0.9", None, 40, True, "SUCCESS"),
    ]


async def test_a_trace_message_that_cannot_be_inflated_is_told_and_the_others_are_read() -> None:
    unreadable: list[str] = []
    body = carrier("no zlib", COMPRESSED) + carrier(SENT)
    reply = QueryReply(index_last_update_timestamp=0, index_last_update_phyoffset=0, body=body)
    async with alone({QueryMessage: reply}) as peer, Admin(peer.address) as admin:
        [sent] = await traces_of(admin, "M1", unreadable=unreadable)
    assert sent.step == "sent"
    assert "was not read: the zlib body cannot be inflated" in "".join(unreadable)


async def test_steps_come_by_time_and_each_once() -> None:
    steps = await traced(after(), BEFORE, SENT, SENT)
    assert [one.step for one in steps] == ["sent", "delivered", "handled"]


async def test_records_about_other_messages_are_left_out() -> None:
    assert (
        await traced(SENT.replace("M1", "M2") + BEFORE.replace("M1", "M2") + after().replace("M1", "M2"))
        == []
    )


@pytest.mark.parametrize("handled", [Handled.TIME_OUT, Handled.EXCEPTION, Handled.FAILED])
async def test_a_handler_that_failed_is_told_by_its_result(handled: Handled) -> None:
    [_, found] = await traced(BEFORE + after(handled))
    assert (found.success, found.result) == (False, handled.name)


async def test_an_old_client_leaves_group_and_time_to_what_it_said_before() -> None:
    old = "\x01".join(("SubAfter", "R1", "M1", "40", "true", "")) + "\x02"
    [_, found] = await traced(BEFORE + old)
    assert (found.group, found.at_ms, found.result) == ("users", 2_040, "SUCCESS")
    [old_one] = await traced(old.replace("true", "false"))
    assert (old_one.group, old_one.at_ms, old_one.result) == ("", STORED_MS, "FAILED")


@pytest.mark.parametrize(
    "text",
    ["", "\x02\x02", "Pub\x01M1\x02", "SubAfter\x01R1\x02", "SubBefore\x01M1", "Sub\x01M1\x02", "\xff"],
)
async def test_texts_that_are_no_records_are_left_out(text: str) -> None:
    assert [one.step for one in await traced(text + "\x02" + SENT)] == ["sent"]


async def test_where_nothing_is_traced_there_are_no_steps() -> None:
    answers = {GetRouteinfoByTopic: Refused(17, "No topic route info in name server for the topic")}
    async with alone(answers) as peer, Admin(peer.address) as admin:
        assert await traces_of(admin, "M1") == []
