"""The window of a client's load: messages and CPU time of this process, as JSON. It needs no package."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

BODY = bytes(range(128))
AT_A_TIME = 64
BATCH = 100


def measured(count: Callable[[], int], most: int | None = None) -> None:
    """Starts a thread that measures what `count` tells, prints it, and ends the process.

    `most` ends the window when so many messages have come.
    """
    warm_up_s, window_s = float(sys.argv[4]), float(sys.argv[5])

    def measure() -> NoReturn:
        time.sleep(warm_up_s)
        while not count():
            time.sleep(0.001)
        before, began, cpu = count(), time.perf_counter(), time.process_time()
        while time.perf_counter() - began < window_s and not (most and count() >= most):
            time.sleep(0.005)
        messages, seconds, used = count() - before, time.perf_counter() - began, time.process_time() - cpu
        print(json.dumps({"messages": messages, "seconds": seconds, "cpu_seconds": used}), flush=True)
        os._exit(0)

    threading.Thread(target=measure, daemon=True).start()
