"""`python -m orbitmq.testing.simulation`: runs seeds for as long as asked, and prints those that fail.

With --cluster a seed is a cluster: name servers, broker groups with their slaves, clients, and controllers
where these decide who is master. A seed that fails is printed with its trace.

A seed repeats its run exactly: time, chance, process ids and the order in which things are looked through are
its own. It starts itself again with PYTHONHASHSEED=0 for what is left of the interpreter's.
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
from collections.abc import Callable

from orbitmq.testing.simulation.cluster import Outcome
from orbitmq.testing.simulation.cluster_faults import FAULTS
from orbitmq.testing.simulation.cluster_run import run

SHOWN = 5
"""Number of broken promises of a seed that are shown."""
SHOWN_TRACE = 200
"""So many lines of a trace, the last ones."""
CLUSTERS: dict[str, bool | None] = {"any": None, "controller": True, "blind": True, "fixed": False}
"""Kinds of clusters, by the part that decides on masters: True where controllers do."""
LENGTHS = {False: 8.0, True: 20.0}
"""Virtual seconds with faults, without and with --cluster."""


def main() -> int:
    """Gives 1 if a promise was broken."""
    given = _parser().parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "orbitmq.testing.simulation", *sys.argv[1:]])
    first, count = given.first, given.count
    if given.seeds:
        first, last = given.seeds
        count = last - first + 1
    length = given.length or LENGTHS[given.cluster is not None]
    play = _player(given, length)
    again = f"python -m orbitmq.testing.simulation {_same(given, length)} --count 1 --first"
    began = time.monotonic()
    faults: Counter[str] = Counter()
    ran = kept = lost = 0
    failed: dict[int, list[str]] = {}
    for seed in itertools.count(first):
        if ran == count or (count is None and time.monotonic() - began >= given.seconds and ran):
            break
        one = play(seed)
        ran += 1
        kept += one.kept
        lost += one.lost
        faults += one.faults
        if one.broken:
            failed[seed] = [str(broken) for broken in one.broken[:SHOWN]]
        if given.json:
            continue
        if one.broken:
            print(f"seed {seed}: {len(one.broken)} broken promises, with {_about(one)}")
            print(*one.trace[-SHOWN_TRACE:], sep="\n")
            print(
                *(f"  {broken}" for broken in failed[seed]), f"  again: {again} {seed}", sep="\n", flush=True
            )
        elif given.verbose:
            print(f"seed {seed}: {one.kept} promises kept over {dict(one.faults)}, {_about(one)}", flush=True)
    if given.json:
        found = {"seeds": ran, "kept": kept, "lost_to_power_cuts": lost, "failed": failed, "again": again}
        print(json.dumps(found))
        return 1 if failed else 0
    took = time.monotonic() - began
    print(
        f"{ran} seeds in {took:.0f} s, {ran / took * 3600:,.0f} an hour; {kept:,} promises kept, "
        f"{len(failed)} seeds failed"
        f" (modes that may lose messages lost {lost:,})"
    )
    print("faults: " + ", ".join(f"{name} {faults[name]}" for name in sorted(FAULTS)))
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m orbitmq.testing.simulation", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, help="how many seeds; by default as many as there is time for")
    parser.add_argument("--seeds", type=_range, metavar="A..B", help="from this seed to that one")
    parser.add_argument("--for", dest="seconds", type=float, default=20.0, help="seconds to run")
    parser.add_argument("--length", type=float, help="virtual seconds with faults in each run")
    parser.add_argument(
        "--cluster", nargs="?", const="any", choices=list(CLUSTERS),
        help="clusters, with masters elected by controllers (blind: those go on without them) or fixed, else "
        "as the seed has it",
    )  # fmt: skip
    parser.add_argument(
        "--mode", choices=("sync-master", "async-master"), help="of clusters; else the seed's"
    )
    parser.add_argument("--flush", choices=("sync", "async"), help="of clusters; else the seed's")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the brokers"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every seed")
    parser.add_argument("--json", action="store_true", help="what it came to as JSON, and nothing else")
    return parser


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last or first)


def _same(given: argparse.Namespace, length: float) -> str:
    """The arguments that decide what a seed means."""
    parts = [f"--length={length:g}"]
    if given.cluster:
        parts.append(f"--cluster={given.cluster}")
    parts += [f"--{name}={getattr(given, name)}" for name in ("mode", "flush") if getattr(given, name)]
    return shlex.join([*parts, *(f"--set={pair}" for pair in given.set)])


def _player(given: argparse.Namespace, length: float) -> Callable[[int], Outcome]:
    return lambda seed: run(
        seed,
        length,
        has_controller=CLUSTERS[given.cluster or "any"],
        is_sync=None if given.mode is None else given.mode == "sync-master",
        sync_flush=None if given.flush is None else given.flush == "sync",
        goes_blind=given.cluster == "blind",
        is_alone=given.cluster is None,
        settings=dict(pair.split("=", 1) for pair in given.set),
    )


def _about(one: Outcome) -> str:
    return f"{one.mode}, {one.elections} elections, {one.blind_spells} blind masters, {one.settings}"


if __name__ == "__main__":
    sys.exit(main())
