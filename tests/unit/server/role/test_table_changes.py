"""Answers to changes of tables in controller mode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbitmq.broker.broker import Broker
from orbitmq.broker.role.in_sync import InSyncSet
from orbitmq.server.role.table_changes import TableChanges
from tests.kit.running_standalone import running


class Group:
    """A master whose in-sync set has two slaves; both have told how far they are."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.answered: list[str] = []
        self.changes = TableChanges(
            broker.promise, broker.replication.table_versions, broker.dirty_tables, self.answered.extend
        )
        self.in_sync = broker.promise.in_sync = InSyncSet()
        self.in_sync.begin(1, {1, 2, 3}, 1, 0, 1)
        broker.settings.broker_role = "SYNC_MASTER"
        broker.settings.all_ack_in_sync_state_set = True
        broker.dirty_tables.drain_soon()
        self.taken(2, 3)

    def taken(self, *broker_ids: int) -> None:
        versions = self.broker.replication.table_versions
        for broker_id in broker_ids:
            versions.taken(broker_id, versions.version)
        self.changes.answer_taken()


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    async with running(tmp_path) as here:
        yield Group(here.broker.broker)


async def test_a_change_is_answered_once_all_slaves_in_sync_have_it(group: Group) -> None:
    group.changes.saved(["topics"], is_change=True)
    group.taken(2)
    assert group.answered == []
    group.taken(3)
    assert group.answered == ["topics"]


async def test_nobody_waits_for_a_slave_that_has_left_the_set(group: Group) -> None:
    group.changes.saved(["topics"], is_change=True)
    group.taken(2)
    group.in_sync.decided({1, 2}, 2)
    group.changes.answer_taken()
    assert group.answered == ["topics"]


async def test_a_change_that_is_in_no_file_yet_is_not_answered_with_the_one_before(group: Group) -> None:
    group.changes.saved(["groups"], is_change=True)
    group.broker.dirty_tables.mark("groups")
    group.taken(2, 3)
    assert group.answered == []
    group.broker.dirty_tables.drain_soon()
    group.changes.saved(["groups"], is_change=True)
    group.taken(2, 3)
    assert group.answered == ["groups"]


async def test_tables_that_slaves_do_not_take_over_are_answered_at_once(group: Group) -> None:
    group.changes.saved(["config", "offsets", "topics"], is_change=True)
    assert group.answered == ["config", "offsets"]


async def test_what_is_written_at_its_interval_answers_no_change_that_slaves_lack(group: Group) -> None:
    group.changes.saved(["topics"], is_change=True)
    group.changes.saved(["delay", "topics"], is_change=False)
    assert group.answered == ["delay"]


async def test_where_messages_do_not_wait_for_replicas_changes_do_not_either(group: Group) -> None:
    group.broker.settings.broker_role = "ASYNC_MASTER"
    group.changes.saved(["topics"], is_change=True)
    assert group.answered == ["topics"]


async def test_a_master_that_was_replaced_answers_no_change_that_slaves_lack(group: Group) -> None:
    group.changes.saved(["topics"], is_change=True)
    group.changes.forget()
    group.taken(2, 3)
    assert group.answered == []
