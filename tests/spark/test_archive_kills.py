"""The archive under kill -9 of its driver, of its workers and of the broker: every message once, always.

CI kills a few times, with a pool of processes in place of Spark (`processes`): a JVM is most of the time that
a kill costs. `make nightly` kills with Spark. `ORBITMQ_ARCHIVE_KILLS=50` does it as often as that, over the
folder `ORBITMQ_ARCHIVE_KILLS_DIR`, where a run that was interrupted goes on. With `ORBITMQ_ARCHIVE_MASTER=
local-cluster[2,1,512]` executors are killed as well, which then are processes of their own.
`ORBITMQ_ARCHIVE_SEED` repeats the choices of a run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.send import SendMessage
from orbitmq.spark.jobs.archive import running
from orbitmq.spark.jobs.archive.running import ArchiveOptions, run
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.lake.lake import load, load_with_newest, locate
from orbitmq.spark.lake.storage import LakeLocation, LocalStorage
from orbitmq.testing import LocalBroker
from tests.peers.machine import REPOSITORY
from tests.spark.archive_process import WITHOUT_SPARK, Pool, WithoutSpark
from tests.spark.conftest import create_topic

CI_KILLS = 4
KILLS = int(os.environ.get("ORBITMQ_ARCHIVE_KILLS", "0")) or CI_KILLS
MASTER = os.environ.get("ORBITMQ_ARCHIVE_MASTER", "")
"""Spark's master, or `processes`, for a run that is asked for."""
MASTERS = [MASTER] if MASTER else [WITHOUT_SPARK, pytest.param("local[2]", marks=pytest.mark.nightly)]
TOPIC = "killed"
QUEUES = 4
PATIENCE_S = 600
"""For what takes seconds: it says that something hangs, on whatever machine."""

pytestmark = pytest.mark.timeout(0)

Message = tuple[int, int]
"""Queue and offset."""


