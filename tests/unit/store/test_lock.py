import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.store import StoreLocked
from orbitmq.store.lock import StoreLock

HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


def test_two_stores_of_a_process_exclude_each_other(tmp_path: Path) -> None:
    lock = StoreLock.acquire(tmp_path)
    with pytest.raises(StoreLocked, match="another store of this process"):
        StoreLock.acquire(tmp_path)
    lock.release()
    lock.release()
    StoreLock.acquire(tmp_path).release()


def test_a_lock_as_java_takes_it_is_seen(tmp_path: Path) -> None:
    (tmp_path / "abort").write_text("4711")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked, match=r"another broker \(process 4711\); stop it"):
            StoreLock.acquire(tmp_path)
        holder.communicate()
    StoreLock.acquire(tmp_path).release()


def test_the_refused_second_store_does_not_drop_the_first_ones_lock(tmp_path: Path) -> None:
    lock = StoreLock.acquire(tmp_path)
    with pytest.raises(StoreLocked):
        StoreLock.acquire(tmp_path)
    tried = subprocess.run(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdin=subprocess.DEVNULL, capture_output=True
    )
    assert tried.returncode != 0
    lock.release()


def test_the_file_says_lock(tmp_path: Path) -> None:
    lock = StoreLock.acquire(tmp_path)
    fd_count = len(os.listdir("/proc/self/fd"))
    assert fd_count > 0
    lock.release()
    assert (tmp_path / "lock").read_bytes() == b"lock"
