"""Clients that misbehave: memory stays bounded, others are served, and the offender is told or cut.

(One that does not read is left alone with what it has asked for, and cut when it is idle:
`unit/net/test_connection.py`.)

The floods are those of `python -m benchmarks.flood`, which measures them at full size.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.flood.offenders import OFFENDERS, Outcome, fill
from benchmarks.scale.probe import send_request
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.unfinished import MOST_BYTES
from orbitmq.testing import LocalBroker

SHARE = 0.004
"""Each flood has a least size, at which it still is what it is."""
TIMEOUT_MS = 120_000
BOUND_BYTES = 100 << 20
READERS_BOUND_BYTES = 32 << 20
"""For those who ask for much, 130 MB and 200 MB here, and are slow to read it: a megabyte each may wait."""
TIMES_SLOWER, AT_LEAST_SECONDS = 50, 1.0
"""Factor by which the half of all sends may be slower beside an offender, and the time that does not matter
in any case."""
ALONE = 30
BESIDE = 9
"""Sends at least: if the machine stands still for some seconds, one or two of them are slow, and not half."""
OPEN, NOT_READ = "open until they are idle for 120 s", "not read from any more"
SYSTEM_ERROR, NOT_SUPPORTED, NOT_ON_DISK, ILLEGAL = "1", "3", "10", "13"
EXPECTED: dict[str, set[str]] = {
    "slow_readers": {NOT_READ},
    "readers_of_a_megabyte_a_second": {"0"},
    "half_open": {OPEN},
    "half_frames": {OPEN, "cut"},
    "tiny_frames": {NOT_SUPPORTED},
    "large_frames": {ILLEGAL, "cut"},
    "header_bombs": {SYSTEM_ERROR, "cut"},
    "pull_of_everything": {"0"},
    "large_subscriptions": {"0", SYSTEM_ERROR, "cut"},
    "many_topics": {"0"},
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    # A slow machine may not let requests grow too old here: large frames take their time.
    patient = {"brokerFastFailureEnable": "false"}
    folder = tmp_path_factory.mktemp("flood")
    with LocalBroker(folder, own_process=True, timeout_seconds=120, **patient) as broker:
        fill(broker.broker, SHARE)
        yield broker


def memory_bytes(broker: LocalBroker) -> int:
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


@pytest.mark.parametrize("name", EXPECTED)
def test_others_are_served_in_bounded_memory(broker: LocalBroker, name: str) -> None:
    outcomes: list[Outcome] = []
    before = most = memory_bytes(broker)
    alone: list[float] = []
    beside: list[float] = []
    with BlockingConnection(broker.broker) as connection:

        def send(took: list[float]) -> None:
            began = time.monotonic()
            connection.call(send_request("Others"), TIMEOUT_MS)
            took.append(time.monotonic() - began)

        for _ in range(ALONE):
            send(alone)
        while len(beside) < BESIDE:
            offender = threading.Thread(target=lambda: outcomes.append(OFFENDERS[name](broker.broker, SHARE)))
            offender.start()
            while offender.is_alive():
                send(beside)
                most = max(most, memory_bytes(broker))
    # A new topic is told of as an error if it is in no file within seconds, which a slow disk may take.
    late = {SYSTEM_ERROR, NOT_ON_DISK} if name == "many_topics" else set[str]()
    assert all(set(outcome) - late == EXPECTED[name] - late for outcome in outcomes), outcomes
    assert statistics.median(beside) < max(AT_LEAST_SECONDS, TIMES_SLOWER * statistics.median(alone))
    # Unfinished frames may take what all of them together are allowed.
    bound = READERS_BOUND_BYTES if "readers" in name else BOUND_BYTES
    assert most - before < bound + (MOST_BYTES if name == "half_frames" else 0)


def test_every_flood_has_a_short_form() -> None:
    assert EXPECTED.keys() == OFFENDERS.keys()
