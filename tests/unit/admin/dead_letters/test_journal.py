from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orbitmq.admin.dead_letters.dead_letter import Place
from orbitmq.admin.dead_letters.journal import (
    DONE,
    PLANNED,
    REFUSED,
    RUNNING,
    SENDING,
    SENT,
    STOPPED,
    UNSURE,
    Entry,
    JournalUnusable,
    RedriveJournal,
)

TABLES_OF_0_2 = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, cluster TEXT NOT NULL, letter_group TEXT NOT NULL, asked TEXT NOT NULL,
    user TEXT NOT NULL, began_ms INTEGER NOT NULL, ended_ms INTEGER, state TEXT NOT NULL,
    error TEXT NOT NULL DEFAULT ''
);
CREATE TABLE letters (
    run TEXT NOT NULL, broker TEXT NOT NULL, queue_id INTEGER NOT NULL, queue_offset INTEGER NOT NULL,
    stored_ms INTEGER NOT NULL, unique_id TEXT NOT NULL, topic TEXT NOT NULL, state TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '', sent_ms INTEGER, sent_id TEXT,
    PRIMARY KEY (run, broker, queue_id, queue_offset)
) WITHOUT ROWID;
CREATE INDEX by_state ON letters (run, state);
CREATE INDEX by_place ON letters (broker, queue_id, queue_offset);
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RedriveJournal]:
    opened = RedriveJournal(tmp_path / "new" / "redrives.sqlite3")
    yield opened
    opened.close()


def entry(number: int, stored_ms: int = 1) -> Entry:
    return Entry(Place("b", 0, number), stored_ms, f"ID{number}", "orders", PLANNED)


def begun(journal: RedriveJournal, letters: int, cluster: str = "here", group: str = "billing") -> str:
    run = journal.begin(cluster, group, {"rate": 5}, "ann")
    journal.plan(run, [entry(number) for number in range(letters)])
    journal.set_state(run, RUNNING)
    return run


async def test_reading_makes_no_file_and_a_file_is_its_owners_alone(
    journal: RedriveJournal, tmp_path: Path
) -> None:
    assert not journal.exists
    await journal.do(begun, journal, 1)
    assert journal.exists
    assert (tmp_path / "new" / "redrives.sqlite3").stat().st_mode & 0o777 == 0o600


async def test_letters_are_claimed_once_each_and_oldest_first(journal: RedriveJournal) -> None:
    run = await journal.do(begun, journal, 3)
    first = await journal.do(journal.claim, run, 2)
    second = await journal.do(journal.claim, run, 2)
    assert [one.unique_id for one in (*first, *second)] == ["ID0", "ID1", "ID2"]
    assert await journal.do(journal.claim, run, 2) == []
    assert len(await journal.do(journal.under_way, run)) == 3


async def test_outcomes_are_counted_and_leave_nothing_under_way(journal: RedriveJournal) -> None:
    run = await journal.do(begun, journal, 3)
    one, two, three = await journal.do(journal.claim, run, 3)
    outcomes = [
        replace(one, state=SENT, sent_ms=9, sent_id="M"),
        replace(two, state=REFUSED, note="no"),
        replace(three, state=PLANNED),
    ]
    await journal.do(journal.record_outcomes, run, outcomes)
    known = await journal.do(journal.run, run)
    assert known is not None
    assert known.counts == {SENT: 1, REFUSED: 1, PLANNED: 1}
    assert (known.cluster, known.group, known.asked, known.user) == ("here", "billing", {"rate": 5}, "ann")
    assert await journal.do(journal.under_way, run) == []
    assert await journal.do(journal.entries, run, SENT, 10) == [outcomes[0]]
    assert len(await journal.do(journal.entries, run, None, 2, 2)) == 1


async def test_a_run_that_is_stopped_says_which_letters_may_have_been_sent(journal: RedriveJournal) -> None:
    run = await journal.do(begun, journal, 3)
    await journal.do(journal.claim, run, 1)
    await journal.do(journal.set_state, run, STOPPED)
    known = await journal.do(journal.run, run)
    assert known is not None
    assert (known.state, known.counts) == (STOPPED, {UNSURE: 1, STOPPED: 2})
    assert known.ended_ms is not None


async def test_after_a_restart_unfinished_runs_and_letters_under_way_are_known(tmp_path: Path) -> None:
    path = tmp_path / "redrives.sqlite3"
    before = RedriveJournal(path)
    over = await before.do(begun, before, 1)
    await before.do(before.set_state, over, DONE)
    run = await before.do(begun, before, 2)
    await before.do(before.claim, run, 1)
    before.close()
    after = RedriveJournal(path)
    assert [one.id for one in await after.do(after.unfinished)] == [run]
    assert [one.state for one in await after.do(after.under_way, run)] == [SENDING]
    after.close()


async def test_letters_of_other_runs_are_known_by_place_and_time_within_their_group(
    journal: RedriveJournal,
) -> None:
    run = await journal.do(begun, journal, 2)
    letters = [(Place("b", 0, 0), 1), (Place("b", 0, 1), 2), (Place("b", 0, 5), 1)]
    assert await journal.do(journal.claimed, "here", "billing", letters) == {Place("b", 0, 0): run}
    assert await journal.do(journal.claimed, "here", "another", letters) == {}
    assert await journal.do(journal.claimed, "there", "billing", letters) == {}


async def test_a_journal_of_version_0_2_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "redrives.sqlite3"
    old = sqlite3.connect(path)
    with old:
        old.executescript(TABLES_OF_0_2)
        old.execute(
            "INSERT INTO runs (id, cluster, letter_group, asked, user, began_ms, state) "
            "VALUES ('r', 'here', 'billing', '{}', 'ann', 5, 'running')"
        )
        old.executemany(
            "INSERT INTO letters (run, broker, queue_id, queue_offset, stored_ms, unique_id, topic, state) "
            "VALUES ('r', 'b', 0, ?, 1, ?, 'orders', ?)",
            [(0, "ID0", SENT), (1, "ID1", SENDING), (2, "ID2", PLANNED)],
        )
    old.close()
    for _ in range(2):  # and once more: it is renamed already
        journal = RedriveJournal(path)
        (run,) = await journal.do(journal.unfinished)
        assert (run.id, run.group, run.counts) == ("r", "billing", {SENT: 1, SENDING: 1, PLANNED: 1})
        assert [one.unique_id for one in await journal.do(journal.under_way, "r")] == ["ID1"]
        assert await journal.do(journal.claimed, "here", "billing", [(Place("b", 0, 2), 1)]) == {
            Place("b", 0, 2): "r"
        }
        journal.close()
    journal = RedriveJournal(path)
    assert [one.unique_id for one in await journal.do(journal.claim, "r", 5)] == ["ID2"]
    journal.close()


async def test_a_file_that_is_no_journal_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "redrives.sqlite3"
    path.write_text("no database" * 100)
    damaged = RedriveJournal(path)
    with pytest.raises(JournalUnusable, match=r"redrives\.sqlite3"):
        await damaged.do(damaged.runs)
    damaged.close()
