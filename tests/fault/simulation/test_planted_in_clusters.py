"""Defects planted into clusters, one at a time: a suite that finds none of them finds nothing.

Each is a line or two that somebody could have written. A few seeds have to be enough to find it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.broker.role.in_sync import InSyncSet
from orbitmq.broker.role.links import Links
from orbitmq.broker.role.machine import Elected, RoleMachine
from orbitmq.broker.role.promise import Promise
from orbitmq.controller import groups
from orbitmq.controller.election import Choice
from orbitmq.controller.group import BrokerGroup, Replica
from orbitmq.controller.leases import OpenLeases
from orbitmq.testing.simulation.cluster_faults import FAULTS, elect
from orbitmq.testing.simulation.cluster_run import run
from tests.kit.brokers import others_at_night

MOST_SEEDS = 8
EVENTS = {**FAULTS, "elect": elect, "elect_again": elect}

Plant = Callable[[pytest.MonkeyPatch], None]
DEFECTS: dict[str, tuple[Plant, tuple[str, ...], tuple[str, ...], dict[str, Any]]] = {}
"""By name: how it is planted, the faults that show it, the rules it may break, and the mode."""


def defect(rules: str, faults: str, **mode: Any) -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        DEFECTS[plant.__name__] = (plant, tuple(faults.split()), tuple(rules.split(", ")), mode)
        return plant

    return add


SAFE: dict[str, Any] = {"has_controller": True, "is_sync": True, "sync_flush": True}


@defect("replicas, lost", "slow_link cut_off kill", **SAFE)
def answers_do_not_wait_for_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InSyncSet, "replicated", lambda in_sync, links: None)


@defect("replicas, lost", "slow_link kill", has_controller=False, is_sync=True, sync_flush=True)
def answers_do_not_wait_for_slaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Links, "reached_by", lambda links, slaves: 1 << 60)


@defect("leases", "elect elect_again cut_off freeze", **SAFE)
def whom_an_operator_elects_does_not_wait_for_the_master_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenLeases, "left_ms", lambda leases, group, now: 0)


@defect("epochs, lost", "cut_off freeze", **SAFE)
def a_master_goes_on_behind_its_lease_in_any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another master's epoch is taken for its own."""
    monkeypatch.setattr(RoleMachine, "may_answer", lambda machine, now: True)
    real = RoleMachine.heard

    def heard(machine: RoleMachine, elected: Elected) -> None:
        if machine._role.epoch == 0 or elected.master_id == machine.broker_id:
            real(machine, elected)
        else:
            real(machine, elected._replace(master_id=machine.broker_id, master_address="here"))

    monkeypatch.setattr(RoleMachine, "heard", heard)


@defect("epochs, lost, replicas", "cut_off kill slow_link", **SAFE)
def anybody_who_lives_is_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(group: Any, live: Any, *, first: int | None = None, **_: Any) -> Choice | None:
        if group.was_never_elected and first is not None:
            return Choice(first)
        if group.master_id in live:
            return Choice(group.master_id)
        return Choice(max(live)) if live else None

    monkeypatch.setattr(groups, "choose", choose)


@defect("blind", "silence slow_link", has_controller=True, is_sync=False, sync_flush=False, goes_blind=True)
def a_blind_master_waits_for_no_more_than_its_options_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Promise, "is_blind", False)


BLIND: dict[str, Any] = {"has_controller": True, "is_sync": True, "sync_flush": False, "goes_blind": True}


@defect("replicas, lost", "lose_a_tail", **BLIND)
def a_member_without_the_end_of_its_log_stays_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "has_all", lambda replica, run, last_run: True)


@defect("replicas, lost", "start_a_copy", **SAFE, goes_blind=True)
def a_copy_of_a_member_that_is_not_heard_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "is_elsewhere", lambda replica, address: False)


@defect("replicas, lost", "clean_group", **SAFE, goes_blind=True)
def whoever_comes_first_is_master_of_a_group_that_was_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    real = groups.BrokerGroups._choose_restored

    def choose(tables: Any, group: BrokerGroup, live: Any, **named: Any) -> Choice | None:
        return Choice(min(live)) if group.was_never_elected else real(tables, group, live, **named)

    monkeypatch.setattr(groups.BrokerGroups, "_choose_restored", choose)


@defect("replicas, lost", "lose_a_tail", **BLIND)
def an_election_counts_though_its_master_never_began(monkeypatch: pytest.MonkeyPatch) -> None:
    real = BrokerGroup.without_end_of
    monkeypatch.setattr(
        BrokerGroup, "without_end_of", lambda group, broker_id, log_epoch: real(group, broker_id, 1 << 30)
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", others_at_night(DEFECTS, ["answers_do_not_wait_for_members", "anybody_who_lives_is_elected"])
)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, faults, rules, mode = DEFECTS[name]
    plant(monkeypatch)
    chosen = {fault: EVENTS[fault] for fault in faults}
    for seed in range(1, MOST_SEEDS + 1):
        if any(broken.rule in rules for broken in run(seed, faults=chosen, **mode).broken):
            return
    pytest.fail(f"{MOST_SEEDS} seeds, and nobody noticed")
