"""The longest turn of the loop while much is flushed, and while it is read from the disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.scale.probe import (
    PATIENCE_MS,
    PLAIN,
    ahead,
    batch_request,
    pull_request,
    send_request,
    topic_request,
)
from benchmarks.watched import Watched, watched
from orbitmq.net.blocking import BlockingConnection

BODY_BYTES = 64 << 10
BATCH = 16


def measure(size_bytes: int, properties: dict[str, object], folder: Path) -> dict[str, Any]:
    """Sends so much, which the broker flushes; starts it anew without its pages, and reads all of it."""
    batches = size_bytes // (BODY_BYTES * BATCH)
    with watched(folder, **properties) as broker, BlockingConnection(broker.broker) as connection:
        ahead(connection, [topic_request("ScaleCold", 1)])
        batch = batch_request("ScaleCold", 0, b"x" * BODY_BYTES, BATCH)
        figures = _during(broker, lambda: ahead(connection, (batch for _ in range(batches)), most=4))
        found = {f"flush_{name}": value for name, value in figures.items()}
        figures = _during(broker, lambda: time.sleep(6))  # the rest of it is flushed by itself
        for name in ("turn_cpu_ms", "turn_ms", "turn_held_ms"):
            found[f"flush_{name}"] = max(found[f"flush_{name}"], figures[name])
    _forget_pages(folder)
    with watched(folder, **properties) as broker, BlockingConnection(broker.broker) as connection:

        def read() -> None:
            offset = 0
            while offset < batches * BATCH:
                reply = connection.call(pull_request("ScaleCold", 0, offset), PATIENCE_MS)
                offset = reply.next_begin_offset

        figures = _during(broker, read)
    return found | {f"cold_{name}": value for name, value in figures.items()}


def _during(broker: Watched, work: Callable[[], object]) -> dict[str, float]:
    """The longest turn while something is done, how long that took, and what sends took meanwhile."""
    took: list[float] = []
    done = threading.Event()

    def send() -> None:
        with BlockingConnection(broker.broker) as connection:
            while not done.is_set():
                before = time.perf_counter()
                connection.call(send_request(PLAIN), PATIENCE_MS)
                took.append(time.perf_counter() - before)
                time.sleep(0.002)

    sender = threading.Thread(target=send)
    broker.longest_turn()
    sender.start()
    began = time.perf_counter()
    try:
        work()
    finally:
        seconds = time.perf_counter() - began
        done.set()
        sender.join()
    took.sort()
    return {
        **broker.longest_turn(),
        "seconds": seconds,
        "send_p99_ms": took[len(took) * 99 // 100] * 1000,
        "send_max_ms": took[-1] * 1000,
    }


def _forget_pages(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
