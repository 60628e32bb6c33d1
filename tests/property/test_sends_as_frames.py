"""Whatever sends a read brings, damaged ones too: taken as frames they come to the same as one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.send import frames_cy
from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames
from tests.kit.real_broker import NOW, RealBroker, message, told, two_brokers
from tests.property.reads import damaged, damages, on_lasting_brokers, without_repeats

IS_COMPILED = not (frames_cy.__file__ or "").endswith(".py")
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
        "__CRC32#",
        "",
    ]
)
ENTRIES = st.tuples(NAMES, st.text('ab1Z-"\\/\n\b\x00\x01\x02 \u00fc', max_size=6)).map("\x01".join)
PROPERTIES = st.lists(ENTRIES, max_size=4).map(
    lambda entries: without_repeats("\x02".join(["UNIQ_KEY\x017F000001ABCD", *entries]))
)
LONG = st.tuples(
    st.sampled_from(["", "DELAY\x011\x02", "TRAN_MSG\x01true\x02PGROUP\x01PG\x02", "__SHARDINGKEY\x01k\x02"]),
    st.integers(31_500, 31_780) | st.integers(32_700, 32_780),
).map(lambda one: f"{one[0]}UNIQ_KEY\x017F000001ABCD\x02K\x01{'x' * one[1]}\x02")
"""Properties near their limit of 32,767 bytes, which those of the broker count for."""
MAX_BODY = 70_000
SENDS = st.fixed_dictionaries(
    {"queue_id": st.sampled_from([0, 1, 1, 2, 3, 4, -1])},
    optional={
        "properties": PROPERTIES | PROPERTIES | LONG,
        "flag": st.integers(-(1 << 32), 1 << 32),
        "sys_flag": st.sampled_from([0, 0, 1, 2, 4, 8, 0x10, 0x30, 0x80]),
        "born_timestamp": st.integers(-(1 << 63), 1 << 63),
        "topic": st.sampled_from(["TopicTest", "TopicTest", "Other", "TBW102", "%RETRY%PG"]),
        "reconsume_times": st.integers(0, 2),
        "body": st.binary(max_size=600) | st.integers(MAX_BODY - 1, MAX_BODY + 1).map(bytes),
    },
)


@pytest.fixture(scope="module", params=[False, True], ids=["as they are", "with a checksum at the end"])
def brokers(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[RealBroker, RealBroker]]:
    folder = tmp_path_factory.mktemp("brokers")
    with two_brokers(folder, maxMessageSize=MAX_BODY, enabledAppendPropCRC=request.param) as pair:
        yield pair


@on_lasting_brokers
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
            [told(answer) for answer in broker.read_sends(data, NOW + 1, at_once=at_once)]
            for broker, at_once in ((first, True), (second, False))
        )
        assert ours == theirs
    assert list(first.store.log.records(end)) == list(second.store.log.records(end))


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted, every send goes the general path")
@pytest.mark.parametrize(
    "properties",
    [
        "UNIQ_KEY\x017F000001ABCD\x02TAGS\x01a\x02",
        "UNIQ_KEY\x017F000001ABCD\x02DELAY\x011\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x017F000001ABCD\x02",
    ],
    ids=["plain", "delayed", "half"],
)
def test_usual_sends_are_taken(brokers: tuple[RealBroker, RealBroker], properties: str) -> None:
    data = encode_command(message(properties=properties).to_command())
    broker = brokers[0]
    broker.read_sends(data, NOW + 1)  # makes the queue, which no fast path does
    broker.broker.topics.note_saved()
    assert broker.taken_bytes(data * 3, NOW + 1) == 3 * len(data)
    for record in list(broker.store.log.records(0))[-3:]:
        assert (b"__CRC32#\x01" in record.properties) == broker.store.options.enabled_append_prop_crc
