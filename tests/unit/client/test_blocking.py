"""Blocking forms: who does the work, where an exception goes, and what may not wait."""

from __future__ import annotations

import inspect
import threading

import pytest

from orbitmq.client.blocking import SyncWrapper, constructor_of, get_background, waiting


class Counter:
    """Adds up."""

    def __init__(self, first: int, *, step: int = 1) -> None:
        self.value = first
        self.step = step
        self.state = "new"

    async def start(self) -> None:
        self.state = "started"

    async def close(self) -> None:
        self.state = "closed"

    async def add(self, times: int = 1) -> int:
        """Adds the step so many times."""
        if times < 0:
            raise ValueError("it only goes up")
        self.value += times * self.step
        return self.value

    async def thread(self) -> str:
        return threading.current_thread().name


class SyncCounter(SyncWrapper[Counter]):
    @constructor_of(Counter)
    def __init__(self) -> None: ...

    add = waiting(Counter.add)
    thread = waiting(Counter.thread)


def test_the_work_is_done_on_the_loop_and_its_result_comes_back() -> None:
    with SyncCounter(5, step=2) as counter:
        assert counter._core.state == "started"
        assert counter.add(3) == 11
        assert counter.thread() == "orbitmq event loop" != threading.current_thread().name
    assert counter._core.state == "closed"


def test_an_exception_is_raised_where_the_result_is_waited_for() -> None:
    with pytest.raises(ValueError, match="it only goes up"):
        SyncCounter(0).add(-1)


def test_help_shows_the_arguments_of_the_class_behind_it() -> None:
    assert str(inspect.signature(SyncCounter)) == "(first: 'int', *, step: 'int' = 1) -> None"
    assert SyncCounter.add.__doc__ == "Adds the step so many times."


def test_an_async_handler_may_not_wait_for_its_own_loop() -> None:
    counter = SyncCounter(0)

    async def handler() -> None:
        with pytest.raises(RuntimeError, match="must not wait"):
            counter.add()

    get_background().run(handler())
    assert counter._core.value == 0
