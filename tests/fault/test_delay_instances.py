"""Several instances of the delay service: nothing is early, lost, wrong or twice, whoever holds the lease."""

from __future__ import annotations

import pytest

from orbitmq.delay_service.rules.delivery import Result
from tests.fault.test_delay_service import TARGETS, check
from tests.kit.delay_instances import Cluster, ident


def episode(cluster: Cluster, steps: int) -> None:
    chance = cluster.chance
    for number in range(steps):
        name = f"n{chance.randrange(8)}"
        after = f"{chance.choice((0, 50, 300, 900, 3000))}ms"
        action = chance.choice(("schedule", "schedule", "cancel", "move"))
        given = {"id": name, "reply": "replies"}
        if action != "schedule":
            given["action"] = action
        if action != "cancel":
            given["after"] = after
        if action == "schedule":
            given["topic"] = chance.choice(TARGETS)
        cluster.send(b"%d" % number, **given)
        cluster.now += chance.choice((0, 10, 100, 400))
        if chance.random() < 0.1:
            target = chance.choice(("main/a", "main/b", "events/c"))
            cluster.down[target] = chance.choice((Result.FAILED, Result.NOT_SENT, Result.SENT))
        cluster.step(chance.choice((1, 3, 512)))
    cluster.down.clear()
    for _ in range(90):
        cluster.now += 1000
        cluster.step(calm=True)


def run(folder, seed: int, steps: int) -> Cluster:
    cluster = Cluster(folder, seed)
    episode(cluster, steps)
    check(cluster, ident)
    states = [
        sorted(
            (key, value)
            for first in (b"P", b"N", b"G")
            for key, value in one.store.items(first, first + b"\xff")
        )
        for one in cluster.instances
    ]
    assert [len(state) for state in states] == [len(states[0])] * len(states)
    cluster.close()
    return cluster


@pytest.mark.parametrize("seed", range(4))
def test_instances_take_over_from_each_other(tmp_path, seed):
    cluster = run(tmp_path, seed, 150)
    assert cluster.happened["elected"] > 2
    assert cluster.happened["paused"]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_many_seeds(tmp_path):
    for seed in range(100, 300):
        run(tmp_path / str(seed), seed, 300)
