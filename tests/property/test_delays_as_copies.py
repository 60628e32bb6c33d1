"""Whatever delayed messages come due, damaged ones too: copied within the map they come as one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.names import SCHEDULE_TOPIC
from orbitmq.store import PendingMessage
from tests.kit.real_broker import HOST, NOW, RealBroker
from tests.property.reads import on_lasting_brokers

ENTRIES = st.sampled_from(
    [
        *("REAL_TOPIC\x01TopicTest", "REAL_TOPIC\x01New", "REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC"),
        *("REAL_TOPIC\x01\u00fc", "REAL_TOPIC\x01a/b", "REAL_QID\x01000", "REAL_QID\x01-1", "REAL_QID\x01x"),
        *("REAL_QID\x013", "TAGS\x01TagA", "TAGS\x01\u00fc", "TAGS\x01", "KEYS\x01a b", "", "alone", "\x01"),
    ]
)
PROPERTIES = st.lists(ENTRIES, max_size=3).map(
    lambda entries: "\x02".join(["DELAY\x011", "REAL_TOPIC\x01TopicTest", "REAL_QID\x011", *entries])
)
WAITING = st.fixed_dictionaries(
    {"properties": PROPERTIES, "due": st.sampled_from([-1, 0, 0, 0, 1, 5000])},
    optional={
        "sys_flag": st.sampled_from([0, 1, 0x10, 4, 8, 0x80]),
        "body": st.binary(max_size=40) | st.just(b"b" * 3000),
        "damage": st.tuples(st.integers(0, 150), st.integers(1, 255)),
        "level": st.sampled_from([1, 2]),
    },
)


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH", "checksums"])
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RealBroker, RealBroker]]:
    folder = tmp_path_factory.mktemp("brokers")
    checksums = request.param == "checksums"
    flush = "ASYNC_FLUSH" if checksums else request.param
    pair = tuple(
        RealBroker(folder / name, flushDiskType=flush, enabledAppendPropCRC=checksums) for name in "ab"
    )
    for broker in pair:
        for queue_id in range(4):
            broker.send(queue_id=queue_id)
    yield pair[0], pair[1]
    for broker in pair:
        broker.close()


def wait_and_come(broker: RealBroker, waiting: list[dict[str, Any]], now: int, *, at_once: bool) -> object:
    """Fate of messages that wait, of which some are damaged meanwhile."""
    store, delay = broker.store, broker.broker.delay
    first = store.max_physical
    for one in waiting:
        stored = store.append(
            PendingMessage(
                SCHEDULE_TOPIC, one.get("level", 1) - 1, 0, one.get("sys_flag", 0), NOW, HOST, HOST, 0, 0,
                one.get("body", b"body"), one["properties"].encode(), now + one["due"],
            ),
            NOW,
        )  # fmt: skip
        if "damage" in one and stored.size:
            segment = store.structures.log.segments[-1]
            at, bits = one["damage"]
            segment.view[stored.physical_offset - segment.start + at % stored.size] ^= bits
    store.flushing.flush_now()
    come_from = store.max_physical
    reserve = store.appending.reserve
    if not at_once:
        store.appending.reserve = lambda now_ms: None  # type: ignore[method-assign]
    delay.deliver_due(now)
    store.appending.reserve = reserve  # type: ignore[method-assign]
    store.flushing.flush_now()
    delay.deliver_due(now + 10_000)
    store.flushing.flush_now()
    broker.broker.stats.add_up()
    ends = {
        (topic, queue_id): store.max_offset(topic, queue_id)
        for topic in store.topics()
        for queue_id in store.queue_ids(topic)
    }
    return (
        come_from - first,
        bytes(store.structures.log.read(come_from, store.max_physical - come_from)),
        ends,
        *(dict(delay.positions), delay.skipped, delay.snapshot()(), store.newest.physical_offset),
        {topic: dict(types) for topic, types in broker.broker.stats.by_type.items()},
    )


@on_lasting_brokers
@given(st.lists(WAITING, min_size=1, max_size=6), st.integers(0, 3))
def test_copies_are_what_comes_one_by_one(brokers, waiting, later) -> None:  # type: ignore[no-untyped-def]
    now = brokers[0].store.newest.timestamp_ms + 1000 + later
    first, second = (
        wait_and_come(broker, waiting, now, at_once=at_once)
        for broker, at_once in zip(brokers, (True, False), strict=True)
    )
    assert first == second
