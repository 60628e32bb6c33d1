"""A trial of a cluster: clients send and consume unique ids while its nodes and links fail one by one."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.client import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage, SendStatus
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import SUBSCRIPTION_IN_REQUEST, PullMessage
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from orbitmq.testing.local_broker import StartFailed
from orbitmq.testing.local_cluster import LocalCluster
from orbitmq.testing.prove.faults import BALLAST_TOPIC, TWO, TWO_SHARE, Faults
from orbitmq.testing.prove.links import ADVERTISED
from orbitmq.testing.prove.service import CONTROL, RULES, FaultRow, Queue, Service, Window

TOPIC, PRODUCERS, CONSUMERS = "ClusterTrial", "trial-producers", "trial-consumers"
QUEUES = 4
SENDERS = 4
PAUSE_SECONDS = 0.02
"""Longest pause of a sender behind an answer."""
BODY_BYTES = 200
CONTROL_SECONDS = 2.0
CONTROL_EVERY = 10
"""After so many faults comes a time without one, to compare with."""
REST_SECONDS = (0.3, 1.0)
START_SECONDS = 300.0
BACK_SECONDS = 300.0
"""Limit of the time from the end of a fault to both clients being served again."""
DRAIN_SECONDS = 120.0
OF_FULL_DISKS = {
    # So that a full disk is soon noticed, by a look at it or by a segment that cannot be made.
    "mappedFileSizeCommitLog": str(1 << 20),
    "cleanResourceInterval": "2000",
    # A full disk would take old messages away, acknowledged or not.
    "cleanFileForciblyEnable": "false",
}
"""Options of brokers, unless the user gives others."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster, and how often it is to fail."""

    masters: int = 1
    slaves: int = 1
    name_servers: int = 2
    mode: str = "sync-master"
    flush: str = "sync"
    failover: bool = False
    faults: int | None = None
    """Number of faults; None: as many as fit into `seconds`."""
    seconds: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the brokers, by Apache's names."""
    only: tuple[str, ...] = ()
    """Kinds of faults; none: all that such a cluster can have, and two at once."""

    @property
    def goes_blind(self) -> bool:
        """True if masters stay masters while no controller answers."""
        return self.failover and self.options.get("enableBlindMaster") == "true"

    @property
    def may_lose(self) -> bool:
        """True if a slave may become master without what its master had acknowledged: its masters say
        beforehand how much that would be.
        """
        return self.failover and self.mode == "async-master"


@dataclass(slots=True)
class ClusterFindings:
    """The results of a trial of a cluster."""

    plan: ClusterPlan
    seed: int
    seconds: float = 0.0
    load: float = 0.0
    """Load average of the machine over the last minutes of the trial."""
    rows: list[FaultRow] = field(default_factory=list)
    windows: list[dict[str, Any]] = field(default_factory=list)
    """Every fault by itself, in the order in which they came."""
    acknowledged: int = 0
    lost_as_reported: int = 0
    """Acknowledged messages lost with a master that had said before that no slave held them."""
    most_unreplicated_seconds: float = 0.0
    """The most that masters said so, right before a fault: since when the oldest such message had waited."""
    failed_sends: int = 0
    disks: str = ""
    """The disks of brokers, in words."""
    broken: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    failed: str = ""
    """The reason why it ended early."""

    @property
    def is_kept(self) -> bool:
        return not (self.broken or self.failed)

    @property
    def faults(self) -> int:
        return sum(row.times for row in self.rows if row.kind != CONTROL)

    def to_value(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "kept": self.is_kept,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "machine": {"cores": os.cpu_count(), "loadAverage": round(self.load, 1)},
            "cluster": {
                "masters": plan.masters,
                "slavesOfEach": plan.slaves,
                "nameServers": plan.name_servers,
                "mode": plan.mode,
                "flush": plan.flush,
                "failover": plan.failover,
                "options": dict(plan.options),
                "disks": self.disks,
            },
            "faults": self.faults,
            "acknowledged": self.acknowledged,
            "failedSends": self.failed_sends,
            "lost": sum(row.lost for row in self.rows),
            "lostAsReported": self.lost_as_reported,
            "mostUnreplicatedSeconds": round(self.most_unreplicated_seconds, 3),
            "duplicated": sum(row.twice for row in self.rows),
            "rows": [row.to_value() for row in self.rows],
            "each": self.windows,
            "broken": {
                rule: {"promise": RULES[rule], "times": times, "examples": self.examples[rule]}
                for rule, times in self.broken.items()
            },
            "failed": self.failed,
        }


