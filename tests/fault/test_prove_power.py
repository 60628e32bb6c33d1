"""The record of what was synced, and what a power cut makes of it: with real files and real system calls."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.testing.prove import power

SCRIPT = """
import os, signal, sys
from pathlib import Path
from orbitmq.testing.prove.power import Recorder
root, record = Path(sys.argv[1]), Path(sys.argv[2])
Recorder(root, record).install()
def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
{body}
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_after(tmp_path: Path, body: str) -> tuple[Path, Path]:
    """A folder and its record, as a process left them that did this and was killed."""
    root, record = tmp_path / "root", tmp_path / "record"
    root.mkdir()
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(body=body), root, record], check=False)
    assert done.returncode == -9
    return root, record


def after_cuts(tmp_path: Path, root: Path, record: Path, name: str) -> set[bytes | None]:
    """Contents that 40 power cuts leave of a file."""
    found: set[bytes | None] = set()
    for seed in range(40):
        copy = tmp_path / f"cut-{seed}"
        shutil.copytree(root, copy)
        shutil.copytree(record, f"{copy}.record")
        power.cut(copy, Path(f"{copy}.record"), random.Random(seed))
        path = copy / name
        found.add(path.read_bytes() if path.exists() else None)
    return found


def test_what_was_synced_is_always_there(tmp_path: Path) -> None:
    body = "(root / 'a').write_bytes(b'x' * 10_000); sync(root / 'a'); sync(root)"
    root, record = killed_after(tmp_path, body)
    assert after_cuts(tmp_path, root, record, "a") == {b"x" * 10_000}


def test_what_was_not_synced_is_there_or_not_or_torn(tmp_path: Path) -> None:
    body = (
        "(root / 'a').write_bytes(b'x' * 8192); sync(root / 'a'); sync(root); "
        "(root / 'a').open('r+b').write(b'y' * 8192)"
    )
    root, record = killed_after(tmp_path, body)
    found = after_cuts(tmp_path, root, record, "a")
    assert b"x" * 8192 in found
    assert b"x" * 4096 + b"y" * 4096 in found, "pages get there in any order"
    assert any(one is not None and one.count(b"y") % 4096 > 0 for one in found), "a page is torn"


def test_a_new_file_that_was_never_synced_may_have_no_name(tmp_path: Path) -> None:
    root, record = killed_after(tmp_path, "(root / 'a').write_bytes(b'x')")
    assert None in after_cuts(tmp_path, root, record, "a")


def test_a_rename_lasts_only_with_its_folder(tmp_path: Path) -> None:
    body = (
        "(root / 'a').write_bytes(b'old'); sync(root / 'a'); sync(root); "
        "(root / 'b').write_bytes(b'new'); sync(root / 'b'); os.replace(root / 'b', root / 'a')"
    )
    root, record = killed_after(tmp_path, body)
    assert after_cuts(tmp_path, root, record, "a") == {b"old", b"new"}
    (again := tmp_path / "again").mkdir()
    root, record = killed_after(again, body + "; sync(root)")
    assert after_cuts(again, root, record, "a") == {b"new"}


def test_a_removed_file_may_come_back_until_its_folder_is_synced(tmp_path: Path) -> None:
    body = "(root / 'a').write_bytes(b'x'); sync(root / 'a'); sync(root); (root / 'a').unlink()"
    root, record = killed_after(tmp_path, body)
    assert after_cuts(tmp_path, root, record, "a") == {None, b"x"}


@pytest.mark.parametrize("there", [0, 3, 50], ids=["nothing of it", "a part of its size", "a half"])
def test_the_log_is_on_the_disk_up_to_the_first_message_that_is_not(tmp_path: Path, there: int) -> None:
    """However much of that one is: its size begins with zeros, as what was there before."""
    body = (
        "log = root / 'commitlog'; log.mkdir(); path = log / ('0' * 20); "
        "message = (100).to_bytes(4, 'big') + b'x' * 96; "
        f"path.write_bytes(message * 50 + message[:{there}] + bytes(5000 - {there})); sync(path); sync(log); "
        "file = path.open('r+b'); file.seek(5000); file.write(message); file.flush()"
    )
    root, record = killed_after(tmp_path, body)
    assert power.durable_offset(root, record) == 5000


@pytest.mark.timeout(600)
def test_a_configuration_is_proved(tmp_path: Path) -> None:
    """The command as a user runs it, with a configuration file and access control on."""
    config = tmp_path / "broker.conf"
    config.write_text("flushDiskType=SYNC_FLUSH\nauthenticationEnabled=true\nauthorizationEnabled=true\n")
    before = config.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq", "prove", "--config", str(config), "--for", "1s", "--seed",
        "11", "--json",
         "--set", "mappedFileSizeCommitLog=16777216"],
        capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)
    assert found["kept"]
    assert found["settings"] == {"flushDiskType": "SYNC_FLUSH"}
    assert found["kills"] + found["power_cuts"] + found["stops"] >= 2
    assert sum(found["acknowledged"].values()) > 0
    assert found["simulated"]["seeds"] > 0
    assert not found["simulated"]["failed"]
    assert not any((found["lost_to_power_cuts"] or {}).values())
    assert config.read_bytes() == before
    assert not list(tmp_path.glob("orbitmq-prove-*")), "nothing is left where all was kept"
