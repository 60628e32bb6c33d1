import asyncio
import json
import os
from pathlib import Path

import pytest

from orbitmq.console.security import refused_logins
from orbitmq.console.security.refused_logins import MOST_ENTRIES, MOST_USERS, RefusedLogins


def run(path: Path, refusals: list[tuple[str, str]]) -> RefusedLogins:
    """Refusals by address and user, written at the end."""

    async def count() -> RefusedLogins:
        refused = RefusedLogins(path)
        for at, (address, user) in enumerate(refusals):
            refused.count(at, address, user, "log_in", "WRONG_LOGIN", "no user")
        refused.write()
        return refused

    return asyncio.run(count())


def test_refusals_of_one_address_are_one_entry(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "refused.jsonl"
    refused = run(path, [("::1", f"guess {number}") for number in range(1000)])
    [entry] = map(json.loads, path.read_text().splitlines())
    assert (entry["address"], entry["count"], entry["atMs"], entry["lastMs"]) == ("::1", 1000, 0, 999)
    assert len(entry["users"]) == MOST_USERS
    assert [one.count for one in refused.recent()] == [1000]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_refusals_of_very_many_addresses_are_counted_in_one_entry(tmp_path: Path) -> None:
    path = tmp_path / "refused.jsonl"
    run(path, [(f"10.0.{number >> 8}.{number & 255}", "") for number in range(1000)])
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(entries) == MOST_ENTRIES + 1
    assert (entries[-1]["address"], entries[-1]["count"]) == ("", 1000 - MOST_ENTRIES)


def test_entries_are_written_once_their_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_logins, "TOGETHER_SECONDS", 0.01)
    path = tmp_path / "refused.jsonl"

    async def wait() -> None:
        refused = RefusedLogins(path)
        written = asyncio.Event()
        write = refused.write
        monkeypatch.setattr(refused, "write", lambda: (write(), written.set()))
        refused.count(1, "::1", "", "log_in", "WRONG_LOGIN", None)
        refused.count(2, "::1", "", "log_in", "WRONG_LOGIN", None)
        await asyncio.wait_for(written.wait(), 60)

    asyncio.run(wait())
    assert '"count":2' in path.read_text()


def test_a_long_file_is_replaced_and_only_the_last_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_logins, "MAX_FILE_BYTES", 10)
    path = tmp_path / "refused.jsonl"
    for address in ("a", "b", "c"):
        run(path, [(address, "")])
    assert [one.name for one in tmp_path.iterdir()] == ["refused.jsonl.1"]
    assert '"address":"c"' in (tmp_path / "refused.jsonl.1").read_text()


def test_a_file_that_cannot_be_written_is_an_error_in_the_servers_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    run(tmp_path / "file" / "refused.jsonl", [("a", "")])
    assert "cannot be written" in caplog.text
