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

from orbitmq import Message, Producer
from orbitmq.net.errors import CallTimeout, NetError
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.server.lifecycle.clock import Clock
from orbitmq.testing import LocalBroker
from tests.fault.faulty_machine import FaultyMachine
from tests.kit.broker_load import Load, everything, pool_of, records, send
from tests.kit.store import NOW, bodies, filled, message, opened, run_task

STOP_SECONDS = float(os.environ.get("ORBITMQ_STOP_SECONDS", "3"))
ROOT = Path(__file__).parents[2]
HOUR_MS = 3_600_000
DELAY_SECONDS = 1.0
EVERY_HOUR = ";".join(f"{hour:02d}" for hour in range(24))

pytestmark = pytest.mark.timeout(300 + STOP_SECONDS * 3)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker of a process of its own."""
    made = LocalBroker(
        tmp_path / "store",
        own_process=True,
        timeout_seconds=120,
        flushDiskType="SYNC_FLUSH",
        messageDelayLevel=f"{DELAY_SECONDS:.0f}s",
    )
    made.start()
    yield made
    made.kill()


def later(body: str, name: str, value: object) -> SendMessageV2:
    """A message for the topic `Later` that is due later, as one of its properties says."""
    request = send(body, 0)
    request.topic = "Later"
    request.properties = f"{request.properties}{name}\x01{value}\x02"
    return request


async def until_there(address: str, expected: set[str]) -> None:
    """Waits until the topic `Later` holds all of some messages, each once."""
    async with asyncio.timeout(60):
        while True:
            found = [record.body.decode() for record in await records(address, "Later")]
            assert len(found) == len(set(found))
            if expected <= set(found):
                return
            await asyncio.sleep(0.05)


def test_a_broker_that_was_stopped_goes_on_where_it_was(broker: LocalBroker) -> None:
    async def run() -> set[str]:
        load = Load(broker.broker, "before")
        sending = asyncio.create_task(load.run())
        await load.enough.wait()
        async with pool_of() as pool:
            await pool.call(broker.broker, later("delayed", "DELAY", 1), timeout_ms=60_000)
            await pool.call(broker.broker, later("timed", "TIMER_DELAY_SEC", 2), timeout_ms=60_000)
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                at = len(load.acknowledged)
                with pytest.raises(CallTimeout):
                    await pool.call(broker.broker, send("amid", 0), timeout_ms=500)
                await asyncio.sleep(STOP_SECONDS - 0.5)
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            await pool.call(broker.broker, send("after", 0), timeout_ms=60_000)
        await until_there(broker.broker, {"delayed", "timed"})
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
    queue = broker.data_dir / "consumequeue" / "T" / "0"

    async def run() -> None:
        async with pool_of() as pool:
            await pool.call(broker.broker, send("first", 0), timeout_ms=60_000)
            # If the first file of a queue cannot be made, nothing more is accepted.
            async with asyncio.timeout(60):
                while True:
                    if list(queue.glob("*")):
                        break
                    await asyncio.sleep(0.02)
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
    broker = LocalBroker(tmp_path / "store", own_process=True, timeout_seconds=120)
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
from tests.kit.store import NOW, SEGMENT, bodies, message, options

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


def test_time_passes_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its monotonic clock stands still then: what came due would be late by as long as it slept."""
    clock = Clock()
    before = clock.now()
    real = time.clock_gettime_ns
    slept_ns = {time.CLOCK_BOOTTIME: HOUR_MS * 1_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", lambda of: real(of) + slept_ns.get(of, 0))
    assert HOUR_MS <= clock.now() - before < HOUR_MS + 600_000


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, 24 * HOUR_MS])
def test_a_clock_that_is_set_under_a_running_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_ms: int
) -> None:
    """No delay is cut short or drawn out, no segment goes early, and no id comes twice."""
    folder = tmp_path / "store" / "commitlog"
    broker = FaultyMachine(
        tmp_path / "store",
        messageDelayLevel=f"{DELAY_SECONDS:.0f}s",
        mappedFileSizeCommitLog=1 << 20,
        deleteWhen=EVERY_HOUR,
        fileReservedTime=1,
        cleanResourceInterval=50,
        deleteCommitLogFilesInterval=0,
    )

    def segments() -> list[Path]:
        return sorted(folder.iterdir())

    async def fill(producer: Producer, count: int) -> list[str]:
        """Sends, a segment with every ten messages, and gives the ids."""
        return [(await producer.send(Message("T", os.urandom(100_000)))).message_id for _ in range(count)]

    async def delayed(producer: Producer, body: str) -> float:
        """When it was sent, by the clock that nobody sets."""
        began = time.monotonic()
        await producer.send(Message("Later", body.encode(), delay_level=1))
        return began

    async def came(body: str, began: float) -> None:
        await until_there(broker.broker, {body})
        took = time.monotonic() - began
        assert took >= DELAY_SECONDS
        assert took < 60

    async def run() -> None:
        async with Producer("clock", broker.namesrv) as producer:
            # A message older than the jump tells less of it where it was set back: it would stay anyhow.
            ids = await fill(producer, 3 if jump_ms < 0 else 12)
            full_before = segments()[:-1]
            began = await delayed(producer, "before")
            broker.set_clock(jump_ms)
            monkeypatch.setattr(time, "time_ns", lambda: real() + jump_ms * 1_000_000)
            ids += await fill(producer, 20)
            for path in set(segments()[:-1]) - set(full_before):
                # The kernel would have written its new time.
                os.utime(path, (real() / 1e9 + jump_ms / 1000,) * 2)
            held = segments()
            await came("before", began)
            await came("after", await delayed(producer, "after"))
        assert len(set(ids)) == len(ids)
        assert len(held) > 2
        assert segments()[: len(held)] == held, "nothing was deleted early"

    real = time.time_ns
    broker.start()
    try:
        asyncio.run(run())
        broker.kill()
        held = segments()
        for path in held:
            os.utime(path, (1, 1))
        broker.start()
        deadline = time.monotonic() + 60
        while held[0].exists():
            assert time.monotonic() < deadline, "the same rounds delete what is old"
            time.sleep(0.02)
    finally:
        broker.kill()


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, 24 * HOUR_MS])
def test_a_clock_that_was_set_over_a_restart(tmp_path: Path, jump_ms: int) -> None:
    store = opened(tmp_path)
    last = filled(store, 80, body=bytes(3000))[-1].store_timestamp
    segments = len(store.structures.log.segments)
    store.close()
    for path in (tmp_path / "commitlog").iterdir():
        os.utime(path, (NOW / 1000 - 47 * 3600,) * 2)
    store = opened(tmp_path, NOW + jump_ms, delete_when=EVERY_HOUR, delete_commit_log_files_interval=0)
    assert store.append(message(80), NOW + jump_ms).store_timestamp >= last, "store times do not go back"
    for task in store.periodic_tasks():
        task.run(NOW + jump_ms)
    assert len(store.structures.log.segments) == segments, "nothing is deleted before its time"
    assert len(bodies(store)) == 81
    assert store.lookup.offset_by_time("T", 0, NOW + 40) == 40
    run_task(store, "retention", NOW + 26 * HOUR_MS)
    assert len(store.structures.log.segments) == 1, "and then it is"
    store.close()
