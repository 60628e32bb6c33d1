"""The payment trial: some kills on PostgreSQL for every change, more databases and brokers at night."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.testing import LocalBroker
from tests.kit.outbox import database_url
from tests.needs import need
from tests.payments.brokers import failing_over
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
@pytest.mark.parametrize(
    ("kind", "broker"),
    [("postgresql", "orbitmq"), ("sqlite", "orbitmq"), ("postgresql", "apache"), ("mariadb", "apache")],
)
def test_every_transfer_is_made_once_over_failovers_of_brokers(
    kind: str, broker: str, tmp_path: Path
) -> None:
    need("etcd", *(("java", "mvn") if broker == "apache" else ()))
    with failing_over(broker, tmp_path) as brokers:
        outcome = run(
            Plan(
                brokers.namesrv,
                database_url(kind, tmp_path),
                tmp_path,
                kills=9,
                transfers=180,
                name=f"failover-{kind}",
                patience_seconds=400,
                amid_sends=brokers.amid_sends,
            )
        )
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
