"""A trial: clients of all kinds on a broker that is killed, and what became of what they were promised."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.broker.options import BROKER_TABLE, BrokerSettings
from orbitmq.handling.credentials import first_user
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import from_assignments, from_environment, read_file
from orbitmq.protocol.delay_levels import delays_ms
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.testing.load.clients import LOST, TOPICS, Clients
from orbitmq.testing.load.history import RULES, History
from orbitmq.testing.prove.brokers import ApacheBroker, DoesNotStart, Given, Killable, OurBroker
from orbitmq.testing.prove.seeds import Simulated, options_of, simulate

LONGEST_LEVEL_MS = 10_000
ROUNDS = 6
"""Number of ends of a broker before it gets a new folder; each time all messages are read again."""
LIFE_SECONDS = (0.5, 4.0)
DRAIN_SECONDS = 90.0
SHORT_TIMES = {
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "1000",
    "waitTimeMillsInSendQueue": "10000",
}
"""Set whatever the configuration says: how soon a broker asks is no matter of safety, and nobody waits
for hours.
"""
USER = Credentials("orbitmq-prove", "orbitmq-prove-secret")
KINDS = {
    "plain": "messages", "batch": "batches", "popped": "popped messages", "delayed": "delayed messages",
    "timed": "timer messages", "decided": "transactions", "given back": "retries and dead letters",
}  # fmt: skip


@dataclass(slots=True)
class Row:
    """The results for one kind of messages."""

    acknowledged: int = 0
    lost_to_cuts: int = 0


@dataclass(slots=True)
class Findings:
    """The results of a trial, over all its folders."""

    name: str
    settings: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    seconds: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)
    """Number of kills, power cuts and stops."""
    rows: dict[str, Row] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    most_lost: int = 0
    """Acknowledged messages that one power cut took at most."""
    most_lost_ms: float = 0.0
    most_at_risk_bytes: int = 0
    """Most bytes that were written and not on the disk at a power cut."""
    slowest_start_seconds: float = 0.0
    simulated: Simulated | None = None
    """Runs of the same configuration on a simulated machine."""
    failed: str = ""
    """The reason why it ended early."""

    @property
    def is_kept(self) -> bool:
        return not (self.broken or self.failed or (self.simulated and self.simulated.failed))

    def take(self, history: History) -> None:
        """Adds what one folder showed."""
        for promise in history.promises.values():
            row = self.rows.setdefault(promise.kind, Row())
            row.acknowledged += promise.acknowledged
        for kind, number in history.loss.by_kind.items():
            self.rows[kind].lost_to_cuts += number
        self.most_lost = max(self.most_lost, history.loss.most_messages)
        self.most_lost_ms = max(self.most_lost_ms, history.loss.most_ms)
        for broken in history.broken:
            self.broken[broken.rule] += 1
            self.examples.setdefault(broken.rule, broken.detail)
        self.ends.update(kill=history.kills, cut=history.cuts, stop=history.stops)

    def to_value(self) -> dict[str, Any]:
        """All of it, for JSON; what was not tried is null."""
        return {
            "broker": self.name,
            "kept": self.is_kept,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "settings": self.settings,
            "kills": self.ends["kill"],
            "power_cuts": self.ends["cut"],
            "stops": self.ends["stop"],
            "acknowledged": {kind: row.acknowledged for kind, row in self.rows.items()},
            "lost_to_power_cuts": (
                {kind: row.lost_to_cuts for kind, row in self.rows.items()} if self.ends["cut"] else None
            ),
            "lost_to_one_power_cut_at_most": self.most_lost,
            "lost_before_a_power_cut_ms": round(self.most_lost_ms),
            "not_on_the_disk_at_a_power_cut_bytes": self.most_at_risk_bytes,
            "slowest_start_seconds": round(self.slowest_start_seconds, 2),
            "broken": {
                rule: {"promise": RULES[rule], "times": times, "example": self.examples[rule]}
                for rule, times in self.broken.items()
            },
            "simulated": self.simulated and self.simulated.to_value(),
            "failed": self.failed,
        }


def settings_of(given: Given) -> BrokerSettings:
    """The user's configuration as a broker would read it. Raises OptionError."""
    layers = [from_environment(os.environ), from_assignments(given.assignments)]
    if given.config is not None:
        layers.insert(0, read_file(given.config))
    settings: BrokerSettings = BROKER_TABLE.load(
        [layer.split(BROKER_TABLE.has, NAMESRV_TABLE.has)[0] for layer in layers]
    )
    return settings


