"""A broker killed again and again under load: `python -m tests.fault.kill_loop STATE --kills 500 --for 240`.

Whatever it acknowledged before a kill is there after the next start, once and in its place. A run goes on
with what an earlier one left in STATE (the data folder, and how many kills there were), so it can be had in
pieces. Each life is killed after a random time; how long each start took is summed up at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.message_cy import decode_records
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.testing import LocalBroker
from tests.fault.test_broker_kill import QUEUES, Load

LONGEST_LIFE_SECONDS = 0.8


@dataclass
class Progress:
    """What is known between two pieces."""

    flush: str
    seed: int
    kills: int = 0
    acknowledged: int = 0
    read_to: list[int] = field(default_factory=lambda: [0] * QUEUES)
    """Queue offsets up to which everything was checked."""
    start_seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        times = sorted(self.start_seconds) or [0.0]
        return (
            f"{self.flush}, seed {self.seed}: {self.kills} kills, {self.acknowledged:,} acknowledged, "
            f"none lost; a start took {statistics.median(times):.2f} s (median), {times[-1]:.2f} s at most"
        )


async def new_bodies(address: str, read_to: list[int]) -> list[str]:
    """What came to the queues since they were last read; moves `read_to`."""
    bodies = []
    pool = ConnectionPool()
    try:
        for queue_id in range(QUEUES):
            end = (await pool.call(address, GetMaxOffset("T", queue_id), timeout_ms=30_000)).offset
            while read_to[queue_id] < end:
                pull = PullMessage("G", "T", queue_id, read_to[queue_id], 32, 4, 0, 0, 0, "*", "TAG")
                reply = await pool.call(address, pull, timeout_ms=30_000)
                records, bad = decode_records(reply.body or b"")
                assert records, f"nothing at {queue_id}:{read_to[queue_id]} of {end}"
                assert not bad
                for record in records:
                    assert record.queue_offset == read_to[queue_id], "offsets are dense"
                    bodies.append(record.body.decode())
                    read_to[queue_id] += 1
    finally:
        await pool.close()
    return bodies


async def one_life(broker: LocalBroker, prefix: str, seconds: float) -> set[str]:
    """Sends for so long, and kills the broker in the midst of it; gives what it had acknowledged."""
    load = Load(broker.broker, prefix)
    sending = asyncio.create_task(load.run())
    await asyncio.sleep(seconds)
    await asyncio.to_thread(broker.kill)
    await sending
    return load.acknowledged


def go_on(state: Path, flush: str, kills: int, seconds: float, seed: int) -> Progress:
    """Kills until there were so many, or the time is over. Raises AssertionError for what is lost."""
    state.mkdir(parents=True, exist_ok=True)
    file = state / "progress.json"
    progress = Progress(**json.loads(file.read_text())) if file.exists() else Progress(flush, seed)
    deadline = time.monotonic() + seconds
    broker = LocalBroker(
        state / "store", own_process=True, patience_seconds=120, flushDiskType=progress.flush,
        flushConsumeQueueThoroughInterval=2_000,
    )  # fmt: skip
    try:
        broker.start()
        # Of a piece that was interrupted itself nobody knows what it had acknowledged.
        asyncio.run(new_bodies(broker.broker, progress.read_to))
        piece = time.time_ns()
        while progress.kills < kills and time.monotonic() < deadline:
            chance = random.Random(f"{progress.seed}-{progress.kills}")
            life = chance.uniform(0.05, LONGEST_LIFE_SECONDS)
            acknowledged = asyncio.run(one_life(broker, f"{piece}-{progress.kills}", life))
            began = time.monotonic()
            broker.start()
            progress.start_seconds.append(round(time.monotonic() - began, 3))
            found = asyncio.run(new_bodies(broker.broker, progress.read_to))
            where = f"seed {progress.seed}, kill {progress.kills}, {progress.flush}"
            assert len(found) == len(set(found)), f"{where}: a message is there twice"
            assert acknowledged <= set(found), f"{where}: {len(acknowledged - set(found))} messages are lost"
            progress.kills += 1
            progress.acknowledged += len(acknowledged)
            file.write_text(json.dumps(asdict(progress)))
    finally:
        broker.kill()
    return progress


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("state", type=Path, help="folder that a run leaves and goes on with")
    parser.add_argument("--kills", type=int, default=500, help="how many in all pieces together (500)")
    parser.add_argument("--for", dest="seconds", type=float, default=240, help="seconds of this piece (240)")
    parser.add_argument("--flush", default="ASYNC_FLUSH", choices=("ASYNC_FLUSH", "SYNC_FLUSH"))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(go_on(given.state, given.flush, given.kills, given.seconds, given.seed))


if __name__ == "__main__":
    main()
