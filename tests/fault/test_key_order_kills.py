"""Order by key while workers are killed and handlers fail: no event is handled before the one before it."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from orbitmq import Message
from orbitmq.sync import Producer
from orbitmq.testing import Isolated
from tests.peers.machine import Process

WORKER = """
import os, sys
import orbitmq
from orbitmq import FIRST_OFFSET, DeadLetterPolicy, PushConsumer

out = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
consumer = PushConsumer(
    sys.argv[1],
    consume_from_where=FIRST_OFFSET,
    ordered_by_key=True,
    rebalance_interval_ms=500,
    dead_letter_policy=DeadLetterPolicy(delay_levels=(1,)),
)

@consumer.on(sys.argv[2])
async def handle(message):
    key, number = message.body.decode().split()
    if int(number) % 5 == 3 and message.reconsume_times == 0 and (int(key) + int(number)) % 2:
        raise ConnectionError("not this time")
    os.write(out, f"{key} {number}\\n".encode())

sys.exit(orbitmq.run(consumer))
"""
KEYS, EVENTS, WORKERS, KILLS = 24, 15, 3, 10


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_no_event_is_handled_before_the_one_before_it(rocketmq_isolated: Isolated, tmp_path: Path) -> None:
    mine, handled, chance = rocketmq_isolated, tmp_path / "handled", random.Random(7)
    handled.touch()
    command = [sys.executable, "-c", WORKER, mine.group(), mine.topic(), str(handled)]
    started = 0

    def start() -> Process:
        nonlocal started
        started += 1
        return Process(command, tmp_path / f"worker-{started}.log", {"NAMESRV_ADDR": mine.namesrv})

    with Producer("shop", mine.namesrv) as producer:
        for number in range(EVENTS):
            for key in range(KEYS):
                producer.send(Message(mine.topic(), f"{key} {number}"), sharding_key=str(key))
    workers = [start() for _ in range(WORKERS)]
    try:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.5, 2))
            workers.pop(chance.randrange(WORKERS)).end(signal.SIGKILL)
            workers.append(start())
        wanted = {f"{key} {number}" for key in range(KEYS) for number in range(EVENTS)}
        workers[0].wait_until("all is handled", lambda: wanted <= set(handled.read_text().splitlines()), 240)
    finally:
        for worker in workers:
            worker.end(signal.SIGKILL)
    reached: defaultdict[str, int] = defaultdict(lambda: -1)
    for line in handled.read_text().splitlines():
        key, number = line.split()
        assert int(number) <= reached[key] + 1, f"event {number} of key {key} came after {reached[key]}"
        reached[key] = max(reached[key], int(number))