class Scene:
    """A broker, somebody who sends, an archive, and what has become of them so far."""

    def __init__(self, folder: Path, master: str) -> None:
        self.folder = folder
        self.master = master
        self.lake = folder / "lake"
        self.broker = LocalBroker(folder / "store", own_process=True, timeout_seconds=PATIENCE_S)
        self.archive: subprocess.Popen[bytes] | None = None
        self.done: Counter[str] = Counter()
        self._book = folder / "kills.json"
        if self._book.exists():
            self.done.update(json.loads(self._book.read_text()))

    def note(self, kill: str) -> None:
        self.done[kill] += 1
        self._book.write_text(json.dumps(self.done))

    def start_archive(self) -> None:
        arguments = [self.broker.namesrv, TOPIC, str(self.lake), self.master]
        with (self.folder / "archive.log").open("ab") as log:
            self.archive = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.archive_process", *arguments],
                cwd=REPOSITORY,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self) -> str:
        return (self.folder / "archive.log").read_text(errors="replace")[-6000:]

    def commits(self) -> int:
        return load(LocalStorage(self.lake)).number

    def wait_for(self, what: str, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert self.archive is not None
            assert self.archive.poll() is None, f"the archive ended before {what}: {self.log()}"
            assert time.monotonic() < deadline, f"never: {what}. {self.log()}"
            time.sleep(0.02)

    def end(self) -> None:
        """Ends all processes of the archive: those of its session, which it began."""
        if self.archive is not None:
            for pid, _ in processes_of(self.archive.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.archive.wait()
            self.archive = None


class Sender:
    """Sends numbered messages, one after the other, until each is acknowledged; a broker may be away."""

    def __init__(self, broker: LocalBroker, first: int) -> None:
        self._broker = broker
        self._first = first
        self.acknowledged = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        numbers = itertools.count(self._first)
        number = next(numbers)
        while not self._over.is_set():
            with (
                contextlib.suppress(OrbitError, OSError),
                BlockingConnection(self._broker.broker) as connection,
            ):
                while not self._over.is_set():
                    connection.call(
                        SendMessage(
                            producer_group="kills",
                            topic=TOPIC,
                            default_topic="TBW102",
                            default_topic_queue_nums=QUEUES,
                            queue_id=number % QUEUES,
                            sys_flag=0,
                            born_timestamp=int(time.time() * 1000),
                            flag=0,
                            properties="",
                            body=f"message {number} ".encode() * 20,
                        )
                    )
                    self.acknowledged += 1
                    number = next(numbers)
                    self._over.wait(0.02)
            self._over.wait(0.1)


def processes_of(session: int) -> list[tuple[int, str]]:
    """Processes of a session, with their command lines: also those whose parents are dead."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append((int(entry.name), line.decode(errors="replace")))
    return found


def kill_driver(scene: Scene) -> None:
    assert scene.archive is not None
    scene.archive.kill()
    scene.archive.wait()
    check_at_rest(scene)
    scene.end()  # what of it has outlived its driver until here
    scene.start_archive()


def kill_worker(scene: Scene) -> None:
    """A Python worker, or the daemon that forks them; the task that it runs fails."""
    _kill_one_of(scene, "spawn_main" if scene.master == WITHOUT_SPARK else "pyspark.daemon")


def kill_executor(scene: Scene) -> None:
    """A JVM with all its tasks."""
    _kill_one_of(scene, "CoarseGrainedExecutorBackend")


def _kill_one_of(scene: Scene, words: str) -> None:
    assert scene.archive is not None
    victims: list[int] = []

    def there() -> bool:
        assert scene.archive is not None
        victims[:] = [pid for pid, line in processes_of(scene.archive.pid) if words in line]
        return bool(victims)

    scene.wait_for(f"a process of {words}", there)
    with contextlib.suppress(ProcessLookupError):
        os.kill(random.choice(victims), signal.SIGKILL)


def kill_broker(scene: Scene) -> None:
    scene.broker.kill()
    time.sleep(random.random())
    scene.broker.start()


WAYS: dict[str, Callable[[Scene], None]] = {
    "driver": kill_driver,
    "worker": kill_worker,
    "broker": kill_broker,
    "executor": kill_executor,
}


SHARES = {"driver": 1, "worker": 2, "broker": 2, "executor": 1}
"""A driver takes a new JVM, which is most of the time that all of this needs."""


def await_commit(scene: Scene, commits: int) -> None:
    """Waits until the archive has gone on."""
    wanted = scene.commits() + commits
    scene.wait_for("a commit after a kill", lambda: scene.commits() >= wanted)


def kill_something(scene: Scene) -> None:
    """In every way as often as is its share, in no order."""
    ways = [way for way in WAYS if way != "executor" or "cluster" in scene.master]
    fewest = min(scene.done[way] // SHARES[way] for way in ways)
    way = random.choice([way for way in ways if scene.done[way] // SHARES[way] == fewest])
    WAYS[way](scene)
    scene.note(way)
    print(f"{scene.done.total()} of {KILLS}: {way}, {scene.commits()} commits", flush=True)


def check_at_rest(scene: Scene) -> None:
    """With the driver dead: the manifests name the messages that they say they hold, and nobody sees doubles.

    Tasks that outlive their driver write to places that nobody looks at.
    """
    storage = LocalStorage(scene.lake)
    state, newest = load_with_newest(storage)
    placed, staged = locate(storage, state, newest)
    followed = Counter(message for file in [*placed, *staged] for message in rows_of(scene.lake / file.path))
    held = Counter(
        (int(queue.rpartition("|")[2]), offset)
        for (_, queue), ranges in state.held.items()
        for low, high, _ in ranges
        for offset in range(low, high)
    )
    assert followed == held
    assert max(listed(scene.lake).values(), default=1) == 1


def listed(lake: Path) -> Counter[Message]:
    """Messages that a reader finds who knows nothing of manifests."""
    paths = lake.glob("topic=*/date=*/*.parquet")
    return Counter(message for path in paths for message in rows_of(path))


def rows_of(path: Path) -> Iterator[Message]:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read(columns=["queueId", "queueOffset"])
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def stored(broker: LocalBroker) -> dict[Message, bytes]:
    """Every message of the topic, as the broker hands it out."""
    from orbitmq.spark.read.cluster import Cluster
    from orbitmq.spark.read.options import ReadOptions
    from orbitmq.spark.read.planning import OffsetRange
    from orbitmq.spark.read.reading import read_range

    options = ReadOptions.parse({"namesrv": broker.namesrv, "subscribe": TOPIC})
    found = {}
    with Cluster(options.namesrv) as cluster:
        for queue, (low, high) in cluster.bounds(cluster.readable_queues([TOPIC])).items():
            assert low == 0
            for batch in read_range(OffsetRange(queue, low, high), options, ("queueOffset", "body")):
                rows = batch.to_pydict()
                for offset, body in zip(rows["queueOffset"], rows["body"], strict=True):
                    found[queue.queue_id, offset] = body
    return found


@pytest.mark.parametrize("master", MASTERS)
def test_every_message_once_whatever_is_killed(
    master: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if master != WITHOUT_SPARK:
        request.getfixturevalue("java_for_spark")
    folder = Path(os.environ.get("ORBITMQ_ARCHIVE_KILLS_DIR", tmp_path))
    seed = int(os.environ.get("ORBITMQ_ARCHIVE_SEED", random.randrange(1 << 30)))
    random.seed(seed)
    print(f"ORBITMQ_ARCHIVE_SEED={seed}")
    scene = Scene(folder, master)
    with scene.broker:
        create_topic(scene.broker, TOPIC, QUEUES)
        before = len(stored(scene.broker))
        with Sender(scene.broker, before) as sender:
            try:
                scene.start_archive()
                while scene.done.total() < KILLS:
                    await_commit(scene, commits=1)
                    # Some kills hit what is still recovering from the one before.
                    for _ in range(random.randint(1, 4)):
                        if scene.done.total() < KILLS:
                            time.sleep(random.random() * 2)
                            kill_something(scene)
                await_commit(scene, commits=2)
            finally:
                scene.end()
        assert sender.acknowledged > 0
        check_at_rest(scene)
        setup = JobSetup(scene.broker.namesrv)
        if master == WITHOUT_SPARK:
            monkeypatch.setattr(running, "run_tasks", Pool().run_tasks)
            setup = WithoutSpark(scene.broker.namesrv)
        else:
            request.getfixturevalue("spark")
        run(ArchiveOptions(LakeLocation(str(scene.lake)), (TOPIC,), setup=setup, compact=True))
        truth = stored(scene.broker)
        bodies = in_lake(scene.lake)
        assert len(truth) >= before + sender.acknowledged
        assert listed(scene.lake) == Counter(truth.keys())
        assert bodies == truth
        state = load(LocalStorage(scene.lake))
        print(
            f"{scene.done.total()} kills ({dict(scene.done)}), {state.number} commits, "
            f"{len(truth)} messages in {len(state.files)} files, every one once"
        )


def in_lake(lake: Path) -> dict[Message, bytes]:
    """Bodies by place, from the files that the manifests name."""
    import pyarrow.parquet as pq

    found: dict[Message, bytes] = {}
    for path in load(LocalStorage(lake)).files:
        rows = pq.ParquetFile(lake / path).read(columns=["queueId", "queueOffset", "body"]).to_pydict()
        for queue_id, offset, body in zip(rows["queueId"], rows["queueOffset"], rows["body"], strict=True):
            assert (queue_id, offset) not in found
            found[queue_id, offset] = body
    return found
