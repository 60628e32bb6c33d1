import os
from pathlib import Path

import pytest

from orbitmq import compiled


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two hot modules, one of them compiled."""
    (tmp_path / "room").mkdir()
    (tmp_path / "plain.py").touch()
    (tmp_path / "slow_cy.py").touch()
    (tmp_path / "room" / "fast_cy.py").touch()
    (tmp_path / "room" / f"fast_cy{compiled.EXTENSION_SUFFIXES[0]}").touch()
    monkeypatch.setattr(compiled, "ROOT", tmp_path)
    return tmp_path


def test_finds_the_compiled_file_that_python_would_take(package: Path) -> None:
    found = compiled.hot_modules()
    assert found == {
        "orbitmq.room.fast_cy": package / "room" / f"fast_cy{compiled.EXTENSION_SUFFIXES[0]}",
        "orbitmq.slow_cy": None,
    }


@pytest.mark.parametrize(("expected", "code"), [("all", 1), ("none", 1)])
def test_neither_all_nor_none_is_compiled(package: Path, expected: str, code: int) -> None:
    assert compiled.main(["--expect", expected]) == code


def test_all_are_compiled(package: Path) -> None:
    (package / "slow_cy.py").unlink()
    assert compiled.main(["--expect", "all"]) == 0
    assert compiled.main(["--expect", "none"]) == 1


def test_a_package_without_hot_modules_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "ROOT", tmp_path)
    assert compiled.main(["--expect", "all"]) == 1
    assert compiled.main(["--expect", "none"]) == 0


def test_a_compiled_file_older_than_its_source_is_stale(package: Path) -> None:
    assert compiled.stale_modules() == []
    made = next(path for path in compiled.hot_modules().values() if path)
    source = package / "room" / "fast_cy.py"
    os.utime(source, (made.stat().st_mtime + 10,) * 2)
    assert compiled.stale_modules() == [made]


def test_lists_each_module(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "compiled     orbitmq.room.fast_cy",
        "interpreted  orbitmq.slow_cy",
        "1 of 2 hot modules are compiled",
    ]


def test_the_hot_modules_of_this_package_can_be_imported() -> None:
    for name in compiled.hot_modules():
        __import__(name)
