"""Several instances of the service as processes, over etcd or ZooKeeper: one delivers, another takes over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from orbitmq import sync
from orbitmq.client import Message
from orbitmq.client.delays import DelayClient, DelayUnavailable
from orbitmq.delay_service.options import DelaySettings
from orbitmq.server.controller.stores import open_store
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from orbitmq.testing.local_etcd import LocalEtcd
from tests.delay.test_faults import read_all
from tests.kit.brokers import others_at_night
from tests.kit.running_delay import until
from tests.needs import need
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.timeout(600)

STORES = {"etcd": (LocalEtcd, ("etcd",)), "zookeeper": (ZooKeeper, ("java", "mvn"))}
PREFIX = "/orbitmq/of_this_test"
LEASE_SECONDS = 8
"""A machine that stands still for a moment ends no lease."""


class Instance:
    """One process of the service."""

    def __init__(self, folder: Path, namesrv: str, consensus: str, level: str) -> None:
        self.log = folder.with_suffix(".log")
        self.name = folder.name
        self.address = f"127.0.0.1:{free_ports()}"
        command = [
            sys.executable, "-m", "orbitmq", "delay", "serve", "--data-dir", str(folder),
            "--cluster", f"main=rocketmq://{namesrv}", "--http", self.address, "--consensus", consensus,
            "--set", f"storeLeaseSeconds={LEASE_SECONDS}", "--set", f"storePrefix={PREFIX}",
            "--set", f"delayInstance={self.name}", "--set", f"logLevel={level}",
        ]  # fmt: skip
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ})
        self.client = DelayClient(f"http://{self.address}")

    @property
    def role(self) -> str:
        try:
            return self.client.stats()["role"]
        except DelayUnavailable:
            return ""

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        if number is signal.SIGKILL:
            self.process.wait(120)


async def term(consensus: str) -> int:
    """The term that the consensus store has below the prefix."""
    store = open_store(DelaySettings(store_address=consensus, store_prefix=PREFIX))
    try:
        return int((await store.read("term"))["term"])
    finally:
        await store.close()


@pytest.mark.parametrize("kind", others_at_night(STORES, ["etcd"]))
def test_an_instance_takes_over_from_one_that_was_killed_or_paused(kind, tmp_path):
    servers, needed = STORES[kind]
    need(*needed)
    with servers(tmp_path / kind) as consensus, LocalBroker(autoCreateTopicEnable="false") as broker:
        for topic in ("orbitmq_delay", "orbitmq_delay_dead", "t", "replies"):
            broker.create_topic(topic, queues=1)
        instances = [
            Instance(tmp_path / f"{level}er", broker.namesrv, consensus.address, level)
            for level in ("info", "warning")
        ]
        try:
            story(broker, instances, lambda: asyncio.run(term(consensus.address)))
            assert asyncio.run(term(consensus.address)) >= 3
            said, silent = (one.log.read_text() for one in instances)
            assert "this instance delivers from now on" in said
            assert "this instance delivers from now on" not in silent
        finally:
            for one in instances:
                one.signal(signal.SIGCONT)
                one.signal(signal.SIGKILL)


def story(broker, instances, term_now):
    number = 0
    cancelled = set()

    def all_is_done(instance: Instance) -> bool:
        """True if an instance has read every order, and nothing is pending or on its way."""
        stats = instance.client.stats()
        read = stats["orders"].get("scheduled", 0), stats["orders"].get("cancelled", 0)
        return read == (number, len(cancelled)) and stats["pending"] == 0

    def send(producer, count, after):
        nonlocal number
        for _ in range(count):
            control = {"delay.topic": "t", "delay.after": after(number), "delay.id": f"n{number}"}
            producer.send(Message("orbitmq_delay", b"%d" % number, properties=control))
            number += 1

    with sync.Producer("p", broker.namesrv) as producer:
        first = until(lambda: next((one for one in instances if one.role == "holder"), None))
        (second,) = [one for one in instances if one is not first]
        until(lambda: second.role == "follower")
        until(lambda: second.client.stats()["holder"] == first.name)
        send(producer, 100, lambda n: f"{n % 7 * 50}ms")
        send(producer, 10, lambda n: "1h")
        for n in range(100, 110):
            outcome = second.client.cancel(f"n{n}")  # each instance answers, and all of them agree
            assert outcome.outcome == "cancelled", outcome
            cancelled.add(b"%d" % n)
        until(lambda: all_is_done(first))
        term_before = term_now()
        # A paused holder is replaced, and sends nothing when it wakes.
        first.signal(signal.SIGSTOP)
        send(producer, 100, lambda n: f"{n % 7 * 50}ms")
        until(lambda: second.role == "holder")
        until(lambda: all_is_done(second))
        terms_of_the_pause = term_now() - term_before
        first.signal(signal.SIGCONT)
        until(lambda: first.role == "follower")
        until(lambda: all_is_done(first))
        assert second.role == "holder"
        # One that is killed is replaced, too.
        send(producer, 100, lambda n: f"{n % 7 * 50}ms")
        second.signal(signal.SIGKILL)
        until(lambda: first.role == "holder")
        until(lambda: all_is_done(first))
    found = Counter(one.body for one in read_all(broker, "t", number - len(cancelled)))
    assert set(found) == {b"%d" % n for n in range(number)} - cancelled
    # Nothing of these was on its way as one was paused or killed: the paused one woke, and sent nothing. A
    # lease may have ended besides if the machine stood still: then its batch left twice.
    once = [
        *(range(100) if term_before == 1 else ()),
        *(range(110, 210) if terms_of_the_pause == 1 else ()),
    ]
    assert {n: found[b"%d" % n] for n in once if found[b"%d" % n] != 1} == {}
    assert not read_all(broker, "orbitmq_delay_dead", 0)
