"""Whatever sends and decisions a read brings: taken as frames they come to the same as one by one.

But for op records, of which one then names all that a read decides about, and what moves with them: physical
offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.broker.transaction.records import op_offsets
from orbitmq.protocol.names import OP_HALF_TOPIC
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.remoting.command import FLAG_ONEWAY
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.transaction import EndTransaction
from tests.kit.real_broker import NOW, RealBroker, message
from tests.property.reads import on_lasting_brokers, without_repeats

NAMES = st.sampled_from(
    [
        *("TAGS", "KEYS", "WAIT", "DELAY", "TRAN_MSG", "CLUSTER", "__SHARDINGKEY", "PGROUP", "REAL_TOPIC"),
        *("CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES", "__transactionId__", "X", ""),
    ]
)
ENTRIES = st.tuples(NAMES, st.sampled_from(["a", "1", "19", "true", "false", "", "\x01", "\x02", "\u00fc"]))
WHAT = st.sampled_from(
    [
        "",
        "DELAY\x011\x02",
        "DELAY\x0118\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01PG\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01PG\x02TAGS\x01TagA\x02__SHARDINGKEY\x01k\x02",
    ]
)
PROPERTIES = st.tuples(WHAT, st.lists(ENTRIES, max_size=2, unique_by=lambda entry: entry[0])).map(
    lambda parts: without_repeats(
        "\x02".join([parts[0] + "UNIQ_KEY\x017F000001ABCD", *map("\x01".join, parts[1])])
    )
)
SENDS = st.fixed_dictionaries(
    {"properties": PROPERTIES, "queue_id": st.sampled_from([0, 1, 1, 2, 3, 4, -1])},
    optional={
        "flag": st.integers(-3, 3),
        "sys_flag": st.sampled_from([0, 4, 4, 4, 8, 12, 1, 0x84]),
        "born_timestamp": st.sampled_from([NOW - 5, NOW + 50, 0]),
        "topic": st.sampled_from(["TopicTest", "TopicTest", "Other"]),
        "body": st.binary(max_size=40) | st.just(b"b" * 2000),
    },
)
DECISIONS = st.fixed_dictionaries(
    {"decision": st.sampled_from([8, 8, 8, 12, 12, 0, 9]), "which": st.integers(-4, -1)},
    optional={
        "producer_group": st.sampled_from(["PG", "Other"]),
        "transaction_id": st.sampled_from(["", "7F000001ABCD", "7F000001ABCE"]),
        "from_transaction_check": st.booleans(),
        "shift": st.sampled_from([0, 1]),
        "oneway": st.booleans(),
    },
)
READS = st.lists(st.lists(SENDS | DECISIONS, min_size=1, max_size=5), min_size=1, max_size=4)


class Reading:
    """A broker that is sent reads, and what was said of its half messages."""

    def __init__(self, broker: RealBroker, *, at_once: bool) -> None:
        self.broker = broker
        self.at_once = at_once
        self.stored: list[dict[str, str]] = []
        self.seen = broker.store.max_physical

    def read(self, items: list[dict[str, Any]]) -> list[object]:
        commands = [self.command(item).to_command(opaque) for opaque, item in enumerate(items)]
        for command, item in zip(commands, items, strict=True):
            command.flag |= FLAG_ONEWAY if item.get("oneway") else 0
        data = b"".join(map(encode_command, commands))
        answers = self.broker.read(data, NOW + 1, at_once=self.at_once)
        for opaque in sorted(answers):
            if "msgId" in answers[opaque][1]:
                self.stored.append(answers[opaque][1])
        return [
            (opaque, code, {name: value for name, value in fields.items() if name != "msgId"}, remark)
            for opaque, (code, fields, remark) in sorted(answers.items())
        ]

    def command(self, item: dict[str, Any]) -> Any:
        if "decision" not in item:
            return message(**item)
        values: dict[str, Any] = {"producer_group": "PG", "transaction_id": "7F000001ABCD"}
        values |= {name: item[name] for name in item if name not in ("decision", "which", "shift", "oneway")}
        about = self.stored[item["which"]] if len(self.stored) >= -item["which"] else None
        return EndTransaction(
            tran_state_table_offset=int(about["queueOffset"]) + item.get("shift", 0) if about else 0,
            commit_log_offset=int(about["msgId"][-16:], 16) if about else 0,
            commit_or_rollback=item["decision"],
            msg_id="7F000001ABCD",
            **values,
        )

    def log(self) -> tuple[list[object], list[int]]:
        """Records that came into the log, but for op records; and what those name."""
        records = [
            record
            for record in self.broker.store.log.records(self.seen)
            if record.physical_offset >= self.seen
        ]
        of_half = {record.physical_offset: record.queue_offset for record in self.broker.store.log.records(0)}
        rest: list[object] = [
            (
                *(record.topic, record.queue_id, record.queue_offset, record.flag, record.sys_flag),
                *(record.born_timestamp, record.born_host, record.store_host, record.reconsume_times),
                *(record.body, self.properties(record), of_half.get(record.prepared_transaction_offset)),
            )
            for record in records
            if record.topic != OP_HALF_TOPIC
        ]
        named = [
            offset
            for record in records
            if record.topic == OP_HALF_TOPIC
            for offset in op_offsets(record.body)
        ]
        self.seen = self.broker.store.max_physical
        return rest, named

    def properties(self, record: StoredMessage) -> bytes:
        """Properties without the checksum of the record, which differs with its place."""
        if not self.broker.store.options.enabled_append_prop_crc:
            return record.properties
        assert record.properties.count(b"__CRC32#\x01") == 1
        assert record.properties[-20:].startswith(b"__CRC32#\x01")
        whole = self.broker.store.record_at(record.physical_offset)
        assert whole is not None
        decode_record(whole, check_property_crc=True)
        return record.properties[:-20]

    def state(self) -> object:
        """Known state of the half messages."""
        transactions = self.broker.broker.transactions
        figures = transactions.figures
        stats = self.broker.broker.stats
        stats.add_up()
        return (
            [transactions.window[offset] for offset in range(transactions.end)],
            *(figures.open, figures.committed, figures.rolled_back, figures.latencies),
            {topic: dict(types) for topic, types in stats.by_type.items()},
        )

    def units(self) -> list[object]:
        """The tags code of each message in a queue."""
        store = self.broker.store
        return [
            (topic, queue_id, at, unit[2])
            for topic in sorted(store.topics())
            if topic != OP_HALF_TOPIC
            for queue_id in store.queue_ids(topic)
            for at in range(store.max_offset(topic, queue_id))
            if (unit := store.physical_offset_of(topic, queue_id, at)) is not None
        ]


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH", "checksums"])
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RealBroker, RealBroker]]:
    folder = tmp_path_factory.mktemp("brokers")
    # A disk that stalls has neither of them refuse messages.
    checksums = request.param == "checksums"
    options = {
        "flushDiskType": "ASYNC_FLUSH" if checksums else request.param,
        "osPageCacheBusyTimeOutMills": 600_000,
        "enabledAppendPropCRC": checksums,
    }
    pair = tuple(RealBroker(folder / name, **options) for name in "ab")
    for broker in pair:
        for queue_id in range(4):
            broker.send(queue_id=queue_id)
        for what in ("DELAY\x011\x02", "DELAY\x0118\x02", "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"):
            for _ in range(2):
                broker.send(properties=f"{what}UNIQ_KEY\x017F000001ABCD\x02", sys_flag=4 * ("TRAN" in what))
        broker.store.flushing.flush_now()
        broker.broker.topics.note_saved()
    yield pair[0], pair[1]
    for broker in pair:
        broker.close()


@on_lasting_brokers
@given(READS)
@example([[{"properties": "UNIQ_KEY\x017F000001ABCD\x02TAGS\x01", "queue_id": 0}]])
@example([[{"properties": "UNIQ_KEY\x017F000001ABCD\x02\x02X\x02\x01a\x02", "queue_id": 0}]])
def test_frames_come_to_the_same_as_requests(brokers, reads) -> None:  # type: ignore[no-untyped-def]
    first, second = Reading(brokers[0], at_once=True), Reading(brokers[1], at_once=False)
    for items in reads:
        assert first.read(items) == second.read(items)
        for broker in brokers:
            broker.broker.topics.note_saved()
            broker.store.flushing.flush_now()
        ours, theirs = first.log(), second.log()
        assert ours[0] == theirs[0]
        assert sorted(ours[1]) == sorted(theirs[1])
        assert first.state() == second.state()
    assert first.units() == second.units()
