"""Jobs that go on until Ctrl-C, in this process: somebody looks at what they do, and presses it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 300


@contextmanager
def interrupted_after(steps: Iterator[Callable[[], bool]]) -> Iterator[None]:
    """Interrupts what runs within the block once each step has come true, one after the other.

    Where one does not, it is interrupted as well, and the block ends by AssertionError.
    """
    over = threading.Event()
    failed: list[BaseException] = []

    def look() -> None:
        try:
            for happened in steps:
                deadline = time.monotonic() + PATIENCE_SECONDS
                while not happened():
                    assert time.monotonic() < deadline, "what is awaited does not happen"
                    if over.wait(0.05):
                        return  # it has ended by itself: nobody else is to be interrupted
        except BaseException as error:
            failed.append(error)
        os.kill(os.getpid(), signal.SIGINT)

    # A process in the background of a shell starts with the signal ignored; Spark has a handler of its own.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
        signal.signal(signal.SIGINT, before)
    if failed:
        raise AssertionError("it was not interrupted at the right time") from failed[0]
