"""ARCHITECTURE.md's table of threads beside the threads and tasks of a running broker."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path

from tests.kit.running_standalone import running

TEXT = Path(__file__).parents[2].joinpath("ARCHITECTURE.md").read_text()
NOT_POOLS = {"main", "metrics"}
"""The loop, and a thread that the first scrape starts."""


def rows() -> dict[str, tuple[int, str]]:
    """Thread -> how many there are, and what the table says it does."""
    section = TEXT.split("## Threads\n\n")[1].split("\n\n")[0]
    found = {}
    for line in section.splitlines()[2:]:
        _, name, does, *_ = (cell.strip() for cell in line.split("|"))
        match = re.fullmatch(r"(\w+)(?: \((\d+)\))?", name)
        assert match is not None, line
        found[match[1]] = int(match[2] or 1), does
    return found


async def test_the_table_lists_the_threads_of_a_broker_and_their_tasks(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    async with running(tmp_path) as server:
        broker = server.broker
        names = [one.name for one in threading.enumerate() if one not in before]
        pools = Counter(re.sub(r"orbitmq-(\w+)_\d+", r"\1", name) for name in names)
        tasks = [task for task in broker.periodic_tasks if task.in_thread]
    table = rows()
    assert {name for name in pools if name in table} == table.keys() - NOT_POOLS
    # A pool starts its threads as work comes; the name server in this process has some of the same names.
    assert all(pools[name] <= 2 * count for name, (count, _) in table.items())
    assert set(pools) <= table.keys()
    assert {task.name for task in tasks} >= {"flush", "reserve", "flush timers", "retention"}
    for task in tasks:
        listed = [name for name, (_, does) in table.items() if f"`{task.name}`" in does]
        assert listed == [task.thread], f"periodic task {task.name!r}"