class ClusterTrial:
    """Runs for a number of faults, or for a while, and gives its findings. `show(share, line)` shows how far
    it is.
    """

    def __init__(self, plan: ClusterPlan, seed: int, show: Callable[[float, str], None]) -> None:
        self._plan = plan
        self._chance = random.Random(seed)
        self._show = show
        self._service = Service()
        self._over = asyncio.Event()
        self._pool = ConnectionPool()
        self.findings = ClusterFindings(plan, seed)

    async def run(self) -> ClusterFindings:
        """Starts the cluster, lets it fail, and compares."""
        plan, findings = self._plan, self.findings
        folder = Path(tempfile.mkdtemp(prefix="orbitmq-prove-"))
        began = time.monotonic()
        cluster = LocalCluster(
            folder,
            masters=plan.masters,
            slaves=plan.slaves,
            name_servers=plan.name_servers,
            mode=plan.mode,
            flush=plan.flush,
            failover=plan.failover,
            known_as=ADVERTISED,
            timeout_seconds=START_SECONDS,
            **{**OF_FULL_DISKS, **plan.options},
        )
        faults = Faults(cluster, self._chance, self._service.break_, goes_blind=plan.goes_blind)
        try:
            await faults.open()
            findings.disks = "in memory" if faults.disks.are_mounted else "limited files"
            self._show(0.0, "starting the cluster")
            await asyncio.to_thread(cluster.start)
            await self._clients(cluster, faults)
        except (OrbitError, StartFailed) as error:
            findings.failed = str(error)
        finally:
            findings.seconds = time.monotonic() - began
            findings.load = os.getloadavg()[1]
            await faults.close()
            await asyncio.to_thread(cluster.halt)
        service = self._service
        findings.acknowledged, findings.failed_sends = len(service.acknowledged), service.failed_sends
        findings.lost_as_reported = service.lost_as_reported
        findings.broken, findings.examples = service.broken, dict(service.examples)
        await asyncio.to_thread(faults.disks.close, keep=not findings.is_kept)
        if findings.is_kept:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        else:
            findings.failed = findings.failed or "a promise was broken"
            findings.failed += f"; what the cluster left is in {folder}"
        return findings

    async def _clients(self, cluster: LocalCluster, faults: Faults) -> None:
        service = self._service
        pool = self._pool
        masters = [node.address for node in cluster.nodes if node.kind == "master"]
        if not masters:
            found = [await asyncio.to_thread(cluster.master, group) for group in groups_of(cluster)]
            masters = [node.address for node in found if node is not None]
        for address in masters:
            for topic in (TOPIC, BALLAST_TOPIC):
                request = UpdateAndCreateTopic(topic, "TBW102", QUEUES, QUEUES, 6, "SINGLE_TAG", False)
                await pool.call(address, request, 10_000)

        async def handle(message: ReceivedMessage) -> None:
            service.give(message.body.partition(b"|")[0].decode("utf-8", "replace"), time.monotonic())

        try:
            async with (
                Producer(PRODUCERS, cluster.namesrv) as producer,
                PushConsumer(CONSUMERS, cluster.namesrv, consume_from_where=FIRST_OFFSET) as consumer,
            ):
                consumer.subscribe(TOPIC, "*", handle)
                senders = [asyncio.ensure_future(self._send(producer, one)) for one in range(SENDERS)]
                try:
                    await self._fail_again_and_again(cluster, faults)
                finally:
                    self._over.set()
                    await asyncio.gather(*senders)
                await self._drain()
            service.check(await self._held(cluster, pool))
        finally:
            # Also of a trial that ended early.
            self.findings.rows, self.findings.windows = service.rows(), service.each_window()
            await pool.close()

    async def _send(self, producer: Producer, number: int) -> None:
        service = self._service
        # Chance of its own: the faults of a seed do not depend on how many messages there are.
        chance = random.Random(number)
        count = 0
        while not self._over.is_set():
            name = f"sender{number}-{count}"
            count += 1
            service.sent[name] = time.monotonic()
            try:
                result = await producer.send(Message(TOPIC, f"{name}|".encode().ljust(BODY_BYTES, b".")))
            except OrbitError:
                service.failed_sends += 1
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if result.status is SendStatus.SEND_OK:
                service.acknowledge(name, time.monotonic())
            else:
                service.failed_sends += 1
            await asyncio.sleep(chance.random() * PAUSE_SECONDS)

    async def _fail_again_and_again(self, cluster: LocalCluster, faults: Faults) -> None:
        plan, service = self._plan, self._service
        kinds: list[str] = []
        began = time.monotonic()
        number = 0
        await self._served(began)
        while not self._is_done(number, began):
            if number % CONTROL_EVERY == 0:
                await self._one(CONTROL, cluster, faults)
            if not kinds:
                # Every kind comes before any comes again.
                kinds = list(plan.only or faults.kinds)
                self._chance.shuffle(kinds)
            kind = TWO if not plan.only and self._chance.random() < TWO_SHARE else kinds.pop()
            share = number / plan.faults if plan.faults else 0.0
            if plan.seconds is not None:
                share = max(share, (time.monotonic() - began) / plan.seconds)
            self._show(min(1.0, share), f"{number} faults, {len(service.acknowledged):,} messages; {kind}")
            if not await self._one(kind, cluster, faults):
                return
            number += 1
        self._show(1.0, "reading all messages again")

    def _is_done(self, number: int, began: float) -> bool:
        plan = self._plan
        if plan.faults is not None and number >= plan.faults:
            return True
        return plan.seconds is not None and time.monotonic() - began >= plan.seconds

    async def _one(self, kind: str, cluster: LocalCluster, faults: Faults) -> bool:
        """One fault from its beginning until all is well again; False if that did not come."""
        may_lose = self._plan.may_lose and kind != CONTROL
        may_lose_from = await self._replicated_before(cluster) if may_lose else None
        window = Window(kind, time.monotonic(), may_lose_from=may_lose_from)
        self._service.windows.append(window)
        if kind == CONTROL:
            await asyncio.sleep(CONTROL_SECONDS)
        else:
            seconds, end = await faults.begin(kind)
            await asyncio.sleep(seconds)
            await end()
        healed = time.monotonic()
        window.held_seconds = healed - window.began
        if not await self._served(healed):
            self._service.break_("stuck", f"nobody was served for {BACK_SECONDS:.0f} s after {kind!r}")
            return False
        # The next fault finds a cluster that is whole: replicas in sync, every node there.
        await asyncio.to_thread(cluster.start)
        await asyncio.sleep(self._chance.uniform(*REST_SECONDS))
        window.ended = time.monotonic()
        return True

    async def _replicated_before(self, cluster: LocalCluster) -> float:
        """The moment before which everything that is stored has a replica, by what all masters say now.

        0, the beginning of the monotonic clock, if a master or its slave is away: then no message is safe.
        """
        oldest = time.monotonic()
        for group in groups_of(cluster):
            asked = time.monotonic()
            master = await asyncio.to_thread(cluster.master, group)
            if master is None:
                return 0.0
            info = (await self._pool.call(master.address, GetBrokerRuntimeInfo(), 10_000)).body.table
            waits_ms = info.get("unreplicatedTimeMillis")
            if waits_ms is None:  # no slave is connected
                return 0.0
            waits_seconds = int(waits_ms) / 1000
            findings = self.findings
            findings.most_unreplicated_seconds = max(findings.most_unreplicated_seconds, waits_seconds)
            oldest = min(oldest, asked - waits_seconds)
        return oldest

    async def _served(self, since: float) -> bool:
        """Waits until messages are acknowledged and delivered that were sent since then."""
        service = self._service
        deadline = time.monotonic() + BACK_SECONDS
        seen = len(service.acks)
        while time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            if len(service.acks) - seen > SENDERS and service.acks[-1] > since and not self._behind(since):
                return True
        return False

    def _behind(self, since: float) -> bool:
        """True if no message came yet that was acknowledged since then."""
        service = self._service
        for name in reversed(service.given):
            moment = service.acknowledged.get(name)
            if moment is not None:
                return moment <= since
        return True

    async def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        left = self._service.outstanding()
        while left and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            before, left = left, self._service.outstanding()
            if left < before:
                deadline = time.monotonic() + DRAIN_SECONDS

    async def _held(self, cluster: LocalCluster, pool: ConnectionPool) -> dict[Queue, list[str]]:
        """The messages of all queues, as the present masters have them."""
        held = {}
        for group in groups_of(cluster):
            master = await asyncio.to_thread(cluster.master, group)
            if master is None:
                raise StartFailed(f"group {group} has no master in the end")
            for queue_id in range(QUEUES):
                held[group, queue_id] = await _read(pool, master.address, queue_id)
        return held


def groups_of(cluster: LocalCluster) -> list[str]:
    """Names of the broker groups of a cluster."""
    return sorted({node.group for node in cluster.nodes if node.group})


async def _read(pool: ConnectionPool, address: str, queue_id: int) -> list[str]:
    end = (await pool.call(address, GetMaxOffset(TOPIC, queue_id), 10_000)).offset
    names: list[str] = []
    tries = 0
    while len(names) < end:
        pull = PullMessage(
            "trial-readers", TOPIC, queue_id, len(names), 512, SUBSCRIPTION_IN_REQUEST, 0, 0, 0, "*"
        )
        try:
            reply = await pool.call(address, pull, 10_000)
        except (NetError, BrokerRefused):
            tries += 1
            if tries > 20:
                raise
            await asyncio.sleep(0.2)
            continue
        records, bad = decode_records(reply.body or b"")
        if bad or not records or records[0].queue_offset != len(names):
            raise StartFailed(f"queue {queue_id} of {address} cannot be read at {len(names)} of {end}")
        names += [one.body.partition(b"|")[0].decode("utf-8", "replace") for one in records]
    return names