class Trial:
    """Runs for a while and gives its findings. `show(share, line)` shows how far it is."""

    def __init__(self, given: Given, seed: int, seconds: float, show: Callable[[float, str], None]) -> None:
        self.settings = settings_of(given)
        self._given = given
        self._chance = random.Random(seed)
        self._seconds = seconds
        self._show = show
        self._began = 0.0
        levels = dict(enumerate(delays_ms(self.settings.message_delay_level), start=1))
        self._levels = {level: ms for level, ms in levels.items() if ms <= LONGEST_LEVEL_MS}
        self.findings = Findings("OrbitMQ", self._shown(), seed)

    def _shown(self) -> dict[str, str]:
        """The options that decide what can be lost."""
        settings = self.settings
        shown = {"flushDiskType": settings.flush_disk_type}
        if settings.flush_disk_type == "ASYNC_FLUSH":
            shown["flushIntervalCommitLog"] = f"{settings.flush_interval_commit_log} ms"
            shown["flushCommitLogLeastPages"] = str(settings.flush_commit_log_least_pages)
            shown["flushCommitLogThoroughInterval"] = f"{settings.flush_commit_log_thorough_interval} ms"
        return shown

    def _kinds(self) -> tuple[str, ...]:
        lacking = set() if self._levels else {"delayed"}
        if not self.settings.timer_wheel_enable:
            lacking |= {"timed", "popped"}
        return tuple(kind for kind in TOPICS if kind not in lacking)

    async def on_ours(self) -> Findings:
        """Kills, power cuts and stops of a broker with the user's configuration, and simulated runs of it."""
        seeds = asyncio.create_task(simulate(options_of(self.settings), self.findings.seed, self._seconds))
        try:
            findings = await self._on_ours()
            self._say(f"{findings.name}: waiting for simulated runs")
            findings.simulated = await seeds
        except OrbitError as error:
            self.findings.failed = str(error)
        finally:
            seeds.cancel()
            await asyncio.gather(seeds, return_exceptions=True)
        return self.findings

    async def _on_ours(self) -> Findings:
        overrides = dict(SHORT_TIMES)
        credentials = None
        if self.settings.authentication_enabled or self.settings.authorization_enabled:
            credentials = first_user(self.settings) or USER
            overrides["initAuthenticationUser"] = (
                f'{{"username":"{credentials.access_key}","password":"{credentials.secret_key}"}}'
            )
        return await self._run(
            lambda folder: OurBroker(folder, self._given, overrides),
            ("kill", "cut", "cut", "stop"),
            credentials,
            goes_on=False,
        )

    async def on_apache(self, home: Path) -> Findings:
        """The same kills of Apache's broker, with the properties that it knows as well; no power cuts.

        Promises that it breaks are counted, and it continues: one wants to know how often.
        """
        self.findings.name = "Apache RocketMQ"
        properties = {
            **SHORT_TIMES,
            "flushDiskType": self.settings.flush_disk_type,
            "messageDelayLevel": self.settings.message_delay_level,
            "recallMessageEnable": "true",
        }
        return await self._run(
            lambda folder: ApacheBroker(folder, home, properties), ("kill",), None, goes_on=True
        )

    async def _run(
        self,
        make: Callable[[Path], Killable],
        ends: tuple[str, ...],
        credentials: Credentials | None,
        *,
        goes_on: bool,
    ) -> Findings:
        findings = self.findings
        self._began = time.monotonic()
        while (findings.is_kept or (goes_on and not findings.failed)) and not self._is_over():
            folder = Path(tempfile.mkdtemp(prefix="orbitmq-prove-"))
            try:
                await self._one_folder(make(folder), ends, credentials)
            except DoesNotStart as error:
                findings.failed = f"it does not start: {error}"
            finally:
                findings.seconds = time.monotonic() - self._began
                if findings.is_kept or (goes_on and not findings.failed):
                    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                else:
                    findings.failed = findings.failed or "a promise was broken"
                    findings.failed += f"; what it left is in {folder}"
        return findings

    def _is_over(self) -> bool:
        return time.monotonic() - self._began >= self._seconds

    def _say(self, line: str) -> None:
        self._show(min(1.0, (time.monotonic() - self._began) / self._seconds), line)

    async def _start(self, broker: Killable) -> None:
        began = time.monotonic()
        await broker.start()
        took = time.monotonic() - began
        self.findings.slowest_start_seconds = max(self.findings.slowest_start_seconds, took)

    async def _one_folder(
        self, broker: Killable, ends: tuple[str, ...], credentials: Credentials | None
    ) -> None:
        history = History()
        # The broker's own clock is wall time carried on by the monotonic one; ours may differ by a step.
        base = time.time() - time.monotonic()
        clients = Clients(
            broker.address,
            history,
            lambda: (base + time.monotonic()) * 1000,
            self._chance,
            levels_ms=self._levels,
            kinds=self._kinds(),
            credentials=credentials,
            broker_name=self.settings.broker_name,
        )
        await self._start(broker)
        try:
            await clients.make_topics()
            clients.start()
            for number in range(ROUNDS):
                await asyncio.sleep(self._chance.uniform(*LIFE_SECONDS))
                await self._end(broker, self._chance.choice(ends), history)
                await self._start(broker)
                self._say(
                    f"{self.findings.name}: {len(history.promises):,} messages, ended {number + 1} times"
                )
                if self._is_over() or clients.failed() is not None:
                    break
            self._say(f"{self.findings.name}: waiting for what is due")
            await clients.drain(DRAIN_SECONDS)
            await self._end(broker, ends[0], history)
            await self._start(broker)
            history.check(await clients.everything())
            error = clients.failed()
            if error is not None:
                history.break_("failed", f"a client ended with {error!r}")
        finally:
            await clients.stop()
            with suppress(*LOST):
                await broker.kill()
            await broker.stop() if isinstance(broker, ApacheBroker) else None
            self.findings.take(history)

    async def _end(self, broker: Killable, how: str, history: History) -> None:
        """Ends the broker. An answer meanwhile may count as of either life."""
        now_ms = time.time() * 1000
        if how == "stop":
            await broker.stop()
            history.life_ended("stop", now_ms)
            return
        await broker.kill()
        # Answers that the sockets still hold are read by now or lost with the connection.
        await asyncio.sleep(0.05)
        now_ms = time.time() * 1000
        if how != "cut" or not isinstance(broker, OurBroker):
            history.life_ended(how, now_ms)
            return
        durable = await asyncio.to_thread(broker.durable_offset)
        written = await asyncio.to_thread(broker.written_offset)
        self.findings.most_at_risk_bytes = max(self.findings.most_at_risk_bytes, written - durable)
        loses = self.settings.flush_disk_type != "SYNC_FLUSH"
        history.life_ended("cut", now_ms, durable if loses else None)
        await asyncio.to_thread(broker.cut_power, self._chance)
