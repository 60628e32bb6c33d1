"""Earlier releases, built as wheels from the commits that made them and kept: what an upgrade starts from."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.needs import do_without
from tests.peers.machine import REPOSITORY, cache

RELEASES = {"0.2.0": "a44dcdf800fd1c6973b4ba5dba6237bee98b3c67"}
"""The commit that made each version."""


def release(version: str) -> Path:
    """The unpacked wheel of a release: a folder for PYTHONPATH. Its hot modules stay interpreted, so it is
    built within seconds.

    Without the commit (a shallow clone) the test is skipped, and the end of the run says so.
    """
    commit = RELEASES[version]
    folder = cache() / f"orbitmq-{version}-{commit[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            _build(version, commit, folder)
            (folder / "done").touch()
    return folder / "site"


def _build(version: str, commit: str, folder: Path) -> None:
    for part in ("tree", "dist", "site"):
        shutil.rmtree(folder / part, ignore_errors=True)
    archive = folder / "tree.tar"
    made = subprocess.run(
        ["git", "archive", f"--output={archive}", commit], cwd=REPOSITORY, capture_output=True, text=True
    )
    if made.returncode:
        do_without(
            f"the commit {commit[:12]} that made version {version}, and this clone lacks it: "
            f"`git fetch --unshallow` brings it ({made.stderr.strip()})"
        )
    with tarfile.open(archive) as tree:
        tree.extractall(folder / "tree", filter="data")
    archive.unlink()
    subprocess.run(
        [sys.executable, "-m", "build", "-n", "--wheel", f"--outdir={folder / 'dist'}", "."],
        cwd=folder / "tree",
        env={**os.environ, "ORBITMQ_COMPILE": "0", "PYTHONPATH": ""},
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").iterdir()
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    shutil.rmtree(folder / "tree")
