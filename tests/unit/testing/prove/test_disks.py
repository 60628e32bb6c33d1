"""Disks that fill up under a running process, and have room again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.testing.prove.disks import Disks
from tests.needs import need

pytestmark = pytest.mark.timeout(600)

WRITER = """
import sys
from pathlib import Path

file = Path(sys.argv[1]).open("ab", buffering=0)
for line in sys.stdin:
    try:
        print(file.write(bytes(int(line))), flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


class Node:
    """A process that appends to a file on its disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.file = folder / "file"
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(self.file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def append(self, size: int) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["mounted", "limited"])
def disks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disks, Node]]:
    folder, nodes = tmp_path / "data", dict[str, Node]()
    disks = Disks({"node": folder}, lambda name: nodes[name].process.pid)
    if request.param == "mounted":
        need("mount")
        disks.open()
        assert disks.are_mounted
    nodes["node"] = Node(folder)
    yield disks, nodes["node"]
    nodes["node"].end()
    disks.close(keep=False)


def test_a_write_fails_while_the_disk_is_full_and_none_before_and_after(disks: tuple[Disks, Node]) -> None:
    disk, node = disks
    assert node.append(8_192) == "8192"
    disk.fill("node", 0)
    assert node.append(8_192) in ("No space left on device", "File too large")
    disk.free("node")
    assert node.append(8_192) == "8192"


def test_a_mounted_disk_has_the_room_that_was_left_and_its_files_can_be_kept(tmp_path: Path) -> None:
    need("mount")
    folder = tmp_path / "data"
    disks = Disks({"node": folder}, lambda name: 0)
    disks.open()
    node = Node(folder)
    disks.fill("node", 1 << 20)
    assert node.append(1 << 19) == str(1 << 19)
    assert node.append(1 << 20) != str(1 << 20), "a part of it, or an error"
    node.end()
    size = node.file.stat().st_size
    disks.close(keep=True)
    assert node.file.stat().st_size == size
    assert not disks.are_mounted
