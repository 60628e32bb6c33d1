"""Tables that a slave takes over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.broker.master_tables import MasterProgress, MasterTables
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.offset import ConsumerOffsetSerializeWrapper
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.store.recovery.deleted_topics import LogEnd
from orbitmq.store.timer.check_point import TimerFields

NOW = 1_700_000_000_000


class Topics:
    """A slave's own topics, A and B, of epoch 3."""

    def __init__(self) -> None:
        self.by_name = {"A", "B"}
        self.version = DataVersion(1, 3, NOW)
        self.static = StaticMappings("broker-a", DirtyTables(), NOW)

    def replace(self, text: str) -> None:
        body = TopicConfigAndMappingSerializeWrapper.from_json(text)
        self.by_name, self.version = set(body.topic_config_table), body.data_version


class Slave:
    """A broker whose log ends, and is on its disk, at places of the test's own."""

    def __init__(self, end: int, durable: int) -> None:
        self.taken: list[tuple[str, Any]] = []
        self.store = SimpleNamespace(
            max_physical=end,
            durable_offset=durable,
            log_end=LogEnd,
            timers=SimpleNamespace(follow=lambda fields: self.taken.append(("timers", fields))),
        )
        self.delay = SimpleNamespace(
            follow=lambda text, asked_at, log_end, keeps_own: self.taken.append((text, asked_at))
        )
        self.settings = SimpleNamespace(enable_slave_acting_master=False)
        self.offsets = OffsetTable(DirtyTables(), NOW)
        self.mastership = SimpleNamespace(has_lost_pops=False)
        self.topics = Topics()
        self.deleted: list[tuple[str, int]] = []
        self.store.structures = SimpleNamespace(
            delete_queues=lambda topic, before: self.deleted.append((topic, before))
        )
        self.deletions = Deletions(DirtyTables())
        self.without_lite: list[str] = []
        self.lite_expiry = SimpleNamespace(
            delete_all_of=lambda topic, now, before: self.without_lite.append(topic)
        )

    def tables(self) -> MasterTables:
        return MasterTables(self)  # type: ignore[arg-type]


def progress(text: str, log_end: int) -> MasterProgress:
    return MasterProgress(TimerFields(read_ms=log_end), text, 10, log_end)


def test_positions_count_once_all_that_they_tell_of_is_in_the_log_and_on_the_disk() -> None:
    """A broker that is elected before lacks deliveries, and would pass over their messages."""
    slave = Slave(end=90, durable=50)
    tables = slave.tables()
    tables.progress(progress("first", 100))
    slave.store.max_physical = 100
    assert not tables.apply_held()
    assert not slave.taken
    slave.store.durable_offset = 100
    assert tables.apply_held()
    assert slave.taken == [("timers", TimerFields(read_ms=100)), ("first", 10)]
    assert tables.apply_held()
    assert len(slave.taken) == 2


def test_what_was_said_before_counts_while_the_log_is_behind_what_was_said_last() -> None:
    slave = Slave(end=90, durable=90)
    tables = slave.tables()
    tables.progress(progress("first", 100))
    slave.store.max_physical = slave.store.durable_offset = 110
    tables.progress(progress("second", 120))
    assert [one for one, _ in slave.taken] == ["timers", "first"]


def test_positions_of_another_master_are_forgotten() -> None:
    slave = Slave(end=90, durable=90)
    tables = slave.tables()
    tables.progress(progress("first", 100))
    tables.forget_held()
    slave.store.max_physical = slave.store.durable_offset = 110
    assert tables.apply_held()
    assert not slave.taken


def offsets(queue_offset: int) -> ConsumerOffsetSerializeWrapper:
    return ConsumerOffsetSerializeWrapper({"T@G": {0: queue_offset}})


def test_offsets_count_once_the_log_holds_what_they_rest_on() -> None:
    """A slave that became master before lacked check points of pops, and never delivered their messages."""
    slave = Slave(end=90, durable=0)
    tables = slave.tables()
    tables.offsets(offsets(5), 100, NOW)
    assert not tables.apply_held_offsets(NOW)
    assert slave.offsets.get("G", "T", 0) == -1
    slave.store.max_physical = 100
    assert tables.apply_held_offsets(NOW)
    assert slave.offsets.get("G", "T", 0) == 5


def test_a_slave_that_is_always_a_little_behind_gets_offsets() -> None:
    slave = Slave(end=90, durable=0)
    tables = slave.tables()
    for number in range(1, 6):
        tables.offsets(offsets(number), 90 + 10 * number, NOW)
        slave.store.max_physical += 8
    assert slave.offsets.get("G", "T", 0) == 3


@pytest.mark.parametrize(("was_cut", "offset"), [(False, 7), (True, 5)])
def test_a_broker_whose_log_was_cut_takes_its_masters_offsets_though_its_own_are_larger(
    was_cut: bool, offset: int
) -> None:
    """Its own had moved over pops whose check points were cut off."""
    slave = Slave(end=100, durable=0)
    slave.offsets.store("G", "T", 0, 7, NOW)
    slave.mastership.has_lost_pops = was_cut
    tables = slave.tables()
    tables.offsets(offsets(5), 100, NOW)
    assert slave.offsets.get("G", "T", 0) == offset
    assert not slave.mastership.has_lost_pops


def test_offsets_of_another_master_are_forgotten() -> None:
    slave = Slave(end=90, durable=0)
    tables = slave.tables()
    tables.offsets(offsets(5), 100, NOW)
    tables.forget_held()
    slave.store.max_physical = 100
    assert tables.apply_held_offsets(NOW)
    assert slave.offsets.get("G", "T", 0) == -1


@pytest.mark.parametrize(("epoch", "deleted"), [(3, ["B"]), (4, [])])
def test_queues_go_with_a_topic_that_the_same_master_has_deleted(epoch: int, deleted: list[str]) -> None:
    """A new master may not have heard of a topic, and have delivered messages there: they were lost."""
    slave = Slave(end=0, durable=0)
    told = TopicConfigAndMappingSerializeWrapper(
        topic_config_table={"A": TopicConfig("A")}, data_version=DataVersion(2, epoch, NOW)
    )
    slave.tables().topics(told, 7, NOW + 5_000)
    assert slave.topics.by_name == {"A"}
    assert list(slave.deletions.by_topic) == slave.without_lite == deleted
    # What came while the master was asked may be for a topic that it has made anew.
    assert slave.deleted == [(topic, 7) for topic in deleted]
    assert all((one.log_end, one.time_ms) == (7, NOW) for one in slave.deletions.by_topic.values())
