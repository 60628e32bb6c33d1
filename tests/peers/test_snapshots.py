"""A copy of a live data folder, taken under load, opened by Apache's broker and by OrbitMQ."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from orbitmq import Message
from orbitmq.store.snapshot import take_snapshot
from tests.kit.brokers import others_at_night
from tests.needs import need
from tests.peers import suites
from tests.peers.apache import Apache
from tests.peers.machine import cache
from tests.peers.orbitmq_process import OrbitMQ
from tests.peers.suites import JUDGE
from tests.peers.test_files import SOON_ASKED, write

pytestmark = pytest.mark.timeout(900)

Reader: TypeAlias = type[Apache] | type[OrbitMQ]
READERS: list[Reader] = [Apache, OrbitMQ]
SEGMENT = 4 << 20
Checked: TypeAlias = "subprocess.CompletedProcess[str]"


class Load:
    """Sends to a topic of its own for as long as it is entered."""

    def __init__(self, namesrv: str) -> None:
        self.sent = 0
        self._namesrv = namesrv
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        from orbitmq import sync

        with sync.Producer("load", namesrv=self._namesrv) as producer:
            while not self._end.is_set():
                producer.send(Message("load", b"x" * 4000))
                self.sent += 1

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def opened(reader: Reader, copy: Path, notes: Path, stack: ExitStack) -> Checked:
    """The judge's word on a copy, by its notes of what clients were told."""
    server = reader.start(copy, {**SOON_ASKED, "mappedFileSizeCommitLog": SEGMENT})
    # An orderly stop takes Apache up to 20 s.
    stack.callback(server.kill if reader is Apache else server.stop)
    return subprocess.run(
        [str(JUDGE / "java" / "run.sh"), "check", server.namesrv, str(notes)],
        env=suites.environment(JUDGE_MAIN="judge.Files"),
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def checked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Reader, Future[Checked]]]:
    """A copy for each reader that this run asks for, all opened at once: nearly all of a check is waiting for
    a delayed message."""
    need("java", "mvn")
    cache()
    wanted = [item.callspec.params["reader"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    folder = tmp_path_factory.mktemp("snapshots")
    notes = folder / "notes.json"
    live = OrbitMQ.start(folder / "live", {"mappedFileSizeCommitLog": SEGMENT})
    try:
        with Load(live.namesrv) as load:
            write(live, notes)
            for reader in wanted:
                assert take_snapshot(folder / "live", folder / reader.name).linked_files > 0
        assert load.sent > 0
    finally:
        live.kill()
    with ExitStack() as stack, ThreadPoolExecutor(len(wanted)) as pool:
        yield {reader: pool.submit(opened, reader, folder / reader.name, notes, stack) for reader in wanted}


@pytest.mark.parametrize(
    "reader", others_at_night(READERS, [OrbitMQ]), ids=[reader.name for reader in READERS]
)
def test_a_copy_taken_under_load_holds_what_clients_were_told(
    reader: Reader, checked: dict[Reader, Future[Checked]]
) -> None:
    found = checked[reader].result()
    failed = [line for line in found.stdout.splitlines() if line.startswith("FAIL")]
    assert failed == [], found.stdout[-3000:]
    assert found.returncode == 0, found.stderr[-2000:]
