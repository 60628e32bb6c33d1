"""Real processes on machines that misbehave: stopped for a while, without file handles, with a limit on file
sizes, with a clock that jumps.

ORBITMQ_STOP_SECONDS (3) is for how long a broker is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.net.errors import NetError
from orbitmq.server.clock import Clock
from orbitmq.testing import LocalBroker
from tests.fault.test_broker_kill import Load, everything, pool_of, send
from tests.unit.store.kit import NOW, bodies, filled, message, opened

STOP_SECONDS = float(os.environ.get("ORBITMQ_STOP_SECONDS", "3"))
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(300 + STOP_SECONDS * 3)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker of a process of its own."""
    made = LocalBroker(tmp_path / "store", own_process=True, patience_seconds=120, flushDiskType="SYNC_FLUSH")
    made.start()
    yield made
    made.kill()


def test_a_broker_that_was_stopped_goes_on_where_it_was(broker: LocalBroker) -> None:
    async def run() -> set[str]:
        load = Load(broker.broker, "before")
        sending = asyncio.create_task(load.run())
        await load.enough.wait()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            at = len(load.acknowledged)
            await asyncio.sleep(STOP_SECONDS)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        async with pool_of() as pool:
            await pool.call(broker.broker, send("after", 0), timeout_ms=60_000)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert len(load.acknowledged) >= at
        return load.acknowledged | {"after"}

    acknowledged = asyncio.run(run())
    found = asyncio.run(everything(broker.broker))
    assert len(found) == len(set(found))
    assert acknowledged <= set(found)
    broker.kill()
    broker.start()
    assert acknowledged <= set(asyncio.run(everything(broker.broker)))


def test_without_handles_others_go_on_and_there_are_some_again_later(broker: LocalBroker) -> None:
    async def run() -> None:
        async with pool_of() as pool:
            await pool.call(broker.broker, send("first", 0), timeout_ms=60_000)
            used = len(os.listdir(f"/proc/{broker.pid}/fd"))
            soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (used + 20, hard))
            host, port = broker.broker.split(":")
            crowd = [socket.create_connection((host, int(port))) for _ in range(60)]
            try:
                await pool.call(broker.broker, send("amid", 0), timeout_ms=60_000)
            finally:
                for one in crowd:
                    one.close()
        async with asyncio.timeout(120):
            while True:
                try:
                    async with pool_of() as pool:
                        await pool.call(broker.broker, send("later", 0), timeout_ms=10_000)
                    break
                except NetError:
                    await asyncio.sleep(0.2)  # those who left are being let go of
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (soft, hard))

    asyncio.run(run())
    assert {"first", "amid", "later"} <= set(asyncio.run(everything(broker.broker)))


def test_what_a_shell_allows_is_not_the_limit_of_connections(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    broker = LocalBroker(tmp_path / "store", own_process=True, patience_seconds=120)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        broker.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        assert resource.prlimit(broker.pid, resource.RLIMIT_NOFILE) == (hard, hard)
        host, port = broker.broker.split(":")
        with contextlib.ExitStack() as crowd:
            for _ in range(300):
                crowd.enter_context(socket.create_connection((host, int(port))))

            async def run() -> None:
                async with pool_of() as pool:
                    await pool.call(broker.broker, send("amid", 0), timeout_ms=60_000)

            asyncio.run(run())
    finally:
        broker.kill()


FILE_SIZES = """
import resource, signal, sys
from pathlib import Path
from orbitmq.store import MessageStore, PutStatus
from tests.unit.store.kit import NOW, SEGMENT, bodies, message, options

root = Path(sys.argv[1])
store = MessageStore.open(options(root), NOW)
stored = 0
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (SEGMENT // 2, resource.RLIM_INFINITY))
while store.append(message(stored, body=bytes(1000)), NOW).status is PutStatus.PUT_OK:
    stored += 1
    assert stored < 500
assert len(bodies(store)) == stored
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert store.append(message(stored, body=bytes(1000)), NOW).status is PutStatus.PUT_OK
store.close()
assert len(bodies(MessageStore.open(options(root), NOW))) == stored + 1
print("stored", stored)
"""


def test_a_file_that_must_not_grow_is_an_error_to_the_sender(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILE_SIZES, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) > 10


@pytest.mark.parametrize("jump_ms", [-3_600_000, 86_400_000])
def test_a_clock_that_is_set_moves_nothing(monkeypatch: pytest.MonkeyPatch, jump_ms: int) -> None:
    clock = Clock()
    before = clock.now()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + jump_ms * 1_000_000)
    assert 0 <= clock.now() - before < 600_000


@pytest.mark.parametrize("jump_ms", [-3_600_000, 86_400_000])
def test_a_clock_that_was_set_over_a_restart(tmp_path: Path, jump_ms: int) -> None:
    store = opened(tmp_path)
    last = filled(store, 80, body=bytes(3000))[-1].store_timestamp
    segments = len(store._log.segments)
    store.close()
    store = opened(tmp_path, NOW + jump_ms)
    assert store.append(message(80), NOW + jump_ms).store_timestamp >= last, "store times do not go back"
    for chore in store.chores():
        chore.run(NOW + jump_ms)
    assert len(store._log.segments) == segments, "nothing is deleted before its time"
    assert len(bodies(store)) == 81
    assert store.offset_by_time("T", 0, NOW + 40) == 40
    store.close()
