"""Facts of the operating system about this process, under the names that Prometheus's clients have for
them.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator

from orbitmq.broker.metrics import Sample

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def process_samples() -> Iterator[Sample]:
    """Processor time, memory, open files. Linux; elsewhere what is there."""
    times = os.times()
    yield Sample("process_cpu_seconds_total", (), round(times.user + times.system, 3))
    yield Sample("process_max_fds", (), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield Sample("process_threads", (), threading.active_count())
    try:
        with open("/proc/self/statm", "rb") as file:
            virtual, resident = file.read().split()[:2]
        open_files = len(os.listdir("/proc/self/fd")) - 1  # one of them is the listing itself
    except OSError:
        return
    yield Sample("process_virtual_memory_bytes", (), int(virtual) * _PAGE_BYTES)
    yield Sample("process_resident_memory_bytes", (), int(resident) * _PAGE_BYTES)
    yield Sample("process_open_fds", (), open_files)
