import asyncio
import sqlite3
from pathlib import Path

import pytest

from orbitmq.console.history_file import HistoryFile, HistoryUnusable, Point
from orbitmq.console.sampling import SERIES

NOW = 1_800_000_000.0


async def write(path: Path, cluster: str, points: list[Point], size: int = 100) -> None:
    """One run of a console."""
    history = HistoryFile(path, size)
    await history.open(NOW)
    await history.read(cluster)
    for at, numbers in points:
        await history.add(cluster, at, numbers)
    await history.close()


async def read(path: Path, cluster: str, now: float = NOW) -> list[Point]:
    history = HistoryFile(path)
    await history.open(now)
    try:
        return await history.read(cluster)
    finally:
        await history.close()


def lags(*seconds: int) -> list[Point]:
    return [(NOW + second, {"lag": float(second)}) for second in seconds]


def content_of(path: Path) -> bytes:
    return path.read_bytes()


async def refusal(path: Path) -> str:
    """The reason with which a file is refused; it stays as it is."""
    before = content_of(path)
    with pytest.raises(HistoryUnusable) as refused:
        await HistoryFile(path).open(NOW)
    assert content_of(path) == before
    return str(refused.value)


async def test_points_are_there_again_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "history.sqlite3"
    await write(path, "east", [(NOW, {"lag": 5.0, "disk": None})])
    await write(path, "east", lags(1))
    assert await read(path, "east") == [(NOW, {"lag": 5.0, "disk": None}), *lags(1)]


async def test_each_cluster_has_its_own_points(tmp_path: Path) -> None:
    path = tmp_path / "history"
    await write(path, "east", lags(1))
    await write(path, "west", lags(2))
    assert await read(path, "east") == lags(1)
    assert await read(path, "west") == lags(2)


async def test_the_oldest_points_go_where_there_is_no_room_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "history"
    await write(path, "east", lags(1, 2, 3, 4), size=3)
    await write(path, "east", lags(5), size=3)
    assert await read(path, "east") == lags(3, 4, 5)


async def test_a_point_of_more_than_a_day_ago_is_gone_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "history"
    await write(path, "east", lags(1, 100))
    assert await read(path, "east", NOW + 24 * 3600 + 50) == lags(100)


async def test_a_full_history_of_a_day_is_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "history"
    numbers = dict.fromkeys(SERIES, 123_456_789.25)
    history = HistoryFile(path)
    await history.open(NOW)
    await history._do(lambda: history._opened.execute("PRAGMA synchronous = OFF"))
    await asyncio.gather(*(history.add("east", NOW + second, numbers) for second in range(9000)))
    assert len(await history.read("east")) == 8640
    await history.close()
    assert path.stat().st_size < 3 << 20


async def test_a_database_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "orders.sqlite3"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE points (x)")
    database.close()
    assert "is a database of something else" in await refusal(path)


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no database at all\n" * 100)
    assert "file is not a database" in await refusal(path)


async def test_a_history_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "history"
    await write(path, "east", lags(1))
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    assert "is of another version of the console (7, and not 1)" in await refusal(path)


async def test_a_damaged_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    await write(path, "east", lags(*range(200)), size=200)
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    path.write_bytes(content)
    assert "damaged" in await refusal(path) or "malformed" in await refusal(path)


async def test_a_second_console_is_refused_the_file_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "history"
    first = HistoryFile(path)
    await first.open(NOW)
    with pytest.raises(HistoryUnusable, match="another console uses it"):
        await HistoryFile(path).open(NOW)
    await first.close()
    assert await read(path, "east") == []


async def test_a_write_that_fails_is_told_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history"
    history = HistoryFile(path)
    await history.open(NOW)
    await history._do(lambda: history._opened.execute("PRAGMA query_only = ON"))
    for at, numbers in lags(1, 2):
        await history.add("east", at, numbers)
    [told] = [one.getMessage() for one in caplog.records]
    assert f"points of charts are not kept in {path}" in told
    await history._do(lambda: history._opened.execute("PRAGMA query_only = OFF"))
    await history.add("east", *lags(3)[0])
    assert await history.read("east") == lags(3)
    await history.close()
