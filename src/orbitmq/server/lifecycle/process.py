"""Running servers as a process: the event loop, signals, the readiness line, and the way out."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import logging
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from orbitmq.options.reporting import ReportingSettings
from orbitmq.server.lifecycle.log_levels import LogLevels
from orbitmq.server.lifecycle.sd_notify import Notifier

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_SECONDS = 1.0
"""Time until a change of the level of logs holds."""
KEPT_BYTES = 16 << 20
"""So much freed memory stays the process's."""
MAPPED_BYTES = 4 << 20
"""From this size on memory is asked of the system, and given back at once."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class Server(Protocol):
    """A server that can be started and stopped."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a server's coroutine on the fastest event loop that is installed."""
    with contextlib.suppress(ModuleNotFoundError):
        uvloop = importlib.import_module("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(coroutine)
    with asyncio.Runner() as runner:
        return runner.run(coroutine)


async def serve(
    server: Server,
    *,
    ready_line: str,
    ready_file: Path | None = None,
    settings: Sequence[ReportingSettings] = (),
    stop_when: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """Starts a server, says so, and stops it in order on SIGTERM or SIGINT.

    `stop_when` is given what stops the server as a signal does, to be called on the loop.

    The readiness line goes to standard output, to systemd where it started the process, and into
    `ready_file`, which is removed at the end. A second signal while the server stops ends the process at
    once. The level of logs follows `settings`. The process may have as many files open as the system allows.
    """
    _allow_all_handles()
    _keep_freed_memory()
    notifier = Notifier()
    beside = [
        asyncio.create_task(notifier.keep_alive(), name="notify systemd"),
        asyncio.create_task(_follow_log_level(LogLevels(settings)), name="follow the level of logs"),
    ]
    try:
        await _serve(server, notifier, ready_line, ready_file, stop_when)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


def _allow_all_handles() -> None:
    """A shell gives 1,024 handles, and so many connections; the limit is what it gives those who ask."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS says "unlimited" and means less
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _keep_freed_memory() -> None:
    """The memory of reads and answers is used again. By itself the C library gives it back each time, and
    the system clears it page by page when it is asked for the next time: half of what a large pull cost.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)


async def _follow_log_level(levels: LogLevels) -> None:
    while True:
        levels.look()
        await asyncio.sleep(LOOK_SECONDS)


async def _serve(
    server: Server,
    notifier: Notifier,
    ready_line: str,
    ready_file: Path | None,
    stop_when: Callable[[Callable[[], None]], None] | None,
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def signalled(name: str) -> None:
        if stop.is_set():
            log.warning("%s once more: not waiting any longer", name)
            sys.exit(1)
        log.info("%s: stopping", name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled, number.name)
    if stop_when is not None:
        stop_when(stop.set)
    await server.start()
    # Objects that are there now stay: collections look at new objects only, at so few that turns stay
    # short. All of them are seldom looked at, for requests make no cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 400)
    try:
        line = ready_line.format(server=server)
        if ready_file is not None:
            _write(ready_file, line)
        print(line, flush=True)
        notifier.ready(line)
        await stop.wait()
    finally:
        notifier.stopping()
        await server.stop()
        if ready_file is not None:
            _remove(ready_file)


def _write(path: Path, line: str) -> None:
    """Writes the file under another name first: who waits for it finds it whole."""
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(line + "\n")
    beside.replace(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
