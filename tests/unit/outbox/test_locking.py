"""Locks of relays: rows of the database, and for SQLite a file."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, func, select

from orbitmq.outbox import Outbox
from orbitmq.outbox.locking import FileLock, make_locks, try_locks
from orbitmq.outbox.tables import LOCKS


def test_locks_are_made_once(outbox: Outbox, engine: Engine) -> None:
    with engine.begin() as connection:
        make_locks(outbox, connection)
        make_locks(outbox, connection)
        assert connection.execute(select(func.count()).select_from(outbox.locks)).scalar() == LOCKS + 1


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_lock_that_is_taken_is_left_without_a_wait(outbox: Outbox, engine: Engine) -> None:
    with engine.connect() as one, engine.connect() as two:
        assert sorted(try_locks(outbox, one, [1, 2, 3])) == [1, 2, 3]
        assert sorted(try_locks(outbox, two, [2, 3, 4])) == [4]
        one.rollback()
        assert sorted(try_locks(outbox, two, [2, 3, 4])) == [2, 3, 4]


def _hold(path: str, ready: object, end: object) -> None:
    assert FileLock(path).acquire()
    ready.set()  # type: ignore[attr-defined]
    end.wait()  # type: ignore[attr-defined]


def test_a_file_lock_ends_with_its_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    path = str(tmp_path / "test.db")
    other = context.Process(target=_hold, args=(path, ready, end))
    other.start()
    try:
        assert ready.wait(60)
        lock = FileLock(path)
        assert not lock.acquire()
        other.kill()
        other.join()
        assert lock.acquire()
        assert not FileLock(path).acquire()
        lock.release()
        assert FileLock(path).acquire()
    finally:
        other.kill()


def test_the_file_is_beside_the_database(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'test.db'}")
    with engine.connect() as connection:
        lock = FileLock.beside(connection)
    engine.dispose()
    assert lock.acquire()
    assert (tmp_path / "test.db-relay").exists()
    lock.release()


def test_a_database_in_memory_has_no_file() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        lock = FileLock.beside(connection)
    engine.dispose()
    assert lock.acquire()
    assert lock.acquire()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="unable to open"):
        FileLock(str(tmp_path / "none" / "test.db")).acquire()
