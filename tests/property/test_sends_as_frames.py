"""Whatever sends a read brings, damaged ones too: taken as frames they come to the same as one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.frame import MAX_FRAME_BYTES, encode_command
from orbitmq.protocol.header_cy import decode_frames
from tests.property.reads import damaged, damages
from tests.unit.broker.handlers.real_broker import NOW, RealBroker, message, two_brokers

NAMES = st.sampled_from(
    [
        "UNIQ_KEY",
        "TAGS",
        "KEYS",
        "WAIT",
        "DELAY",
        "TRAN_MSG",
        "CLUSTER",
        "__SHARDINGKEY",
        "TIMER_X",
        "UNIQ_KEYS",
        "",
    ]
)
ENTRIES = st.tuples(NAMES, st.text('ab1Z-"\\/\n\b\x00\x01\x02 \u00fc', max_size=6)).map("\x01".join)
PROPERTIES = st.lists(ENTRIES, max_size=4).map(
    lambda entries: "\x02".join(["UNIQ_KEY\x017F000001ABCD", *entries])
)
SENDS = st.fixed_dictionaries(
    {"queue_id": st.sampled_from([0, 1, 1, 2, 3, 4, -1])},
    optional={
        "properties": PROPERTIES,
        "flag": st.integers(-(1 << 32), 1 << 32),
        "sys_flag": st.sampled_from([0, 0, 1, 2, 4, 8, 0x10, 0x30, 0x80]),
        "born_timestamp": st.integers(-(1 << 63), 1 << 63),
        "topic": st.sampled_from(["TopicTest", "TopicTest", "Other", "TBW102", "%RETRY%PG"]),
        "reconsume_times": st.integers(0, 2),
        "body": st.binary(max_size=600),
    },
)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealBroker, RealBroker]]:
    with two_brokers(tmp_path_factory.mktemp("brokers")) as pair:
        yield pair


@given(
    st.lists(SENDS, min_size=1, max_size=4),
    damages(500),
)
def test_frames_come_to_the_same_as_requests(brokers, sends, damage) -> None:  # type: ignore[no-untyped-def]
    commands = [message(**fields).to_command(opaque=number) for number, fields in enumerate(sends)]
    data = damaged(b"".join(map(encode_command, commands)), damage)
    first, second = brokers
    for broker in brokers:
        broker.broker.topics.note_saved()
    end = first.store.max_physical
    try:
        found, _ = decode_frames(data, MAX_FRAME_BYTES)
    except MalformedFrame:
        # The connection ends; nothing of the frame that cannot be read was stored.
        taken = first.taken_bytes(data, NOW + 1)
        found, _ = decode_frames(bytes(data[:taken]), MAX_FRAME_BYTES)
        second.read_sends(bytes(data[:taken]), NOW + 1, at_once=False)
    else:
        if any(command.code != 310 for command in found):
            return
        ours, theirs = (
            [repr(answer) for answer in broker.read_sends(data, NOW + 1, at_once=at_once)]
            for broker, at_once in ((first, True), (second, False))
        )
        assert ours == theirs
    assert list(first.store.records_from(end)) == list(second.store.records_from(end))
