"""What `orbitmq prove` prints of findings: nothing is said to be safe that was lost."""

from __future__ import annotations

import pytest

from orbitmq.cli.prove import _print
from orbitmq.testing.load.history import History
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
    _print(found)
    return capsys.readouterr().out


def test_what_is_kept_is_said_to_be_safe(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "SYNC_FLUSH", place=600, is_there=True)
    assert "Cannot be lost" in told
    assert "broken" not in told


def test_what_was_lost_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "SYNC_FLUSH", place=600, is_there=False)
    assert "Cannot be lost" not in told
    assert told.count("see below") == 2
    assert "broken 1 times" in told


def test_what_a_power_cut_may_take_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "ASYNC_FLUSH", place=600, is_there=False)
    assert "Can be lost" in told
    assert "at most 1 messages of the last 0.1 s" in " ".join(told.split())
