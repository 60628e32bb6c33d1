"""The brokers that are killed: ours, with a record of what it synced, and Apache's."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orbitmq.protocol.errors import OrbitError
from orbitmq.server.turn.listener import free_ports
from orbitmq.store.snapshot import KEY_FILE
from orbitmq.testing.prove import power

START_SECONDS = 120.0
"""Limit of a start in seconds: recovery reads the log."""


class DoesNotStart(OrbitError):
    """A broker does not come up; the message holds the last lines it said."""


class Killable(Protocol):
    """The operations on a broker that a trial needs."""

    address: str

    async def start(self) -> None: ...
    async def kill(self) -> None: ...
    async def stop(self) -> None: ...


async def _until(condition: Callable[[], object], process: asyncio.subprocess.Process, log: Path) -> None:
    """Waits until `condition()` holds. Raises DoesNotStart."""
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    while not condition():
        if process.returncode is not None or asyncio.get_running_loop().time() > deadline:
            # A few kilobytes, once, of a broker that does not come up.
            said = log.read_text(errors="replace").strip().splitlines()[-5:]  # noqa: ASYNC240
            raise DoesNotStart("; ".join(said) or "it said nothing")
        await asyncio.sleep(0.05)


async def _end(process: asyncio.subprocess.Process | None, how: signal.Signals) -> None:
    if process is not None and process.returncode is None:
        process.send_signal(how)
        await process.wait()


@dataclass(slots=True)
class Given:
    """A configuration as the user gave it."""

    config: Path | None = None
    assignments: Sequence[str] = ()


class OurBroker:
    """`orbitmq standalone` with a user's configuration, in a folder of its own.

    Settings that would reach beyond that folder are set otherwise: ports, addresses, name servers, the files
    it writes.
    """

    def __init__(self, folder: Path, given: Given, overrides: Mapping[str, str]) -> None:
        self._folder = folder
        self.root = folder / "data"
        self.record = folder / "record"
        self.root.mkdir(parents=True)
        port = free_ports(-2, 1, 2)
        self.address = f"127.0.0.1:{port}"
        self._process: asyncio.subprocess.Process | None = None
        config = []
        if given.config is not None:
            # A copy: a broker writes options that are changed over the network into its file.
            copy = folder / given.config.name
            shutil.copy(given.config, copy)
            config = ["--config", str(copy)]
        self._command = [
            *("standalone", "--listen", "127.0.0.1", "--data-dir", str(self.root)),
            *("--ready-file", str(folder / "ready")),
            *("--broker-port", str(port), "--namesrv-port", str(port + 2), *config),
        ]
        apart = {
            **overrides,
            "namesrvAddr": f"127.0.0.1:{port + 2}",
            "authConfigPath": str(self.root / "config"),
            "authKeyPath": str(self.root / "config" / KEY_FILE),
            "healthPort": "0",
            "metricsExporterType": "DISABLE",
        }
        for pair in (*given.assignments, *(f"{name}={value}" for name, value in apart.items())):
            self._command += ["--set", pair]

    async def start(self) -> None:
        """Raises DoesNotStart."""
        ready, log = self._folder / "ready", self._folder / "broker.log"
        ready.unlink(missing_ok=True)
        with log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "orbitmq.testing.prove.child", str(self.root), str(self.record),
                *self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        await _until(ready.exists, self._process, log)

    async def kill(self) -> None:
        await _end(self._process, signal.SIGKILL)

    async def stop(self) -> None:
        await _end(self._process, signal.SIGTERM)

    def durable_offset(self) -> int:
        """Up to where the log was on the disk when it was killed."""
        return power.durable_offset(self.root, self.record)

    def written_offset(self) -> int:
        """Behind the last byte of the log that is not zero, on the disk or not."""
        end = 0
        for path in sorted((self.root / "commitlog").glob("[0-9]" * 20)):
            for at, page, _ in power._pages_apart(path, None):
                end = int(path.name) + at + len(page.rstrip(b"\x00"))
        return end

    def cut_power(self, chance: random.Random) -> None:
        """Ends the broker as a power cut does: unsynced bytes are lost, torn or there."""
        power.cut(self.root, self.record, chance)


class ApacheBroker:
    """Apache RocketMQ from an unpacked release, or any folder with its jars."""

    def __init__(self, folder: Path, home: Path, properties: Mapping[str, str]) -> None:
        self._jars = home / "lib" if any((home / "lib").glob("rocketmq-broker-*.jar")) else home
        if not any(self._jars.glob("rocketmq-broker-*.jar")):
            raise OrbitError(
                f"there is no rocketmq-broker-*.jar in {home} nor in {home / 'lib'}: "
                "--apache-home wants an unpacked release of Apache RocketMQ"
            )
        if shutil.which("java") is None:
            raise OrbitError("java is not on PATH: Apache's broker needs a JDK, 8 or newer")
        self._folder = folder
        (folder / "home" / "conf").mkdir(parents=True)
        port = free_ports(-2, 1, 2)
        self.address = f"127.0.0.1:{port}"
        self._processes: list[asyncio.subprocess.Process] = []
        store = folder / "data"
        (folder / "namesrv.conf").write_text(
            f"listenPort={port + 2}\nbindAddress=127.0.0.1\nkvConfigPath={folder}/kv.json\n"
            f"configStorePath={folder}/namesrv.properties\n"
        )
        lines = {
            "brokerName": "broker-a", "brokerId": "0", "brokerIP1": "127.0.0.1", "bindAddress": "127.0.0.1",
            **properties, "namesrvAddr": f"127.0.0.1:{port + 2}", "listenPort": str(port),
            "storePathRootDir": str(store), "storePathCommitLog": f"{store}/commitlog",
        }  # fmt: skip
        (folder / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    async def _java(self, kind: str, config: str) -> None:
        log = self._folder / f"{kind}.log"
        said = log.stat().st_size if log.exists() else 0
        main = {"broker": "broker.BrokerStartup", "namesrv": "namesrv.NamesrvStartup"}[kind]
        opened = [
            f"--add-{how}=java.base/{package}=ALL-UNNAMED"
            for how, package in (
                ("exports", "jdk.internal.ref"), ("exports", "sun.nio.ch"), ("opens", "java.nio"),
                ("opens", "sun.nio.ch"), ("opens", "java.lang"),
            )
        ]  # fmt: skip
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                "java", f"-Duser.home={self._folder}/home", f"-Drocketmq.home.dir={self._folder}/home",
                f"-Drocketmq.log.dir={self._folder}/logs", *opened, "-Xmx1g", "-XX:MaxDirectMemorySize=1g",
                "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{self._jars}/*",
                f"org.apache.rocketmq.{main}", "-c", str(self._folder / config),
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, "NAMESRV_ADDR": ""},
            )  # fmt: skip
        self._processes.append(process)
        await _until(lambda: b"boot success" in log.read_bytes()[said:], process, log)

    async def start(self) -> None:
        """Raises DoesNotStart."""
        if not self._processes:
            await self._java("namesrv", "namesrv.conf")
        await self._java("broker", "broker.conf")

    async def kill(self) -> None:
        """Kills the broker; its name server stays."""
        await _end(self._processes.pop(), signal.SIGKILL)

    async def stop(self) -> None:
        while self._processes:
            await _end(self._processes.pop(), signal.SIGTERM)
