"""A long, quiet run: `python -m tests.fault.soak STATE --for 600`. Memory, handles and latency stay flat.

All kinds of messages flow, nothing is killed, and clients come and go all the time, some in order and some
not. A run goes on with what an earlier one left in STATE, so two hours can be had in pieces. Each piece has
topics and groups of its own, and at its end what was promised in it is compared with what is there. Figures
of all pieces are in STATE/figures.jsonl, and `--sum-up` judges them together.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.testing import LocalBroker
from orbitmq.testing.load.clients import Clients, wire
from orbitmq.testing.load.history import History
from tests.fault.mixed import LEVELS_MS

SAMPLE_SECONDS = 10.0
WARM_SAMPLES = 6
"""Not judged: what a broker takes at first for topics, queues and clients it keeps."""
MESSAGE_FILES = re.compile(r"/(commitlog|consumequeue|index|timerlog)/")
CHURNERS = 8
CHURN_TOPIC = "SoakChurn"
PROPERTIES: dict[str, object] = {
    # Files near the usual size: small ones are many, and the store keeps some of them open, all of the index.
    "mappedFileSizeCommitLog": 256 << 20,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 500_000,
    "maxIndexNum": 2_000_000,
    "messageDelayLevel": "1s 2s 3s",
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 1000,
    # A process that adds up millions of messages does not answer for a while.
    "transactionCheckMax": 1000,
    "recallMessageEnable": "true",
}


def handles_of(pid: int) -> tuple[int, int]:
    """Numbers of a process: files of messages, which are more the more is stored, and all others."""
    of_messages = others = 0
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = os.readlink(handle)
        except FileNotFoundError:
            continue  # closed meanwhile
        if MESSAGE_FILES.search(name):
            of_messages += 1
        else:
            others += 1
    return of_messages, others


def memory_of(pid: int) -> dict[str, int]:
    """Anonymous memory counts; what is mapped of files is the page cache's."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {
        line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("RssAnon", "Threads"))
    }
    return {"anonymous_kib": int(fields["RssAnon"]), "threads": int(fields["Threads"])}


class Soak:
    def __init__(self, broker: LocalBroker, state: Path, seed: int) -> None:
        self.broker = broker
        self.state = state
        self.chance = random.Random(seed)
        self.latencies_ms: list[float] = []
        self.churned = 0

    async def churn(self, number: int) -> None:
        """One client after another: it comes, says who it is, sends, pulls, and goes in order or not."""
        while True:
            pool = ConnectionPool()
            name = f"soak-{number}-{self.churned}"
            try:
                data = HeartbeatData(
                    client_id=f"{name}@1",
                    producer_data_set=[ProducerData(f"soak-producers-{number}")],
                    consumer_data_set=[ConsumerData(group_name=f"soak-consumers-{number}")],
                )
                await pool.call(self.broker.broker, Heartbeat(body=data), 10_000)
                for _ in range(20):
                    began = time.monotonic()
                    send = SendMessageV2(
                        "soak", CHURN_TOPIC, "TBW102", 4, number % 4, 0, int(time.time() * 1000), 0,
                        wire(name), body=b"x" * 500,
                    )  # fmt: skip
                    await pool.call(self.broker.broker, send, 10_000)
                    self.latencies_ms.append((time.monotonic() - began) * 1000)
                pull = PullMessage(
                    f"soak-consumers-{number}", CHURN_TOPIC, 0, 0, 32, 4, 0, 0, 0, subscription="*"
                )
                await pool.call(self.broker.broker, pull, 10_000)
            except (NetError, BrokerRefused):
                pass  # counted by what it did not add
            self.churned += 1
            if self.chance.random() < 0.5:
                await pool.close()
            else:
                for address in pool.addresses:
                    with contextlib.suppress(NetError):
                        (await pool.connection(address)).abort("gone")
                await pool.close()
            await asyncio.sleep(self.chance.random() * 0.3)

    def sample(self, piece: int) -> dict[str, Any]:
        took, self.latencies_ms = sorted(self.latencies_ms), []
        of_messages, others = handles_of(self.broker.pid)
        figures = {
            "piece": piece,
            "at": round(time.time(), 1),
            "handles": others,
            "message_files": of_messages,
            **memory_of(self.broker.pid),
            "sends": len(took),
            "p50_ms": round(took[len(took) // 2], 2) if took else None,
            "p99_ms": round(took[len(took) * 99 // 100], 2) if took else None,
            "clients": self.churned,
        }
        with (self.state / "figures.jsonl").open("a") as file:
            file.write(json.dumps(figures) + "\n")
        return figures

    async def run(self, seconds: float, piece: int) -> list[str]:
        """One piece; gives the promises that were broken in it."""
        base = time.time() - time.monotonic()
        history = History()
        clients = Clients(
            self.broker.broker,
            history,
            lambda: (base + time.monotonic()) * 1000,
            self.chance,
            levels_ms=LEVELS_MS,
            pause_seconds=0.5,
            suffix=f"-{piece}",
        )
        churners = [asyncio.create_task(self.churn(number)) for number in range(CHURNERS)]
        try:
            await clients.make_topics()
            clients.start()
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                await asyncio.sleep(min(SAMPLE_SECONDS, max(0.1, ends - time.monotonic())))
                print(self.sample(piece), flush=True)
            await clients.drain(120)
            return [str(broken) for broken in history.check(await clients.everything())]
        finally:
            for task in churners:
                task.cancel()
            await asyncio.gather(*churners, return_exceptions=True)
            await clients.stop()


def judge(state: Path) -> list[str]:
    """Figures that did not stay flat: the last third of the samples beside the first one, warm-up left
    out."""
    samples = [json.loads(line) for line in (state / "figures.jsonl").read_text().splitlines()]
    by_piece: dict[int, list[dict[str, Any]]] = {}
    for sample in samples:
        by_piece.setdefault(sample["piece"], []).append(sample)
    flat = [sample for piece in by_piece.values() for sample in piece[WARM_SAMPLES:]]
    if len(flat) < 9:
        return []
    third = len(flat) // 3
    complaints = []
    for name, most in (
        ("anonymous_kib", 1.25),
        ("handles", 1.25),
        ("threads", 1.25),
        ("p50_ms", 2.0),
        ("p99_ms", 3.0),
    ):
        first, last = (
            statistics.median(sample[name] for sample in part if sample[name] is not None)
            for part in (flat[:third], flat[-third:])
        )
        print(f"{name}: {first:,.2f} in the first third, {last:,.2f} in the last")
        if last > first * most:
            complaints.append(f"{name} went from {first:,.2f} to {last:,.2f}")
    return complaints


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.soak", description=__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("--for", dest="seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sum-up", action="store_true")
    given = parser.parse_args()
    complaints = []
    if not given.sum_up:
        given.state.mkdir(parents=True, exist_ok=True)
        figures = given.state / "figures.jsonl"
        piece = 0
        if figures.exists():
            piece = json.loads(figures.read_text().splitlines()[-1])["piece"] + 1
        broker = LocalBroker(given.state / "data", own_process=True, timeout_seconds=120, **PROPERTIES)
        with broker:
            soak = Soak(broker, given.state, given.seed + piece)
            complaints = asyncio.run(soak.run(given.seconds, piece))
    complaints += judge(given.state)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
