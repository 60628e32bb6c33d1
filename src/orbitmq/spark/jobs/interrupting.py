"""Ctrl-C and SIGTERM for jobs: raised, ignored, or noted for jobs that run until then."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType


@contextmanager
def handling(
    number: int, handler: Callable[[int, FrameType | None], object] | signal.Handlers
) -> Iterator[None]:
    """Within the block a signal goes to `handler`."""
    try:
        before = signal.signal(number, handler)
    except ValueError:  # not the main thread: whoever runs it there has handlers of its own
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def noting_the_end() -> Iterator[Event]:
    """Within the block the first Ctrl-C or SIGTERM sets the event, and the next one raises KeyboardInterrupt.

    Raised at once, it could fall between a question to Spark and its answer.
    """
    asked = Event()

    def note(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    with handling(signal.SIGINT, note), handling(signal.SIGTERM, note):
        yield asked
