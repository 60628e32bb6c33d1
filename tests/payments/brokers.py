"""The brokers of a payment trial: one, or groups whose masters are killed and come back as slaves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from orbitmq.testing import LocalBroker, LocalCluster
from tests.peers.apache import Apache
from tests.peers.controlled_group import Group

KINDS = ("orbitmq", "apache")
IN_SYNC_SECONDS = 120


class Brokers(NamedTuple):
    """What a trial needs of its brokers."""

    namesrv: str
    amid_sends: Callable[[int], None] | None = None
    """`Plan.amid_sends`: of every three kills of workers the first comes with that of a master, which is back
    before the next one."""


@contextlib.contextmanager
def one(kind: str, folder: Path) -> Iterator[Brokers]:
    """One broker that is not killed."""
    if kind == "orbitmq":
        with LocalBroker(own_process=True) as broker:
            yield Brokers(broker.namesrv)
        return
    apache = Apache.start(folder / "apache")
    try:
        yield Brokers(apache.namesrv)
    finally:
        apache.kill()


def failing_over(kind: str, folder: Path) -> contextlib.AbstractContextManager[Brokers]:
    """Two groups of OrbitMQ's, or one of two brokers of Apache's, under OrbitMQ's controllers."""
    return _ours(folder / "cluster") if kind == "orbitmq" else _apaches(folder / "cluster")


@contextlib.contextmanager
def _ours(folder: Path) -> Iterator[Brokers]:
    with LocalCluster(
        folder, masters=2, slaves=1, mode="sync-master", failover=True, timeout_seconds=IN_SYNC_SECONDS
    ) as cluster:
        killed = ""

        def amid_sends(number: int) -> None:
            nonlocal killed
            if number % 3 == 0:
                master = cluster.master("broker-a" if number % 2 else "broker-b")
                assert master is not None
                killed = master.name
                cluster.kill(killed)
            elif number % 3 == 2:
                cluster.start_node(killed)

        yield Brokers(cluster.namesrv, amid_sends)


@contextlib.contextmanager
def _apaches(folder: Path) -> Iterator[Brokers]:
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        group = Group(folder, stack)
        brokers = dict(zip(("b1", "b2"), group.brokers, strict=True))
        killed = ""

        def until_in_sync() -> None:
            alive = next(broker for broker in brokers.values() if broker.alive())
            alive.broker_process.wait_until(
                "both are in sync", lambda: group.in_sync() == len(brokers), IN_SYNC_SECONDS
            )

        def amid_sends(number: int) -> None:
            nonlocal killed
            if number % 3 == 0:
                until_in_sync()
                master = group.master()
                killed = next(name for name, broker in brokers.items() if broker.broker == master)
                brokers[killed].kill()
            elif number % 3 == 2:
                brokers[killed] = group.apaches(killed)

        until_in_sync()
        yield Brokers(group.namesrv, amid_sends)
