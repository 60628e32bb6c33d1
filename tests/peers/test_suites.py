"""A case of the judge that fails is run once more, and nobody can overlook that it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.peers import suites
from tests.peers.suites import SuiteRun


class Lively:
    """A server that is always there."""

    def alive(self) -> bool:
        return True

    def tail(self) -> str:
        return "it printed nothing"


@pytest.fixture
def second_tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    kept: list[str] = []
    monkeypatch.setattr(suites, "SECOND_TRIES", kept)
    return kept


def suite(folder: Path, *lines: str) -> SuiteRun:
    """A foreign program that says `lines` and ends."""
    program = folder / "suite.sh"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    program.chmod(0o755)
    return SuiteRun([str(program)], Lively())  # type: ignore[arg-type]


def tried(folder: Path, first: list[str], second: list[str]) -> list[str]:
    """Asks for the case `one` of a suite that says `first`, and then `second`; the cases run again."""
    runs: list[str] = []

    @contextmanager
    def again() -> Iterator[SuiteRun]:
        runs.append("one")
        (folder / "again").mkdir()
        with closing(suite(folder / "again", *second)) as run:
            yield run

    with closing(suite(folder, *first)) as run:
        suites.expect("one", run, again)
    return runs


def test_a_case_that_passes_is_run_once(tmp_path: Path, second_tries: list[str]) -> None:
    assert tried(tmp_path, ["PASS one", "FAIL two: no"], []) == []
    assert second_tries == []


def test_a_failure_that_does_not_happen_again_passes_and_is_listed(
    tmp_path: Path, second_tries: list[str]
) -> None:
    assert tried(tmp_path, ["FAIL one: too slow", "PASS two"], ["PASS one"]) == ["one"]
    assert second_tries == ["one: passed; at first: too slow"]


def test_a_failure_that_happens_again_fails(tmp_path: Path, second_tries: list[str]) -> None:
    with pytest.raises(pytest.fail.Exception, match="failed twice: still wrong"):
        tried(tmp_path, ["FAIL one: wrong"], ["FAIL one: still wrong"])
    assert second_tries == ["one: failed again; at first: wrong"]


def test_a_suite_that_dies_without_a_word_fails(tmp_path: Path, second_tries: list[str]) -> None:
    with pytest.raises(pytest.fail.Exception, match="ended without a verdict"):
        tried(tmp_path, ["hello"], ["hello"])
    assert len(second_tries) == 1


def test_what_is_skipped_is_not_run_again(tmp_path: Path, second_tries: list[str]) -> None:
    with pytest.raises(pytest.skip.Exception, match="no credentials"):
        tried(tmp_path, ["SKIP one: no credentials"], [])
    assert second_tries == []
