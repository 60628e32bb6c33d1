"""The payment trial: some kills on PostgreSQL for every change, more databases and brokers at night."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.testing import LocalBroker
from orbitmq.testing.local_cluster import LocalCluster
from tests.needs import need
from tests.payments.__main__ import database_url
from tests.payments.trial import Plan, run


@pytest.mark.parametrize(
    ("kind", "broker"),
    [
        ("postgresql", "rocketmq"),
        pytest.param("postgresql", "apache", marks=pytest.mark.nightly),
        pytest.param("mariadb", "rocketmq", marks=pytest.mark.nightly),
        pytest.param("sqlite", "rocketmq", marks=pytest.mark.nightly),
    ],
)
def test_every_transfer_is_made_once_over_kills_and_a_redrive(
    kind: str, broker: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    namesrv = request.getfixturevalue(broker).namesrv
    url = database_url(kind, tmp_path)
    outcome = run(Plan(namesrv, url, tmp_path, kills=2, transfers=20, name=f"payments-{kind}"))
    assert outcome.wrong == []
    assert outcome.twice == []
    assert outcome.is_right
    assert (outcome.kills, outcome.wanted) == (2, 20)
    assert outcome.dead_letters > 0


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_every_transfer_is_made_once_over_failovers_of_brokers(kind: str, tmp_path: Path) -> None:
    need("etcd")
    killed: list[str] = []
    with LocalCluster(
        tmp_path / "cluster", masters=2, slaves=1, mode="sync-master", failover=True, timeout_seconds=120
    ) as cluster:

        def fail_over(number: int) -> None:
            """Kills a master in the middle of the work; it comes back later, and follows the new one."""
            if killed and number % 3 == 2:
                cluster.start_node(killed[-1])
            if number % 3 == 0:
                master = cluster.master("broker-a" if number % 2 else "broker-b")
                assert master is not None
                cluster.kill(master.name)
                killed.append(master.name)

        plan = Plan(
            cluster.namesrv,
            database_url(kind, tmp_path),
            tmp_path,
            kills=9,
            transfers=180,
            name=f"failover-{kind}",
            patience_seconds=400,
            after_kill=fail_over,
        )
        outcome = run(plan)
        assert len(killed) == 3
    assert outcome.wrong == []
    assert outcome.twice == []
    assert outcome.is_right
    assert (outcome.kills, outcome.wanted) == (9, 180)
    assert outcome.dead_letters > 0


def test_without_once_the_balances_are_wrong(rocketmq: LocalBroker, tmp_path: Path) -> None:
    url = database_url("sqlite", tmp_path)
    outcome = run(
        Plan(rocketmq.namesrv, url, tmp_path, kills=0, transfers=10, with_once=False, name="payments-wrong")
    )
    assert len(outcome.made) == 10
    assert outcome.twice
    assert outcome.wrong
    assert not outcome.is_right
