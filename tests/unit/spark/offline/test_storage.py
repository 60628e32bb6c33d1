"""Folders of stores: the same files, whether they are on this machine or behind fsspec."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fsspec")

import fsspec

from orbitmq.spark.errors import BadOption
from orbitmq.spark.offline import storage
from orbitmq.spark.offline.storage import Folder, expand, is_segment, open_folder

NAME = f"{0:020d}"
DATA = bytes(range(256)) * 4
Write = Callable[[str, bytes], None]


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Write]]:
    """The URL of a folder, and what writes a file into it."""
    if request.param == "local":

        def write(name: str, data: bytes) -> None:
            path = tmp_path / "store" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

        yield str(tmp_path / "store"), write
        return
    memory, root = fsspec.filesystem("memory"), f"/{tmp_path.name}/store"
    yield f"memory://{root}", lambda name, data: memory.pipe(f"{root}/{name}", data)
    if memory.exists(f"/{tmp_path.name}"):
        memory.rm(f"/{tmp_path.name}", recursive=True)


@pytest.fixture
def write(place: tuple[str, Write]) -> Write:
    return place[1]


@pytest.fixture
def folder(place: tuple[str, Write]) -> Folder:
    return open_folder(place[0])


def test_files_and_folders_are_listed_with_the_sizes_of_files(folder: Folder, write: Write) -> None:
    write(f"commitlog/{NAME}", DATA)
    write("consumequeue/b/0/x", b"1")
    write("consumequeue/a/0/x", b"12")
    assert folder.files("commitlog") == {NAME: len(DATA)}
    assert folder.folders("consumequeue") == ["a", "b"]
    assert folder.files("consumequeue") == {}


def test_what_is_not_there_has_no_files_and_cannot_be_read(folder: Folder) -> None:
    assert (folder.files("none"), folder.folders("none"), folder.stamp("none")) == ({}, [], "")
    for read in (folder.read, folder.view):
        with pytest.raises(FileNotFoundError):
            read("none")


def test_the_hole_at_the_end_of_a_file_is_not_read_and_others_are(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 20)
        file.write(b"end")
        file.truncate(6 << 20)
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 1 << 20)
    (tmp_path / "full").write_bytes(b"x" * 10_000)
    folder = open_folder(str(tmp_path))
    written = folder.read_written("sparse")
    assert len(written) < 2 << 20
    assert written.rstrip(b"\0") == b"begin" + bytes((1 << 20) - 5) + b"end"
    assert folder.read_written("hole") == b""
    assert folder.read_written("full") == b"x" * 10_000


@pytest.mark.parametrize(("begin", "end"), [(0, None), (10, None), (10, 20), (1000, 5000), (20, 10)])
def test_a_part_of_a_file_is_read(folder: Folder, write: Write, begin: int, end: int | None) -> None:
    write(NAME, DATA)
    assert folder.read(NAME, begin, end) == DATA[begin:end]


def test_a_view_has_every_byte_from_front_to_back_and_as_many_as_are_needed(
    folder: Folder, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "CHUNK_BYTES", 100)
    write(NAME, DATA)
    with folder.view(NAME) as view:
        assert view.size == len(DATA)
        for position in range(0, len(DATA), 7):
            for needed in (0, 5, 230):
                buffer, first = view.window(position, needed)
                held = bytes(buffer[position - first :])
                assert held == DATA[position : position + len(held)]
                assert len(held) >= min(max(needed, 1), len(DATA) - position)


def test_an_empty_file_can_be_looked_at(folder: Folder, write: Write) -> None:
    write(NAME, b"")
    with folder.view(NAME) as view:
        assert view.size == 0


def test_a_file_that_has_changed_has_another_stamp(folder: Folder, write: Write) -> None:
    write(NAME, DATA)
    before = folder.stamp(NAME)
    assert before == folder.stamp(NAME) != ""
    write(NAME, DATA + b"more")
    assert folder.stamp(NAME) != before


def test_a_file_is_named_so_that_people_find_it(folder: Folder, place: tuple[str, Write]) -> None:
    assert folder.path(f"commitlog/{NAME}") == f"{place[0]}/commitlog/{NAME}"


def test_a_pattern_stands_for_the_folders_that_match(place: tuple[str, Write], write: Write) -> None:
    url = place[0]
    write("broker-b/checkpoint", b"x")
    write("broker-a/checkpoint", b"x")
    write("other/checkpoint", b"x")
    write("broker-file", b"x")
    found = [one.rstrip("/").rpartition("/")[2] for one in expand(f"{url}/broker-*")]
    assert found == ["broker-a", "broker-b"]
    assert all(open_folder(one).read("checkpoint") == b"x" for one in expand(f"{url}/broker-*"))
    assert expand(f"{url}/broker-a") == [f"{url}/broker-a"]


def test_a_file_that_became_shorter_is_an_error_and_not_an_endless_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "CHUNK_BYTES", 100)
    memory, root = fsspec.filesystem("memory"), f"/{tmp_path.name}-short"
    memory.pipe(f"{root}/{NAME}", DATA)
    with open_folder(f"memory://{root}").view(NAME) as view:
        memory.pipe(f"{root}/{NAME}", DATA[:150])
        with pytest.raises(OSError, match=f"ends at 150, before its {len(DATA)} bytes"):
            view.window(0, len(DATA))
    memory.rm(root, recursive=True)


def test_a_url_that_nothing_can_read_is_a_bad_option() -> None:
    with pytest.raises(BadOption, match="nowhere://store"):
        open_folder("nowhere://store")


@pytest.mark.parametrize(
    ("name", "yes"), [(NAME, True), ("0" * 19, False), ("0" * 19 + "x", False), ("\u0660" * 20, False)]
)
def test_names_of_segments_are_twenty_digits(name: str, yes: bool) -> None:
    assert is_segment(name) is yes
