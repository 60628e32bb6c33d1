"""Every declared request and reply: there and back, and any header is taken or refused with a remark."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.errors import MalformedJson, MalformedReply, Refused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.every import REQUESTS

CLASSES = sorted(REQUESTS.values(), key=lambda request: request.CODE)
REPLIES = sorted({request.REPLY for request in CLASSES}, key=lambda reply: reply.__name__)

values = {
    "str": st.text(max_size=8),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "bool": st.booleans(),
    "bytes": st.binary(min_size=1, max_size=8),
    "either": st.binary(min_size=1, max_size=8),
}


def _fields(draw, cls):
    drawn = {}
    for row in cls.FIELDS:
        if row.kind == "meta":
            continue
        strategy = values[row.kind] if row.kind in values else st.builds(row.body_class)
        drawn[row.name] = draw(st.none() | strategy if row.optional else strategy)
    return drawn


@given(st.data(), st.sampled_from(CLASSES))
def test_requests(data, cls) -> None:
    request = cls(**_fields(data.draw, cls))
    command = request.to_command(5)
    assert command.code == cls.CODE
    assert cls.from_command(command) == request


@given(st.data(), st.sampled_from(REPLIES))
def test_replies(data, cls) -> None:
    reply = cls(**_fields(data.draw, cls))
    again = cls.from_command(reply.to_command(5))
    again.extra = None
    assert again == reply


@given(
    st.sampled_from(CLASSES),
    st.dictionaries(st.text(max_size=6), st.text(max_size=20), max_size=3),
    st.lists(st.text(max_size=20) | st.integers().map(str), min_size=20, max_size=20),
    st.none() | st.binary(max_size=20),
)
def test_any_header(cls, others, texts, body) -> None:
    names = [row.wire_name for row in cls.FIELDS]
    command = Command(cls.CODE, ext={**others, **dict(zip(names, texts, strict=False))}, body=body)
    refused = None
    try:
        cls.from_command(command).to_command()
    except Refused as error:
        refused = error
    if refused is not None:
        assert refused.code == 1
        assert refused.remark
    with contextlib.suppress(MalformedReply, MalformedJson):
        cls.REPLY.from_command(command)
