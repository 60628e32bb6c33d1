"""`python -m orbitmq.testing.simulation`: runs seeds for as long as it is told, and prints those that fail.

Chance is the seed's, but for the order of sets. That of texts is the interpreter's, so it starts itself again
with PYTHONHASHSEED=0; that of tasks is memory's, so a seed with an orderly stop in it may need some tries.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import sys
import time
from collections import Counter

from orbitmq.testing.simulation.world import FAULTS, run

SHOWN = 5
"""So many broken promises of a seed are told."""


def main() -> int:
    """Gives 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m orbitmq.testing.simulation", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, help="how many seeds; by default as many as there is time for")
    parser.add_argument("--for", dest="seconds", type=float, default=20.0, help="seconds to run")
    parser.add_argument("--length", type=float, default=8.0, help="virtual seconds with faults in each run")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the broker"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every seed")
    parser.add_argument("--json", action="store_true", help="what it came to as JSON, and nothing else")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "orbitmq.testing.simulation", *sys.argv[1:]])
    settings: dict[str, object] = dict(pair.split("=", 1) for pair in given.set)
    same = shlex.join([f"--length={given.length:g}", *(f"--set={pair}" for pair in given.set)])
    again = f"python -m orbitmq.testing.simulation {same} --count 1 --first"
    began = time.monotonic()
    faults: Counter[str] = Counter()
    ran = kept = lost = 0
    failed: dict[int, list[str]] = {}
    for seed in itertools.count(given.first):
        if ran == given.count or (given.count is None and time.monotonic() - began >= given.seconds and ran):
            break
        outcome = run(seed, given.length, **settings)
        ran += 1
        kept += outcome.kept
        lost += outcome.lost_to_cuts
        faults += outcome.faults
        if outcome.broken:
            failed[seed] = [str(broken) for broken in outcome.broken[:SHOWN]]
        if given.json:
            continue
        if outcome.broken:
            print(f"seed {seed}: {len(outcome.broken)} broken promises, with {outcome.settings}")
            print(
                *(f"  {broken}" for broken in failed[seed]), f"  again: {again} {seed}", sep="\n", flush=True
            )
        elif given.verbose:
            print(f"seed {seed}: {outcome.kept} promises kept over {dict(outcome.faults)}", flush=True)
    if given.json:
        found = {"seeds": ran, "kept": kept, "lost_to_power_cuts": lost, "failed": failed, "again": again}
        print(json.dumps(found))
        return 1 if failed else 0
    took = time.monotonic() - began
    print(
        f"{ran} seeds in {took:.0f} s, {ran / took * 3600:,.0f} an hour; {kept:,} promises kept, "
        f"{len(failed)} seeds failed"
        f" (ASYNC_FLUSH lost {lost:,} messages to power cuts, as it may)"
    )
    print("faults: " + ", ".join(f"{name} {faults[name]}" for name in sorted(FAULTS)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
