"""Defects planted into a broker, one at a time: a suite that finds none of them finds nothing.

Each is a line or two that somebody could have written. A few seeds have to be enough to find it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.acks import PopAcks
from orbitmq.broker.pop.revive import Reviver
from orbitmq.broker.transaction.transactions import Transactions
from orbitmq.server.turn.pending_replies import PendingReplies
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.recovery.missing_units import MissingUnits
from orbitmq.testing.simulation import cluster, loop
from orbitmq.testing.simulation.cluster_faults import FAULTS
from orbitmq.testing.simulation.cluster_run import run
from tests.kit.brokers import others_at_night

MOST_SEEDS = 20

Plant = Callable[[pytest.MonkeyPatch], None]
DEFECTS: dict[str, tuple[Plant, tuple[str, ...], tuple[str, ...], bool | None, dict[str, object]]] = {}
"""By name: how it is planted, the faults that show it, the rules it may break, if it needs SYNC_FLUSH, and
options."""


def defect(
    rules: str, faults: str = "kill", sync_flush: bool | None = None, **settings: object
) -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        DEFECTS[plant.__name__] = (
            plant,
            tuple(faults.split()),
            tuple(rules.split(", ")),
            sync_flush,
            settings,
        )
        return plant

    return add


def changed(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    monkeypatch.setattr(owner, name, make(getattr(owner, name)))


@defect("lost, changed, gaps", "cut_power", sync_flush=True)
def a_sync_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, CommitLog, "_sync_segments", lambda real: lambda log: None)


@defect("lost, changed, gaps", "cut_power", sync_flush=True)
def answers_do_not_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a slow disk, for otherwise one has to be lucky.
    monkeypatch.setattr(loop, "THREAD_SECONDS", 0.5)

    def hold(real: Any) -> Any:
        def held(waits: PendingReplies, *arguments: Any, **named: Any) -> None:
            real(waits, *arguments, **named)
            waits.durable(1 << 60)

        return held

    changed(monkeypatch, PendingReplies, "hold", hold)


@defect("early")
def delayed_messages_come_a_second_early(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(
        monkeypatch,
        DelayDelivery,
        "_is_due",
        lambda real: lambda delay, level, position, due, now: real(delay, level, position, due, now + 1000),
    )


@defect("doubled")
def nobody_knows_what_was_delivered_before_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, DelayDelivery, "_known_as", lambda real: lambda delay, message: None)


@defect("lost", "kill", flushDelayOffsetInterval=100)
def delay_positions_are_saved_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(real: Any) -> Any:
        def loaded(delay: DelayDelivery, text: str) -> None:
            real(delay, text)
            delay.positions = {level: position + 1 for level, position in delay.positions.items()}

        return loaded

    changed(monkeypatch, DelayDelivery, "load_text", load)


@defect("offsets", "stop")
def an_offset_goes_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(
        monkeypatch,
        OffsetTable,
        "commit",
        lambda real: (
            lambda table, group, topic, queue, offset, now: real(table, group, topic, queue, offset + 1, now)
        ),
    )


@defect("offsets", "stop")
def an_offset_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(real: Any) -> Any:
        def loaded(table: OffsetTable, text: str) -> None:
            real(table, text)
            for topics in table._stored.values():
                for queues in topics.values():
                    queues.update({queue_id: offset // 2 for queue_id, offset in queues.items()})

        return loaded

    changed(monkeypatch, OffsetTable, "load_text", load)


@defect("acked again, starved", "reset_connections")
def an_acknowledged_pop_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, PopAcks, "acknowledge_checked", lambda real: lambda *arguments: 0)


@defect("undone", "reset_connections")
def what_was_rolled_back_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    def end_all(real: Any) -> Any:
        def ended(transactions: Transactions, decisions: Any, now: int) -> Any:
            for decision in decisions:
                decision.is_commit = True
            return real(transactions, decisions, now)

        return ended

    changed(monkeypatch, Transactions, "end_all", end_all)


@defect("stuck", "reset_connections", sync_flush=True)
def a_wake_up_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, PendingReplies, "durable", lambda real: lambda waits, physical_offset: None)


@defect("lost, changed, gaps", "cut_power", sync_flush=True)
def recovery_makes_no_units(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, MissingUnits, "put", lambda real: lambda units, records: None)


@defect("starved", "reset_connections", timerWheelEnable="true")
def nobody_revives_what_was_popped(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, Reviver, "run", lambda real: lambda reviver, now, confirmed_ms: False)


ALWAYS = (
    "a_sync_is_missing",
    "delayed_messages_come_a_second_early",
    "an_acknowledged_pop_is_forgotten",
    "what_was_rolled_back_is_published",
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", others_at_night(DEFECTS, ALWAYS))
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, faults, rules, sync_flush, settings = DEFECTS[name]
    plant(monkeypatch)
    monkeypatch.setattr(cluster, "DRAIN_SECONDS", 10)
    for seed in range(MOST_SEEDS):
        outcome = run(
            seed, 8.0, is_alone=True, sync_flush=sync_flush, settings=settings,
            faults={fault: FAULTS[fault] for fault in faults},
        )  # fmt: skip
        if any(broken.rule in rules for broken in outcome.broken):
            return
    pytest.fail(f"{MOST_SEEDS} seeds, and nobody noticed")
