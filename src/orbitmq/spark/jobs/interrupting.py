"""Ctrl-C for jobs that go on until then: noted, so that no question to Spark goes without its answer."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noting_ctrl_c() -> Iterator[threading.Event]:
    """Within the block the first Ctrl-C sets the event, and the second one raises KeyboardInterrupt.

    In another thread than the main one signals do not arrive, and the event stays unset.
    """
    pressed = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
