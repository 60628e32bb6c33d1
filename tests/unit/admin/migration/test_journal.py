"""The journal of a switch outlives its process, and another file is not taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.admin.migration.journal import BadJournal, MigrationJournal, Phase, SwitchRecord


def record(group: str) -> SwitchRecord:
    return SwitchRecord(group, "orbitmq", "m:1", "t:1", "SYNC_MASTER", "6", {"T": 6})


def test_it_is_read_again_by_group_until_it_is_forgotten(tmp_path: Path) -> None:
    journal = MigrationJournal(tmp_path / "journal.json")
    assert journal.read("a") is None
    first = record("a")
    first.phase, first.ends = Phase.LEVEL, {"T": {"0": 7}}
    journal.write(first)
    journal.write(record("b"))
    again = MigrationJournal(tmp_path / "journal.json")
    assert again.read("a") == first
    again.forget("a")
    assert again.read("a") is None
    assert again.read("b") == record("b")


@pytest.mark.parametrize(
    "text", ["brokerName=a\n", "[1]", '{"a": {"phase": 77}}', '{"a": {"group": "a", "phase": 1}}']
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "journal.json"
    path.write_text(text)
    with pytest.raises(BadJournal, match="is no journal of a migration"):
        MigrationJournal(path).read("a")
    assert path.read_text() == text
