"""Histories of a cluster whose masters die and pause are those of one log, by Porcupine's word."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.ha import GetBrokerHaStatus
from orbitmq.testing import LocalCluster
from tests.needs import need
from tests.peers.history import Operation, Recorder, check

FAULTS = int(os.environ.get("ORBITMQ_HISTORY_FAULTS", "2"))
SECONDS_PER_FAULT = 60


def _until(is_so: Callable[[], bool], recorder: Recorder) -> None:
    """Returns once something holds; the test's own time limit ends it else."""
    while not is_so():
        assert not recorder.errors, recorder.errors
        time.sleep(0.05)


def _is_master(address: str) -> bool:
    try:
        with BlockingConnection(address) as connection:
            return bool(connection.call(GetBrokerHaStatus()).body.master)
    except OrbitError:
        return False


@pytest.mark.timeout(120 + FAULTS * SECONDS_PER_FAULT)
def test_a_cluster_whose_masters_die_and_pause_is_one_log(tmp_path: Path) -> None:
    need("etcd", "go")
    made = LocalCluster(
        tmp_path, slaves=1, mode="sync-master", flush="sync", failover=True, timeout_seconds=90
    )
    with made as cluster:
        brokers = [node for node in cluster.nodes if node.kind == "replica"]
        recorder = Recorder([node.address for node in brokers])

        def more() -> None:
            seen = recorder.acknowledged
            _until(lambda: recorder.acknowledged > seen + 30, recorder)

        recorder.start(writers=3, readers=2)
        try:
            more()
            for number in range(FAULTS):
                _until(lambda: cluster.master() is not None, recorder)
                before = cluster.master()
                assert before is not None
                other = next(node for node in brokers if node is not before)
                if number % 2:
                    os.kill(cluster.pid(before.name), signal.SIGSTOP)
                    _until(lambda other=other: _is_master(other.address), recorder)  # type: ignore[misc]
                    more()
                    os.kill(cluster.pid(before.name), signal.SIGCONT)
                else:
                    cluster.kill(before.name)
                    more()
                cluster.start()
                more()
        finally:
            recorder.stop()
        cluster.start()
        for number, node in enumerate(brokers):
            # A slave shows what its master has told it to be safe, which takes a moment.
            _until(lambda node=node: recorder.visible(node.address) >= recorder.acknowledged, recorder)  # type: ignore[misc]
            recorder.read_all(90 + number, node.address)
    assert check(recorder.operations, tmp_path) == "Ok", f"see {tmp_path / 'history.html'}"


def _history(*changes: Callable[[list[Operation]], None]) -> list[Operation]:
    """A history of one queue: three messages, the last of them without an answer, and three reads."""
    history = [
        Operation(0, "append", 0, 0, [7], call=10, ended=20),
        Operation(1, "append", 0, 1, [8], call=12, ended=25),
        Operation(0, "append", 0, -1, [9], call=30),
        Operation(2, "read", 0, 0, [7], call=15, ended=18),
        Operation(2, "read", 0, 0, [7, 8], call=40, ended=45),
        Operation(2, "read", 0, 0, [7, 8, 9], call=60, ended=70),
    ]
    for change in changes:
        change(history)
    return history


def _never_read(history: list[Operation]) -> None:
    history.pop()


def _lost(history: list[Operation]) -> None:
    history[5].values = [7, 9]


def _changed(history: list[Operation]) -> None:
    history[4].values = [8, 7]


def _gone_again(history: list[Operation]) -> None:
    history.append(Operation(1, "append", 0, 2, [10], call=80, ended=90))


def _invented(history: list[Operation]) -> None:
    history[5].values = [7, 8, 11]


def _given_twice(history: list[Operation]) -> None:
    history[1].offset = 0


def _before_it_was_sent(history: list[Operation]) -> None:
    history[3].values = [7, 8, 9]


def test_a_history_with_an_unknown_outcome_is_one_log(tmp_path: Path) -> None:
    need("go")
    assert check(_history(), tmp_path) == "Ok"
    assert check(_history(_never_read), tmp_path) == "Ok", "it was never stored"


@pytest.mark.parametrize(
    "defect", [_lost, _changed, _gone_again, _invented, _given_twice, _before_it_was_sent]
)
def test_a_history_of_no_log_is_seen(tmp_path: Path, defect: Callable[[list[Operation]], None]) -> None:
    need("go")
    assert check(_history(defect), tmp_path) == "Illegal"
    assert "<html" in (tmp_path / "history.html").read_text()
