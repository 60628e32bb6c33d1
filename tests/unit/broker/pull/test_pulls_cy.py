"""Pulls as frames: what the fast path takes is what the general path reads, and answers are the same."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from orbitmq.broker.pull import pulls_cy
from orbitmq.broker.pull.pulls_cy import AnswerTemplate, CachedPullPlan, handle_pulls
from orbitmq.handling.call import Wait
from orbitmq.protocol.remoting.command import FLAG_ONEWAY
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.pull import PullMessage, PullReply
from tests.kit.real_broker import PEER

IS_COMPILED = not pulls_cy.__file__.endswith(".py")
compiled_only = pytest.mark.skipif(not IS_COMPILED, reason="interpreted, every pull takes the general path")

PULL = PullMessage(
    consumer_group="CG",
    topic="T",
    queue_id=3,
    queue_offset=1 << 40,
    max_msg_nums=32,
    sys_flag=6,
    commit_offset=-1,
    suspend_timeout_millis=15_000,
    sub_version=1_795_000_000_000,
    subscription="a || b",
    expression_type="TAG",
    max_msg_bytes=1 << 18,
    broker_name="broker-a",
)


class Asked:
    """Rules that let no pull pass, and remember what they were asked about."""

    def __init__(self) -> None:
        self.plans: dict[bytes, CachedPullPlan] = {}
        self.requests: list[PullMessage] = []
        self.store: Any = None
        self.offsets: Any = None
        self.stats: Any = None

    def changes(self) -> int:
        return 0

    def look_up(self, request: PullMessage, connection_id: int, now: int) -> CachedPullPlan | None:
        self.requests.append(request)
        return None

    def suggested(self, group: object, result: object) -> int:
        raise AssertionError

    def hold(self, *_: object) -> Wait | None:
        raise AssertionError


def read(data: bytes) -> list[PullMessage]:
    """The pull at the start of a read as it is looked up; none where the general path reads it."""
    asked = Asked()
    assert handle_pulls(asked, data, PEER, 0) is None
    return asked.requests


@compiled_only
def test_a_frame_is_read_as_the_request_it_is() -> None:
    frame = encode_command(PULL.to_command(77))
    assert read(frame + b"behind") == [PULL]


@compiled_only
def test_the_wish_for_many_messages_is_read() -> None:
    wanted = copy(PULL)
    wanted.bulk = True
    assert read(encode_command(wanted.to_command(77))) == [wanted]
    wanted.bulk = False
    assert not read(encode_command(wanted.to_command(77)))


@compiled_only
@pytest.mark.parametrize(
    "damage", [(b'"3"', b'"x"'), (b'"32"', b'"+2"'), (b"queueId", b"queueiD"), (b":11,", b":12,")]
)
def test_what_is_not_as_peers_write_it_is_left(damage: tuple[bytes, bytes]) -> None:
    frame = encode_command(PULL.to_command(77))
    assert frame.count(damage[0]) == 1
    assert not read(frame.replace(*damage))


@compiled_only
def test_fields_that_are_there_twice_or_too_long_are_left() -> None:
    frame = encode_command(PULL.to_command(77))
    for name, twice in ((b"queueOffset", b"queueOffset"), (b"commitOffset", b"queueOffset")):
        header = frame[8:].replace(b'"%b":' % name, b'"%b":"1","queueOffset":' % twice)
        assert header != frame[8:]
        assert not read((len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    long = copy(PULL)
    long.subscription = "a" * 1100
    assert not read(encode_command(long.to_command(77)))


@compiled_only
def test_one_way_pulls_and_parts_of_frames_are_left() -> None:
    command = PULL.to_command(77)
    frame = encode_command(command)
    assert not any(read(frame[:end]) for end in range(len(frame)))
    command.flag = FLAG_ONEWAY
    assert not read(encode_command(command))


@pytest.mark.parametrize("numbers", [(0, 0, 0, 0, 0, 0, 0), (-1, 1 << 62, -5, 9001, 9002, 7, -(1 << 31))])
def test_an_answer_is_the_frame_of_its_reply(numbers: tuple[int, ...]) -> None:
    suggest, next_offset, low, end, topic_flag, group_flag, opaque = numbers
    reply = PullReply(
        suggest, next_offset, low, end, None, topic_flag, group_flag, body=b"records", remark="FOUND"
    )
    made = AnswerTemplate("FOUND").frame(*numbers, bytearray(b"records and more"), 7)
    assert made == encode_command(reply.to_command(opaque))
