import json
import logging
import os
from pathlib import Path

import pytest

from orbitmq.console.security.audit import AuditEntry, AuditLog


def entry(target: str) -> AuditEntry:
    return AuditEntry(1, "ann", "127.0.0.1", "delete_topic", target, "done", before={"perm": 6})


def test_entries_are_appended_to_a_file_of_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    AuditLog(path).write(entry("a"))
    log = AuditLog(path)
    log.write(entry("b"))
    assert [json.loads(line)["target"] for line in path.read_text().splitlines()] == ["a", "b"]
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert [one.target for one in log.recent()] == ["b"]


def test_a_log_that_cannot_be_written_is_an_error_in_the_servers_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    log = AuditLog(tmp_path / "file" / "audit.jsonl")
    with caplog.at_level(logging.ERROR):
        log.write(entry("a"))
    assert "cannot be written" in caplog.text
    assert len(log.recent()) == 1
