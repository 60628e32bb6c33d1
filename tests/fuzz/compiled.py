"""`python -m tests.fuzz.compiled [TARGET …]`: hostile input for the compiled modules as they are.

Episodes of all targets, each target in a process of its own, as many at a time as there are processors. A
process that dies is a finding, and so is an exception that is not the typed one. Episode 7 of seed 1 is the
same wherever it runs. A build with sanitizers finds more: `make fuzz` runs on that of `make asan` where there
is one.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.fuzz.episodes import EPISODES


def run(
    target: str, seed: int, first: int, count: int | None, seconds: float, mark: Path | None = None
) -> int:
    """Runs episodes of a target until they are `count`, or the time is over; gives how many there were.

    Before each its number goes to `mark`, which outlives this process.
    """
    until = time.monotonic() + seconds
    number = first
    while (count is None or number < first + count) and time.monotonic() < until:
        if mark is not None:
            mark.write_text(str(number))
        try:
            EPISODES[target](Random(f"{seed} {target} {number}"))
        except Exception as error:
            error.add_note(again(target, seed, number))
            raise
        number += 1
    return number - first


def again(target: str, seed: int, number: int) -> str:
    """Command that runs an episode again."""
    return f"again: make fuzz TARGET={target} SEED={seed} EPISODE={number}"


def in_process(target: str, seed: int, first: int, count: int | None, seconds: float) -> bool:
    """The same in a process of its own; tells what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder, "episode")
        child = [
            sys.executable,
            "-m",
            "tests.fuzz.compiled",
            target,
            "--for",
            str(seconds),
            "--seed",
            str(seed),
        ]
        child += ["--first", str(first), "--mark", str(mark)]
        child += [] if count is None else ["--count", str(count)]
        code = subprocess.run(child, check=False).returncode
        if code:
            number = int(mark.read_text()) if mark.exists() else first  # it need not have come to an episode
            print(f"{target}: ended with {code}; {again(target, seed, number)}", flush=True)
    return code == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.compiled", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(EPISODES)}")
    parser.add_argument(
        "--for", dest="seconds", type=float, default=60.0, help="seconds, shared by all targets"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the episode to begin with")
    parser.add_argument("--count", type=int, help="episodes of each target; without it the time is the bound")
    parser.add_argument("--mark", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.targets or list(EPISODES)
    if unknown := set(names) - EPISODES.keys():
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(EPISODES)}")
    if given.mark is not None:
        faulthandler.enable()
        logging.disable(logging.CRITICAL)
        done = run(names[0], given.seed, given.first, given.count, given.seconds, given.mark)
        print(f"{names[0]}: {done} episodes, {time.process_time():.1f} s of CPU time", flush=True)
        return 0
    each = given.seconds / len(names)

    def passes(name: str) -> bool:
        return in_process(name, given.seed, given.first, given.count, each)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a thread waits for each process
        failed = [name for name, passed in zip(names, pool.map(passes, names), strict=True) if not passed]
    print(f"found something in: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
