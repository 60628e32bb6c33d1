"""`python -m tests.payments`: the payment trial, as long as one wants."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.kit.outbox import DATABASES, database_url
from tests.payments.brokers import KINDS, failing_over, one
from tests.payments.trial import Plan, run


def main() -> int:
    """Runs a trial; ends with 1 if a balance is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=DATABASES, default="postgresql")
    parser.add_argument("--broker", choices=KINDS, default="orbitmq")
    parser.add_argument("--failover", action="store_true", help="every third kill is that of a master, too")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--transfers", type=int, help="default: 20 for each kill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-once", action="store_true", help="shows how it goes wrong")
    asked = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    start = failing_over if asked.failover else one
    with (
        tempfile.TemporaryDirectory(prefix="orbitmq-payments-") as folder,
        start(asked.broker, Path(folder)) as brokers,
    ):
        plan = Plan(
            brokers.namesrv,
            database_url(asked.database, Path(folder)),
            Path(folder),
            kills=asked.kills,
            transfers=asked.transfers or 20 * max(asked.kills, 3),
            seed=asked.seed,
            with_once=not asked.without_once,
            patience_seconds=900,
            amid_sends=brokers.amid_sends,
        )
        outcome = run(plan, say)
    for line in outcome.wrong:
        say(line)
    say(
        f"{asked.database}, {asked.broker}: {outcome.kills} kills, {outcome.wanted} transfers three times "
        f"each, {outcome.dead_letters} dead letters redriven, {len(outcome.twice)} transfers made more "
        f"than once, {len(outcome.wrong)} balances wrong"
    )
    return 0 if outcome.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
