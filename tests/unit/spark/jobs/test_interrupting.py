"""Ctrl-C and SIGTERM for jobs that go on until then."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from orbitmq.spark.jobs.interrupting import handling, noting_the_end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_noted_and_the_second_interrupts(number: int) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with noting_the_end() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), number)
        assert asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_sigterm_is_noted_where_it_would_have_interrupted() -> None:
    with handling(signal.SIGTERM, signal.default_int_handler):
        with noting_the_end() as asked:
            os.kill(os.getpid(), signal.SIGTERM)
            assert asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_another_thread_leaves_signals_to_the_main_one() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def look() -> None:
        with noting_the_end() as asked:
            seen.extend((asked.is_set(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [False, before]
