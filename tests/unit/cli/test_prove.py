"""Output of `orbitmq prove` about findings: nothing is said to be safe that was lost."""

from __future__ import annotations

import pytest

from orbitmq.cli.prove import print_findings
from orbitmq.testing.load.history import History
from orbitmq.testing.prove.seeds import Simulated
from orbitmq.testing.prove.trial import Findings


def printed(capsys: pytest.CaptureFixture[str], flush: str, *, place: int, is_there: bool) -> str:
    """After a power cut with everything below 500 on the disk, and one message at `place`."""
    history = History()
    promise = history.promise("plain0-1", "T", 0, "plain")
    history.acknowledge(promise, now_ms=900, place=place)
    history.life_ended("cut", now_ms=1_000, durable=500 if flush == "ASYNC_FLUSH" else None)
    history.check({("T", 0): ["plain0-1"] if is_there else []})
    found = Findings("OrbitMQ", {"flushDiskType": flush})
    found.take(history)
    print_findings(found)
    return capsys.readouterr().out


def test_what_is_kept_is_said_to_be_safe(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "SYNC_FLUSH", place=600, is_there=True)
    assert "Cannot be lost" in told
    assert "broken" not in told


def test_what_was_lost_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "SYNC_FLUSH", place=600, is_there=False)
    assert "Cannot be lost" not in told
    assert told.count("see below") == 2
    assert "broken 1 time:" in told


def test_what_a_power_cut_may_take_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "ASYNC_FLUSH", place=600, is_there=False)
    assert "Can be lost" in told
    words = " ".join(told.replace("│", " ").split())
    assert "at most 1 messages of the last 0.1 s" in words
    assert "every acknowledged message is in its topic yes" not in words
    assert "except for 1 message that power cuts took" in words


def test_what_a_simulated_run_broke_is_told_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = Findings("OrbitMQ", {"flushDiskType": "SYNC_FLUSH"})
    history = History()
    history.acknowledge(history.promise("plain0-1", "T", 0, "plain"), now_ms=900, place=600)
    found.take(history)
    found.simulated = Simulated(7, 3, 500, failed={"8": ["lost: plain0-2"]}, again="simulate --first")
    print_findings(found)
    told = " ".join(capsys.readouterr().out.split())
    assert "3 simulated runs, from seed 7: 500 promises kept" in told
    assert "seed 8: lost: plain0-2; again: simulate --first 8" in told
    assert not found.is_kept
    assert found.to_value()["simulated"]["failed"] == {"8": ["lost: plain0-2"]}


def test_a_broker_that_never_started_has_kept_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = Findings(
        "OrbitMQ", {"flushDiskType": "SYNC_FLUSH"}, failed="it does not start: the port is taken"
    )
    print_findings(found)
    told = capsys.readouterr().out
    assert "the port is taken" in told
    assert "yes" not in told
