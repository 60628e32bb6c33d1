from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from orbitmq.server.turn import off_loop
from orbitmq.server.turn.off_loop import OffLoopRunner


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as one_thread:
        yield one_thread


class Outcomes:
    """Calls of `ended`, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, Exception | None, int]] = []
        self.came = asyncio.Event()

    def ended(self, value: object, error: Exception | None) -> None:
        self.seen.append((value, error, threading.get_ident()))
        self.came.set()


async def test_work_runs_in_a_thread_and_its_value_is_reported_on_the_loop(
    executor: ThreadPoolExecutor,
) -> None:
    threads = []

    def work() -> Generator[None, None, str]:
        threads.append(threading.get_ident())
        yield
        return "done"

    outcomes = Outcomes()
    OffLoopRunner(executor).start(work(), outcomes.ended)
    await outcomes.came.wait()
    here = threading.get_ident()
    assert outcomes.seen == [("done", None, here)]
    assert threads != [here]


async def test_an_exception_of_the_work_is_reported(executor: ThreadPoolExecutor) -> None:
    def work() -> Generator[None, None, None]:
        yield
        raise OSError("no disk")

    outcomes = Outcomes()
    OffLoopRunner(executor).start(work(), outcomes.ended)
    await outcomes.came.wait()
    [(value, error, _)] = outcomes.seen
    assert value is None
    assert isinstance(error, OSError)


async def test_long_work_makes_way_for_other_work_after_each_slice(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(off_loop, "SLICE_SECONDS", -1.0)  # a step is a slice
    steps = []

    def work(name: str) -> Generator[None, None, None]:
        for _ in range(3):
            steps.append(name)
            yield

    runner, first, second = OffLoopRunner(executor), Outcomes(), Outcomes()
    begun = threading.Event()
    executor.submit(begun.wait)  # both are there before the thread takes one
    runner.start(work("a"), first.ended)
    runner.start(work("b"), second.ended)
    begun.set()
    await first.came.wait()
    await second.came.wait()
    assert sorted(steps) == ["a"] * 3 + ["b"] * 3
    assert steps[:2] == ["a", "b"]


async def test_abandoned_work_reports_nothing(executor: ThreadPoolExecutor) -> None:
    def work() -> Generator[None, None, None]:
        yield

    runner, abandoned, later = OffLoopRunner(executor), Outcomes(), Outcomes()
    begun = threading.Event()
    executor.submit(begun.wait)
    abandon = runner.start(work(), abandoned.ended)
    runner.start(work(), later.ended)
    abandon()
    begun.set()
    await later.came.wait()
    assert not abandoned.seen
