"""Periodic tasks by role: what a master runs and a slave does not, and how they follow a change."""

from __future__ import annotations

from pathlib import Path

from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.server.lifecycle.broker_server import BrokerServer
from tests.kit.replication import group
from tests.kit.running_standalone import running
from tests.unit.server.role.test_changes import swap

OF_MASTERS = {"timers", "sample timers", "find the oldest timer", "tend slaves"}
OF_EVERY_ROLE = {"flush", "write queues", "retention", "refresh routes", "register"}


def names(server: BrokerServer) -> set[str]:
    return {task.name for task in server.periodic_tasks}


async def test_only_a_master_runs_timers_and_tends_slaves(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        first, second = both.here.broker, both.slave
        assert names(first) >= OF_MASTERS | OF_EVERY_ROLE
        assert names(second) >= OF_EVERY_ROLE
        assert not names(second) & OF_MASTERS
        await swap(both)
        assert names(second) >= OF_MASTERS | OF_EVERY_ROLE
        assert not names(first) & OF_MASTERS


async def test_a_broker_without_a_role_goes_on_with_what_its_store_needs(tmp_path: Path) -> None:
    async with running(tmp_path / "m") as here:
        await here.broker.change_role(RoleChange(Role.UNKNOWN, 0))
        assert names(here.broker) >= OF_EVERY_ROLE
        assert not names(here.broker) & OF_MASTERS
