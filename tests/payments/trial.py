"""The payment trial: transfers delivered three times, workers killed at random, dead letters redriven.

    python -m tests.payments --database postgresql --broker orbitmq --kills 200

Workers are processes of `examples/payments.py`. In the end every balance has to be its opening plus its
transfers, each once: a constant sum would not see a transfer that was made twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, select, update

from orbitmq import Admin
from orbitmq.admin.dead_letters.asked import Asked
from orbitmq.admin.dead_letters.journal import RedriveJournal
from orbitmq.admin.dead_letters.redrive import Redrive
from orbitmq.sync import Producer, PullConsumer
from tests.kit.dead_letters import count as count_dead_letters

PROGRAM = Path(__file__).parents[2] / "examples" / "payments.py"
ACCOUNTS = 10
CLOSED = 3
"""The account that is closed until the redrive: its transfers become dead letters first."""
WORKERS = 3
STEP_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of one trial."""

    namesrv: str
    database: str
    """SQLAlchemy's URL."""
    folder: Path
    kills: int = 5
    transfers: int = 60
    seed: int = 1
    with_once: bool = True
    name: str = "payments"
    pause_seconds: tuple[float, float] = (0.5, 2.5)
    """The time between two kills."""
    patience_seconds: float = 240
    amid_sends: Callable[[int], None] | None = None
    """Called with the number of each kill when half of the messages before it are sent: to kill a broker as
    well, for example."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state in the end."""

    wrong: list[str]
    """Accounts whose balance is not as it has to be, with both figures."""
    made: Counter[str]
    """Transfers in the database, by id."""
    wanted: int
    kills: int
    dead_letters: int
    receipts: Counter[str]
    """Receipts that came, by the id of their transfer."""

    @property
    def twice(self) -> list[str]:
        """Transfers that were made more than once."""
        return [one for one, count in self.made.items() if count > 1]

    @property
    def is_right(self) -> bool:
        """True if each transfer was made once, every balance says so, and each has its receipt."""
        made_once = not self.wrong and not self.twice and len(self.made) == self.wanted
        return made_once and self.receipts.keys() == self.made.keys()


class Workers:
    """Processes of the example, killed at random and replaced."""

    def __init__(self, plan: Plan, environment: dict[str, str]) -> None:
        self._plan = plan
        self._environment = environment
        self._processes: list[subprocess.Popen[bytes]] = []
        self._relay: subprocess.Popen[bytes] | None = None
        self._log = plan.folder / "workers.log"
        self.kills = 0

    def start(self) -> None:
        """Starts one more."""
        command = [
            sys.executable,
            str(PROGRAM),
            "worker",
            *([] if self._plan.with_once else ["--without-once"]),
        ]
        with self._log.open("ab") as log:
            self._processes.append(subprocess.Popen(command, env=self._environment, stdout=log, stderr=log))

    def kill(self, chance: random.Random) -> None:
        """Ends one as a power cut would, and starts another."""
        victim = self._processes.pop(chance.randrange(len(self._processes)))
        for one in (victim, self._relay):
            if one is not None:
                one.kill()
                one.wait()
        self.kills += 1
        self.start()
        self.start_relay()

    def start_relay(self) -> None:
        """Starts the relay of the receipts; each kill ends it as well."""
        command = [sys.executable, "-m", "orbitmq", "outbox", "relay", "--log-level", "warning"]
        own = {**self._environment, "ORBITMQ_OUTBOX_DATABASE": self._plan.database}
        with self._log.open("ab") as log:
            self._relay = subprocess.Popen(command, env=own, stdout=log, stderr=log)

    def check(self) -> None:
        """Raises if one has ended by itself."""
        for one in (*self._processes, *([self._relay] if self._relay is not None else [])):
            if one.poll() is not None:
                raise AssertionError(f"a worker ended with {one.returncode}: {self._log.read_text()[-3000:]}")

    def stop(self) -> None:
        """Ends them in order."""
        if self._relay is not None:
            self._processes.append(self._relay)
        for one in self._processes:
            one.terminate()
        for one in self._processes:
            try:
                one.wait(60)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self._processes.clear()


