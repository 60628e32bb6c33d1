"""Relays are killed at random under load, and the broker is: nothing is lost, keys keep their order, and only
batches that were under way arrive twice.

ORBITMQ_OUTBOX_KILLS is the number of kills of the longer form, for each database.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from orbitmq import Message
from orbitmq.outbox import ROW_ID, Outbox, counts
from orbitmq.testing import LocalBroker
from tests.kit.brokers import others_at_night
from tests.kit.outbox import database_url, stored

KILLS = int(os.environ.get("ORBITMQ_OUTBOX_KILLS", "3"))
BATCH = 32
KEYS = 40
TOPIC = "transfers"


class Relays:
    """Two relays as processes; one that is killed is replaced."""

    def __init__(self, url: str, namesrv: str) -> None:
        self._command = [
            *(sys.executable, "-m", "orbitmq", "outbox", "relay", "--namesrv", namesrv),
            *(
                "--batch-size",
                str(BATCH),
                "--max-pause",
                "0.3",
                "--send-timeout",  # a slow machine has no batch sent again
                "20",
                "--log-level",
                "error",
            ),
        ]
        self._environment = {**os.environ, "ORBITMQ_OUTBOX_DATABASE": url}
        self.processes = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment, stdout=subprocess.PIPE)

    def kill(self, number: int) -> None:
        """Ends one as kill -9 does, and starts another."""
        self.processes[number].kill()
        self.processes[number].communicate()
        self.processes[number] = self._start()

    def stop(self) -> list[int]:
        """Stops both in order; their exit codes."""
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready")
            process.terminate()
        for process in self.processes:
            process.communicate(timeout=60)
        return [process.returncode for process in self.processes]

    def remove(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


class Writer:
    """Transactions with messages of several keys, a third of them rolled back."""

    def __init__(self, outbox: Outbox, engine: Engine, chance: random.Random) -> None:
        self._outbox, self._engine, self._chance = outbox, engine, chance
        self._numbers = itertools.count()
        self.committed: dict[str, list[bytes]] = defaultdict(list)

    def write(self) -> None:
        picked = [
            (f"key {self._chance.randrange(KEYS)}", b"%d" % next(self._numbers))
            for _ in range(self._chance.randrange(1, 12))
        ]
        with self._engine.connect() as connection:
            for key, body in picked:
                self._outbox.add(connection, Message(TOPIC, body, sharding_key=key))
            if self._chance.random() < 0.33:
                connection.rollback()
                return
            connection.commit()
        for key, body in picked:
            self.committed[key].append(body)

    @property
    def count(self) -> int:
        return sum(map(len, self.committed.values()))


@pytest.mark.parametrize("kind", others_at_night(["postgresql", "mariadb", "sqlite"], ["postgresql"]))
def test_kills_lose_nothing_and_keep_the_order_of_keys(kind: str, tmp_path: Path) -> None:
    chance = random.Random(f"{kind} {KILLS}")
    url = database_url(kind, tmp_path)
    engine = create_engine(url, **({"connect_args": {"timeout": 60}} if kind == "sqlite" else {}))
    outbox = Outbox()
    with engine.begin() as connection:
        outbox.create_tables(connection)
    writer = Writer(outbox, engine, chance)
    with LocalBroker(own_process=True) as broker:
        broker.create_topic(TOPIC)
        relays = Relays(url, broker.namesrv)
        try:
            kills = 0
            for number in range(KILLS):
                end = time.monotonic() + chance.uniform(0.3, 1.2)
                while time.monotonic() < end:
                    writer.write()
                if number % 3 == 1:
                    broker.kill()
                    writer.write()
                    broker.start()
                else:
                    relays.kill(chance.randrange(2))
                    kills += 1
            writer.write()
            wait_until_sent(outbox, engine)
            assert relays.stop() == [0, 0]
        finally:
            relays.remove()
        found = asyncio.run(stored(broker.namesrv, TOPIC, writer.count))
    engine.dispose()
    order: dict[str, list[bytes]] = defaultdict(list)
    seen: set[str] = set()
    for message in found:
        row_id = message.properties[ROW_ID]
        if row_id not in seen:
            seen.add(row_id)
            order[str(message.sharding_key)].append(message.body)
    assert order == writer.committed
    # A broker that is killed answers no batch that is under way: both relays send theirs again.
    outages = KILLS - kills
    assert len(found) - len(seen) <= (kills + 2 * outages) * BATCH


def wait_until_sent(outbox: Outbox, engine: Engine) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with engine.connect() as connection:
            if not counts(outbox, connection).pending:
                return
        time.sleep(0.05)
    raise AssertionError("messages are still pending")
