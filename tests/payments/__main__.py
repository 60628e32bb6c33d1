"""`python -m tests.payments`: the payment trial, as long as one wants."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from orbitmq.testing import LocalBroker
from tests.kit.databases import mariadb_server, postgres_server
from tests.payments.trial import Plan, run

DATABASES = ("sqlite", "postgresql", "mariadb")


def database_url(kind: str, folder: Path) -> str:
    """The URL of a new database."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'payments.db'}"
    return postgres_server().database() if kind == "postgresql" else mariadb_server().database()


def main() -> int:
    """Runs a trial; ends with 1 if a balance is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=DATABASES, default="postgresql")
    parser.add_argument("--broker", choices=("orbitmq", "apache"), default="orbitmq")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--transfers", type=int, help="default: 20 for each kill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-once", action="store_true", help="shows how it goes wrong")
    asked = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="orbitmq-payments-") as folder, contextlib.ExitStack() as opened:
        if asked.broker == "orbitmq":
            namesrv = opened.enter_context(LocalBroker(own_process=True)).namesrv
        else:
            from tests.peers.apache import Apache

            apache = Apache.start(Path(folder, "apache"), {})
            opened.callback(apache.kill)
            namesrv = apache.namesrv
        plan = Plan(
            namesrv,
            database_url(asked.database, Path(folder)),
            Path(folder),
            kills=asked.kills,
            transfers=asked.transfers or 20 * max(asked.kills, 3),
            seed=asked.seed,
            with_once=not asked.without_once,
            patience_seconds=900,
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
