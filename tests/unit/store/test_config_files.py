from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbitmq import failpoints
from orbitmq.store.config_files import backup_path, read_text, write_text


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def die() -> None:
    raise KeyboardInterrupt


def test_nothing_there_is_no_text(tmp_path: Path) -> None:
    found = read_text(tmp_path / "topics.json", is_json)
    assert found.text is None
    assert found.source is None


def test_the_one_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    write_text(path, '{"a":1}')
    assert not backup_path(path).exists()
    write_text(path, '{"a":2}')
    assert read_text(path, is_json).text == '{"a":2}'
    assert backup_path(path).read_text() == '{"a":1}'
    assert not list(path.parent.glob("*.tmp"))


@pytest.mark.parametrize("torn", [b"", b"\x00" * 100, b'{"a":', b'{"a":1}}', b"\xff\xfe"])
def test_a_torn_file_gives_way_to_the_one_before(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "consumerOffset.json"
    write_text(path, '{"offsetTable":{"T@G":{"0":4}}}')
    write_text(path, '{"offsetTable":{"T@G":{"0":5}}}')
    path.write_bytes(torn)
    found = read_text(path, is_json)
    assert found.text == '{"offsetTable":{"T@G":{"0":4}}}'
    assert found.source == backup_path(path)


def test_a_file_between_apaches_two_steps_is_found_as_backup(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    backup_path(path).write_text('{"x":"}"}')
    assert read_text(path, is_json).text == '{"x":"}"}'


def test_if_both_are_torn_the_reader_gets_to_see_it(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text('{"a"')
    backup_path(path).write_text('{"b"')
    assert read_text(path, is_json).text == '{"a"'


def test_a_torn_file_does_not_become_the_backup_if_it_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    write_text(path, '{"a":1}')
    write_text(path, '{"a":2}')
    path.write_bytes(b"")
    write_text(path, '{"a":3}')
    assert backup_path(path).read_text() == '{"a":1}'
    assert read_text(path, is_json).text == '{"a":3}'


def test_a_torn_file_never_takes_the_place_of_the_whole_one_before(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    write_text(path, '{"a":1}')
    path.rename(backup_path(path))
    path.write_text('{"a":')
    assert read_text(path, is_json).text == '{"a":1}'
    with failpoints.armed_point("config.between_renames", die), pytest.raises(KeyboardInterrupt):
        write_text(path, '{"a":2}')
    assert read_text(path, is_json).text == '{"a":1}'
    assert (tmp_path / "topics.json.torn").read_text() == '{"a":', "what a user may want to look at stays"


def test_half_a_surrogate_pair_is_written_as_java_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    write_text(path, json.dumps({"note": "x\ud800y"}, ensure_ascii=False))
    assert json.loads(path.read_bytes()) == {"note": "x?y"}


@pytest.mark.parametrize("content", ["", "\x00\x00"], ids=["empty", "zeros"])
def test_an_empty_file_is_not_the_same_as_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "topics.json"
    path.write_text(content)
    assert read_text(path, is_json).text == content, "its reader gets to see it, and refuses it"


@pytest.mark.parametrize("point", ["config.before_rename", "config.between_renames"])
def test_an_end_at_any_step_leaves_a_whole_file(tmp_path: Path, point: str) -> None:
    path = tmp_path / "topics.json"
    write_text(path, '{"a":1}')
    with failpoints.armed_point(point, die), pytest.raises(KeyboardInterrupt):
        write_text(path, '{"a":2}')
    assert read_text(path, is_json).text == '{"a":1}'
