"""Whatever batches a read brings, damaged ones too: taken as frames they come to the same as one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.send import frames_cy
from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.requests.send import SendBatchMessage
from tests.kit.real_broker import NOW, PEER, RealBroker, message, two_brokers
from tests.property.reads import damaged, damages, on_lasting_brokers

REQUESTS = json.loads(
    (Path(__file__).parent.parent / "wire" / "vectors" / "client_requests.json").read_text()
)["requests"]
IS_COMPILED = not frames_cy.__file__.endswith(".py")
ENTRIES = st.tuples(
    st.sampled_from(
        ["UNIQ_KEY", "TAGS", "TAGS", "KEYS", "DELAY", "TRAN_MSG", "WAIT", "TAGSX", "POP_CK", "CLUSTER", ""]
    ),
    st.text("ab1Z-\x01\x00\u00fc", max_size=4),
).map("\x01".join)
MESSAGES = st.tuples(
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.binary(max_size=20) | st.sampled_from([bytes(600), b"x" * 5000]),
    st.lists(ENTRIES, max_size=3).map(lambda entries: "\x02".join(entries).encode())
    | (st.integers(31_700, 31_760) | st.integers(32_700, 32_767)).map(
        lambda n: b"K\x01" + b"x" * (n - 3) + b"\x02"
    ),
)
BATCHES = st.fixed_dictionaries(
    {
        "messages": st.lists(MESSAGES, max_size=5),
        "queue_id": st.sampled_from([0, 1, 1, 3, 4, -1]),
    },
    optional={
        "properties": st.sampled_from(
            [
                "",
                "WAIT\x01true\x02",
                "WAIT\x01false",
                "KEYS\x01DELAY\x02",
                "DELAY\x011",
                "K\x01v\x02UNIQ_KEY\x017F\x02",
                "UNIQ_KEY\x017F0000010DA85FFD2B2766C123270005\x02WAIT\x01true\x02",
                "UNIQ_KEY\x01one\x02UNIQ_KEY\x01two\x02",
                "UNIQ_KEY\x01a-b\x02",
                "UNIQ_KEY\x01\x02",
                "UNIQ_KEY\x017F\n",
                "UNIQ_KEY\x02",
                "UNIQ_KEYS\x011",
                "K\x01UNIQ_KEY\x017F\x02",
                'K\x01"',
            ]
        ),
        "sys_flag": st.sampled_from([0, 0, 1, 4, 8, 0x10, 0x80]),
        "born_timestamp": st.integers(-(1 << 63), 1 << 63),
        "topic": st.sampled_from(["TopicTest", "TopicTest", "Other", "TBW102", "%RETRY%PG"]),
        "reconsume_times": st.integers(0, 2),
    },
)


def batch(messages: list[tuple[int, bytes, bytes]], **fields: Any) -> SendBatchMessage:
    plain = message()
    values = {row.name: getattr(plain, row.name) for row in type(plain).FIELDS if row.name != "body"}
    values |= {"properties": "WAIT\x01true\x02", "batch": True, "flag": 0, **fields}
    return SendBatchMessage(**values, body=encode_batch(messages))


@pytest.fixture(scope="module", params=[False, True], ids=["as they are", "with a checksum at the end"])
def brokers(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[RealBroker, RealBroker]]:
    with two_brokers(tmp_path_factory.mktemp("brokers"), enabledAppendPropCRC=request.param) as pair:
        yield pair


def known(broker: RealBroker) -> list[object]:
    """Places of messages, and their counts."""
    store, totals = broker.store, broker.broker.stats.totals
    ends = [store.max_offset("TopicTest", queue_id) for queue_id in range(4)]
    return [
        [
            store.physical_offset_of("TopicTest", queue, end - back)
            for queue, end in enumerate(ends)
            for back in range(6)
        ],
        ends,
        (totals.put_times, totals.put_messages, totals.put_size_bytes),
    ]


@on_lasting_brokers
@given(
    st.lists(BATCHES, min_size=1, max_size=3),
    damages(500),
)
def test_frames_come_to_the_same_as_requests(brokers, batches, damage) -> None:  # type: ignore[no-untyped-def]
    commands = [batch(**fields).to_command(opaque=number) for number, fields in enumerate(batches)]
    data = damaged(b"".join(map(encode_command, commands)), damage)
    first, second = brokers
    for broker in brokers:
        broker.broker.topics.note_saved()
    try:
        found, _ = decode_frames(data, MAX_FRAME_BYTES)
    except MalformedFrame:
        return
    if any(command.code != SendBatchMessage.CODE for command in found):
        return
    end = first.store.max_physical
    ours, theirs = (
        broker.read(data, NOW + 1, at_once=at_once) for broker, at_once in ((first, True), (second, False))
    )
    assert ours == theirs
    assert list(first.store.log.records(end)) == list(second.store.log.records(end))
    assert known(first) == known(second)


def test_a_header_that_cannot_be_read_is_refused_alike_alone_and_among_others(
    brokers: tuple[RealBroker, RealBroker],
) -> None:
    data = encode_command(batch([(0, b"x", b"")], born_timestamp=1 << 63).to_command(opaque=1))
    other = encode_command(batch([(0, b"y", b"")]).to_command(opaque=2))
    alone, among = (
        broker.read(data + other, NOW + 1, at_once=at_once)
        for broker, at_once in zip(brokers, (False, True), strict=True)
    )
    assert alone == among
    assert alone[1][1] == {}


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"K\x01v",
        b"K\x01v\x02",
        b"__CRC32#\x010000000000\x02",
        b"K\x01v\x02__CRC32#\x011",
        b"K\x01__CRC32#\x01\x02",
    ],
)
def test_properties_before_a_checksum(brokers: tuple[RealBroker, RealBroker], properties: bytes) -> None:
    messages = [(0, b"one", properties), (0, b"two", b"UNIQ_KEY\x0100\x02TAGS\x01a")]
    data = encode_command(batch(messages, queue_id=1).to_command(opaque=1))
    end = brokers[0].store.max_physical
    ours, theirs = (
        broker.read(data, NOW + 1, at_once=at_once)
        for broker, at_once in zip(brokers, (True, False), strict=True)
    )
    assert ours == theirs
    assert ours[1][0] == 0
    first, second = (list(broker.store.log.records(end)) for broker in brokers)
    assert len(first) == 2
    assert first == second


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted, every batch takes the general path")
def test_the_batches_of_apaches_client_are_plain(brokers: tuple[RealBroker, RealBroker]) -> None:
    body = encode_batch([(0, b"one", b"UNIQ_KEY\x0100\x02WAIT\x01true\x02")] * 2)
    [sent] = [request for request in REQUESTS if request["code"] == SendBatchMessage.CODE]
    fields = {**sent["extFields"], "b": "TopicTest"}
    data = encode_command(Command(SendBatchMessage.CODE, ext=fields, body=body, opaque=7))
    taken = brokers[0].handle_sends(data, PEER, NOW + 2)
    assert taken is not None
    assert (taken.end, taken.answered) == (len(data), 1)
    [answer], _ = decode_frames(taken.answers, MAX_FRAME_BYTES)
    assert answer.ext is not None
    assert f"UNIQ_KEY\x01{answer.ext['transactionId']}\x02" in fields["i"]
    brokers[1].handle_sends(data, PEER, NOW + 2)


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted, every batch takes the general path")
def test_plain_batches_are_taken_with_all_that_are_behind_them(
    brokers: tuple[RealBroker, RealBroker],
) -> None:
    plain = batch([(0, b"one", b"UNIQ_KEY\x0100\x02"), (7, b"", b"TAGS\x01a\x02")])
    data = b"".join(encode_command(plain.to_command(opaque=number)) for number in range(3))
    other = encode_command(batch([(0, b"x", b"")], queue_id=9).to_command())
    for broker in brokers:
        taken = broker.handle_sends(data + other, PEER, NOW + 2)
        assert taken is not None
        assert (taken.end, taken.answered) == (len(data), 3)
        assert broker.handle_sends(other, PEER, NOW + 2) is None
