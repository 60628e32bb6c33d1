"""A broker killed again and again under all kinds of messages.

`python -m tests.fault.kill_loop STATE --kills 500 --for 240`: whatever the broker acknowledged before a kill
is kept after each start: messages, their order and place, delays, timers, transactions, pops, consumer
offsets and the index. A run goes on with what an earlier one left in STATE, so it can be had in pieces, each
on a folder of its own. The time that the starts took is summed up at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orbitmq.testing import LocalBroker
from tests.fault.mixed import PROPERTIES, Mix

LIFE_SECONDS = (0.05, 0.8)


@dataclass
class Progress:
    """Facts known between two pieces."""

    flush: str
    seed: int
    pieces: int = 0
    kills: int = 0
    acknowledged: int = 0
    start_seconds: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        times = [*self.start_seconds, self.start_seconds[-1]]
        slow = statistics.quantiles(times, n=20, method="inclusive")[-1]
        return (
            f"{self.flush}, seed {self.seed}: {self.kills} kills, {self.acknowledged:,} acknowledged, "
            f"{len(self.broken)} promises broken; a start took {statistics.median(times):.2f} s (median), "
            f"{slow:.2f} s (95 %), {max(times):.2f} s (at most)"
        )


def go_on(state: Path, flush: str, kills: int, seconds: float, seed: int) -> Progress:
    """Kills until there were so many, or the time is over, and then sees to the end what was begun."""
    state.mkdir(parents=True, exist_ok=True)
    file = state / "progress.json"
    progress = Progress(**json.loads(file.read_text())) if file.exists() else Progress(flush, seed)
    folder = state / f"piece-{progress.pieces}"
    shutil.rmtree(folder, ignore_errors=True)  # of a piece that did not come to its end
    broker = LocalBroker(
        folder, own_process=True, timeout_seconds=120, flushDiskType=progress.flush,
        flushConsumeQueueThoroughInterval=2_000, **PROPERTIES,
    )  # fmt: skip
    mix = Mix(broker, progress.seed * 1000 + progress.pieces, LIFE_SECONDS, stops=0.0)
    try:
        asyncio.run(mix.run(seconds, kills - progress.kills))
    finally:
        broker.kill()
    history = mix.history
    progress.pieces += 1
    progress.kills += history.kills
    progress.acknowledged += sum(promise.acknowledged for promise in history.promises.values())
    progress.start_seconds += mix.start_seconds
    progress.broken += [f"{folder.name}: {one}" for one in history.broken]
    file.write_text(json.dumps(asdict(progress)))
    if not history.broken:
        shutil.rmtree(folder)
    return progress


def main() -> int:
    """The command: gives 1 if a promise was broken; then the folder of that piece is kept."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fault.kill_loop", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("state", type=Path, help="folder that a run leaves and goes on with")
    parser.add_argument("--kills", type=int, default=500, help="how many in all pieces together (500)")
    parser.add_argument("--for", dest="seconds", type=float, default=240, help="seconds of this piece (240)")
    parser.add_argument("--flush", default="ASYNC_FLUSH", choices=("ASYNC_FLUSH", "SYNC_FLUSH"))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    progress = go_on(given.state, given.flush, given.kills, given.seconds, given.seed)
    print(progress)
    for broken in progress.broken:
        print(broken)
    return 1 if progress.broken else 0


if __name__ == "__main__":
    sys.exit(main())
