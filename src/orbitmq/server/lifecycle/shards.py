"""Several brokers of one cluster as processes below one that starts, watches and stops them.

A shard is a broker like any other; what makes it a shard is that its standard input is a pipe from the
supervisor. When the pipe ends, because the supervisor stops or was killed, the shard stops in order: none is
left behind with no process to watch it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbitmq.server.errors import StartError
from orbitmq.server.lifecycle.sd_notify import Notifier

log = logging.getLogger(__name__)

READY = "ready: broker "
"""Beginning of a broker's line on standard output once it is ready; its address follows, up to a comma."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""Time that a shard that ended by itself is left alone, at most: twice as long each time, up to this."""
STABLE_SECONDS = 60.0
"""A shard that was ready for so long begins with the first pause again."""
STOP_SECONDS = 120.0
"""A shard that has not ended by then is killed; the next start recovers its store."""
NOT_FOR_SHARDS = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
"""The service manager hears of the supervisor alone."""


@dataclass(frozen=True, slots=True)
class ShardCommand:
    """Start of one shard."""

    name: str
    """Its broker name."""
    arguments: Sequence[str]
    """Arguments behind `orbitmq` on its command line."""


class ShardEnded(StartError):
    """A shard ended before all were ready: the others were stopped."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"shard {name} did not start ({how_it_ended(code)}); the others were stopped")
        self.code = code


def how_it_ended(code: int) -> str:
    """In words: the exit code, or the signal that ended a process."""
    return f"killed by signal {-code}" if code < 0 else f"ended with code {code}"


class _Shard:
    """One process, or the wait for the next try."""

    def __init__(self, command: ShardCommand) -> None:
        self.command = command
        self.process: Process | None = None
        self.address = ""
        """Address that it serves at; empty while it does not."""

    async def start(self) -> bool:
        """Starts it. True if it became ready. Afterwards `process` is the one to wait for."""
        environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_SHARDS}
        # A session of its own: Ctrl-C is the supervisor's to pass on.
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "orbitmq", *self.command.arguments),
            stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            text = line.decode(errors="replace").strip()
            if text.startswith(READY):
                self.address = text.removeprefix(READY).partition(",")[0]
                return True
        return False

    def ask_to_stop(self) -> None:
        """Ends the pipe, which a shard takes for the word to stop."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()


class ShardSupervisor:
    """Starts the shards side by side, starts again the ones that end by themselves, and stops all.

    Before all have been ready once, one that ends is the end of all: `start` raises ShardEnded. Later it is
    started again after a pause that grows, and an error in the log says so; the others continue.
    """

    def __init__(
        self,
        commands: Sequence[ShardCommand],
        *,
        notifier: Notifier | None = None,
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        self._shards = [_Shard(command) for command in commands]
        self._notifier = notifier or Notifier()
        self._first_pause = first_pause_seconds
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def addresses(self) -> str:
        """The shards that are ready: `NAME HOST:PORT`, with commas between."""
        return ", ".join(f"{shard.command.name} {shard.address}" for shard in self._shards if shard.address)

    async def start(self) -> None:
        """Returns when every shard is ready. Raises ShardEnded when one ended instead."""
        try:
            await asyncio.gather(*(self._first_start(shard) for shard in self._shards))
        except BaseException:
            await self.stop()
            raise
        self._watchers = [
            asyncio.create_task(self._watch(shard), name=f"watch {shard.command.name}")
            for shard in self._shards
        ]

    async def _first_start(self, shard: _Shard) -> None:
        if not await shard.start():
            assert shard.process is not None
            raise ShardEnded(shard.command.name, await shard.process.wait())

    async def _watch(self, shard: _Shard) -> None:
        """Waits for the end of a shard, and starts it again, for as long as it is not stopped."""
        loop = asyncio.get_running_loop()
        pause = self._first_pause
        since = loop.time()
        while True:
            assert shard.process is not None
            code = await shard.process.wait()
            shard.address = ""
            if loop.time() - since >= STABLE_SECONDS:
                pause = self._first_pause
            log.error(
                "shard %s %s without a signal: it is started again in %.0f s",
                *(shard.command.name, how_it_ended(code), pause),
            )
            self._notify()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            since = loop.time()
            try:
                is_ready = await shard.start()
            except OSError as error:
                # No memory or process is left. The process before has ended, and counts as this one.
                log.error("shard %s cannot be started: %s", shard.command.name, error)
                continue
            if is_ready:
                log.warning("shard %s is back on %s", shard.command.name, shard.address)
                self._notify()

    def _notify(self) -> None:
        ready = sum(bool(shard.address) for shard in self._shards)
        self._notifier.status(f"{ready} of {len(self._shards)} shards ready: {self.addresses}")

    async def stop(self) -> None:
        """Has all shards stop in order, at the same time; kills what takes too long."""
        if self._stopping:
            return
        self._stopping = True
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        try:
            await asyncio.gather(*map(_stopped, self._shards))
        finally:
            for shard in self._shards:
                shard.kill()


async def _stopped(shard: _Shard) -> None:
    if shard.process is None or shard.process.returncode is not None:
        return
    shard.ask_to_stop()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            code = await shard.process.wait()
    except TimeoutError:
        log.error("shard %s did not stop within %.0f s: killed", shard.command.name, STOP_SECONDS)
        shard.kill()
        await shard.process.wait()
        return
    if code:
        log.error("shard %s %s while it stopped", shard.command.name, how_it_ended(code))


def when_supervisor_is_gone(call: Callable[[], None]) -> None:
    """Has `call` called, on the running loop, once standard input has ended."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            call()

    loop.add_reader(descriptor, read)
