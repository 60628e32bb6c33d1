"""A copy of a live data folder, taken under load, opened by Apache's broker and by OrbitMQ."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from orbitmq import Message
from orbitmq.store.snapshot import take_snapshot
from tests.needs import need
from tests.peers import suites
from tests.peers.apache import Apache
from tests.peers.machine import cache
from tests.peers.orbitmq_process import OrbitMQ
from tests.peers.suites import JUDGE
from tests.peers.test_files import SOON_ASKED, write

pytestmark = pytest.mark.timeout(900)


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


@pytest.mark.parametrize("reader", [Apache, OrbitMQ], ids=["apache", "orbitmq"])
def test_a_copy_taken_under_load_holds_what_clients_were_told(reader: type, tmp_path: Path) -> None:
    need("java", "mvn")
    cache()
    live = OrbitMQ.start(tmp_path / "live", {"mappedFileSizeCommitLog": 4 << 20})
    try:
        with Load(live.namesrv) as load:
            write(live, tmp_path / "notes.json")
            figures = take_snapshot(tmp_path / "live", tmp_path / "copy")
        assert load.sent > 0
    finally:
        live.kill()
    assert figures.linked_files > 0
    opened = reader.start(tmp_path / "copy", {**SOON_ASKED, "mappedFileSizeCommitLog": 4 << 20})
    try:
        command = [str(JUDGE / "java" / "run.sh"), "check", opened.namesrv, str(tmp_path / "notes.json")]
        checked = subprocess.run(
            command,
            env=suites.environment(JUDGE_MAIN="judge.Files"),
            capture_output=True,
            text=True,
            timeout=600,
        )
        failed = [line for line in checked.stdout.splitlines() if line.startswith("FAIL")]
        assert failed == [], checked.stdout[-3000:]
        assert checked.returncode == 0, checked.stderr[-2000:]
    finally:
        opened.stop()