def _example(environment: dict[str, str]) -> Any:
    """The example's module, with this trial's topic."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        spec = importlib.util.spec_from_file_location("orbitmq_payments_example", PROGRAM)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _database(plan: Plan, example: Any) -> Iterator[Any]:
    engine = create_engine(plan.database)
    try:
        with engine.begin() as connection:
            connection.execute(
                update(example.accounts).where(example.accounts.c.id == CLOSED).values(closed=1)
            )
        yield engine
    finally:
        engine.dispose()
        example.engine.dispose()


def run(plan: Plan, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """Runs a trial to its end, and gives what became of the accounts."""
    environment = {
        **os.environ,
        "NAMESRV_ADDR": plan.namesrv,
        "DATABASE": plan.database,
        "TOPIC": f"{plan.name}-transfers",
        "GROUP": plan.name,
    }
    example = _example(environment)
    example.open_accounts(ACCOUNTS)
    workers, chance = Workers(plan, environment), random.Random(plan.seed)
    with _database(plan, example) as engine:
        trial = _Trial(plan, example, engine, workers)
        try:
            asyncio.run(trial.prepare())
            for _ in range(WORKERS):
                workers.start()
            workers.start_relay()
            trial.send_and_kill(chance, say)
            trial.wait_for("transfers of open accounts", trial.open_ones_are_made)
            trial.wait_for("dead letters", trial.closed_ones_are_dead)
            dead = trial.dead_letters()
            say(f"{workers.kills} kills; {dead} dead letters are redriven")
            with engine.begin() as connection:
                connection.execute(update(example.accounts).values(closed=0))
            asyncio.run(trial.redrive())
            trial.wait_for("transfers of the redrive", trial.all_are_made)
            trial.wait_for("the end of the queues", trial.queues_are_done)
            trial.wait_for("receipts", trial.all_have_receipts)
        finally:
            workers.stop()
        return trial.outcome(dead)


class _Trial:
    def __init__(self, plan: Plan, example: Any, engine: Any, workers: Workers) -> None:
        self._plan = plan
        self._example = example
        self._engine = engine
        self._workers = workers
        self._wanted: dict[str, dict[str, Any]] = {}

    async def prepare(self) -> None:
        async with Admin(self._plan.namesrv) as admin:
            await admin.create_topic(self._example.TOPIC, queues=8)
            await admin.create_topic(self._example.RECEIPTS, queues=2)
            await admin.create_group(self._example.GROUP)

    def send_and_kill(self, chance: random.Random, say: Callable[[str], None]) -> None:
        """Sends transfers, and kills a worker now and then until there were enough kills."""
        plan, example = self._plan, self._example
        messages = example.messages_of(0, plan.transfers, ACCOUNTS, plan.seed)
        for message in messages:
            body = example.json.loads(message.body)
            self._wanted[body["id"]] = body
        share = max(len(messages) // (plan.kills + 1), 1)
        with Producer("shop", plan.namesrv, delivery_timeout_ms=120_000) as producer:
            for number in range(plan.kills + 1):
                end = None if number == plan.kills else (number + 1) * share
                for place, message in enumerate(messages[number * share : end]):
                    if place == share // 2 and number < plan.kills and plan.amid_sends is not None:
                        plan.amid_sends(number)
                    producer.send(message)
                if number < plan.kills:
                    time.sleep(chance.uniform(*plan.pause_seconds))
                    self._workers.check()
                    self._workers.kill(chance)
                    if (number + 1) % 20 == 0:
                        say(f"{number + 1} kills, {len(self._made())} of {plan.transfers} transfers made")

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._plan.patience_seconds
        while not condition():
            self._workers.check()
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{what} did not come within {self._plan.patience_seconds:g} s: {len(self._made())} of "
                    f"{len(self._wanted)} transfers, {self.dead_letters()} dead letters"
                )
            time.sleep(STEP_SECONDS)

    def _made(self) -> Counter[str]:
        with self._engine.connect() as connection:
            return Counter(connection.execute(select(self._example.transfers.c.id)).scalars())

    def _is_closed(self, body: dict[str, Any]) -> bool:
        return CLOSED in (body["source"], body["target"])

    def open_ones_are_made(self) -> bool:
        made = self._made()
        return all(one in made for one, body in self._wanted.items() if not self._is_closed(body))

    def closed_ones_are_dead(self) -> bool:
        """True if each of the three messages of each refused transfer is a dead letter."""
        closed = sum(self._is_closed(body) for body in self._wanted.values())
        return self.dead_letters() >= 3 * closed

    def dead_letters(self) -> int:
        async def ask() -> int:
            async with Admin(self._plan.namesrv) as admin:
                return await count_dead_letters(admin, self._example.GROUP)

        return asyncio.run(ask())

    async def redrive(self) -> None:
        """Sends every dead letter again, to the topic it was sent to first."""
        async with Admin(self._plan.namesrv) as admin:
            journal = RedriveJournal(self._plan.folder / "redrives.sqlite")
            redrives = Redrive(admin, "trial", journal)
            run_id = await redrives.begin(self._example.GROUP, Asked(rate=500), "trial")
            await redrives.carry_out(run_id)
            await asyncio.to_thread(journal.close)

    def all_are_made(self) -> bool:
        return self._made().keys() >= self._wanted.keys()

    def all_have_receipts(self) -> bool:
        return self.receipts().keys() >= self._made().keys()

    def receipts(self) -> Counter[str]:
        """Every receipt that was sent, by the id of its transfer."""
        found: Counter[str] = Counter()
        with PullConsumer("auditor", self._plan.namesrv) as consumer:
            for queue in consumer.queues(self._example.RECEIPTS):
                offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
                while offset < end:
                    got = consumer.pull(queue, offset)
                    offset = got.next_offset
                    found.update(self._example.json.loads(one.body)["id"] for one in got)
        return found

    def queues_are_done(self) -> bool:
        async def ask() -> bool:
            async with Admin(self._plan.namesrv) as admin:
                progress = await admin.group_progress(self._example.GROUP)
                return progress.lag <= 0

        return asyncio.run(ask())

    def outcome(self, dead_letters: int) -> Outcome:
        accounts = self._example.accounts
        with self._engine.connect() as connection:
            balances = {row.id: row.balance for row in connection.execute(select(accounts))}
        right = dict.fromkeys(range(ACCOUNTS), self._example.OPENING)
        for body in self._wanted.values():
            right[body["source"]] -= body["amount"]
            right[body["target"]] += body["amount"]
        wrong = [
            f"account {one} has {balances[one]}, not {right[one]}"
            for one in right
            if balances[one] != right[one]
        ]
        made, kills = self._made(), self._workers.kills
        return Outcome(wrong, made, len(self._wanted), kills, dead_letters, self.receipts())
