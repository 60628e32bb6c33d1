"""Transactions against a model, with crashes between any two records of any append.

The process dies, or the machine with what was not flushed.

However often it crashes: what was committed is published once, what was rolled back never, and what nobody
decided about stays open exactly once and is asked about until somebody decides.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.send import SendReply
from orbitmq.protocol.requests.transaction import CheckTransactionState, EndTransaction
from orbitmq.store import Appended, PendingMessage
from tests.kit.store import crash
from tests.kit.transactions import COMMIT, INTERVAL, ROLLBACK, Transacting

PICKED = st.tuples(st.integers(0, 99), st.booleans(), st.booleans())
"""The transaction, True for a commit, and True if it answers a question."""


class Crash(Exception):
    """The process dies here."""


@dataclass
class Model:
    """State that has to be true, by message id."""

    open: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    rolled_back: set[str] = field(default_factory=set)
    sent: dict[str, SendReply] = field(default_factory=dict)
    checks: list[CheckTransactionState] = field(default_factory=list)


class Transactions(RuleBasedStateMachine):
    """Sends, decides, waits, saves, flushes, restarts, dies."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="orbitmq-transactions-"))
        self.world = Transacting(self.root / "store", transactionCheckMax=1000, transactionOpMsgMaxSize=8)
        self.model = Model()
        self.on_disk = Model()
        self.messages_left: int | None = None
        self.doubtful: dict[str, int] = {}
        """Decisions that were under way when it died."""
        self.watch()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            crash(self.world.real.store)
            shutil.rmtree(self.root)

    # Crashes.

    def watch(self) -> None:
        """Lets the process die after so many further messages."""
        store = self.world.real.store
        append_many = store.append_many

        def append(
            messages: Sequence[PendingMessage], now: int, answers: list[Appended] | None = None
        ) -> list[Appended]:
            if self.messages_left is None:
                return append_many(messages, now, answers)
            if self.messages_left < len(messages):
                append_many(messages[: self.messages_left], now)
                raise Crash
            self.messages_left -= len(messages)
            return append_many(messages, now, answers)

        store.append_many = append  # type: ignore[method-assign]

    @rule(messages=st.integers(0, 4))
    def doom(self, messages: int) -> None:
        """The process will die in the middle of what it does next."""
        self.messages_left = messages

    def reborn(self) -> None:
        self.messages_left = None
        self.world.broker.check_back.forget(self.world.now)
        self.watch()
        self.settle_doubts()

    def settle_doubts(self) -> None:
        """Decisions that were under way when it died may have come about or not; it must be one of both."""
        is_open = {half.unique_id for half in self.world.open_halves()}
        published = {one.unique_id for one in self.world.published()}
        for unique_id in set(self.doubtful):
            if unique_id in published:
                assert self.doubtful[unique_id] == COMMIT
                self.model.committed.add(unique_id)
            elif unique_id in is_open:
                self.model.open.add(unique_id)
            else:
                assert self.doubtful[unique_id] != COMMIT, f"{unique_id} was committed, and is lost"
                self.model.rolled_back.add(unique_id)
        self.doubtful = {}
        # A send that was not acknowledged may have been stored all the same.
        model = self.model
        model.open |= is_open - model.committed - model.rolled_back
        # A start brings records that it finds in the log to the disk.
        self.on_disk = copy.deepcopy(model)

    def guarded(self, doubtful: dict[str, int], work: Callable[[], None]) -> bool:
        """Does something during which the process may die; whether it lived."""
        try:
            work()
        except Crash:
            self.doubtful = doubtful
            self.model.open -= set(doubtful)
            self.world.kill()
            self.reborn()
            return False
        return True

    @rule(how=st.sampled_from(["killed", "stopped", "without power"]))
    def die(self, how: str) -> None:
        """Ends and starts again."""
        if how == "killed":
            self.world.kill()
        elif how == "without power":
            self.cut_power()
        elif self.messages_left is None:
            self.world.restart()
        else:
            return  # an orderly stop does not die in the middle
        self.reborn()

    def cut_power(self) -> None:
        """The machine dies: of the log is left what was flushed, of the tables what was saved."""
        store = self.world.real.store
        durable = store.durable_offset
        crash(store)
        size = 1 << 20
        for path in (self.root / "store" / "commitlog").iterdir():
            start = int(path.name)
            with path.open("r+b") as file:
                keep = max(0, min(size, durable - start))
                file.seek(keep)
                file.write(bytes(size - keep))
        self.model = copy.deepcopy(self.on_disk)
        self.world.open()

    @rule(flushes=st.booleans(), saves=st.booleans())
    def write(self, flushes: bool, saves: bool) -> None:
        """Brings log and tables to the disk."""
        if flushes:
            self.world.real.store.flushing.flush_now()
            self.on_disk = copy.deepcopy(self.model)
        if saves:
            self.world.save()

    # Actions of clients.

    @rule(count=st.integers(1, 3), immune=st.booleans())
    def send(self, count: int, immune: bool) -> None:
        for _ in range(count):
            unique_id = f"ID{self.world.number + 1:06d}"

            def one(unique_id: str = unique_id) -> None:
                properties = "CHECK_IMMUNITY_TIME_IN_SECONDS\x0145\x02" if immune else ""
                self.model.sent[unique_id] = self.world.half(properties)
                self.model.open.add(unique_id)

            self.guarded({}, one)

    @precondition(lambda self: self.model.sent)
    @rule(
        picked=st.lists(st.tuples(st.integers(0, 99), st.booleans(), st.booleans()), min_size=1, max_size=4)
    )
    def decide(self, picked: list[tuple[int, bool, bool]]) -> None:
        """Decides about several at a time: by what a producer knows of the first half, or of any copy."""
        requests: list[EndTransaction] = []
        decisions: dict[str, int] = {}
        for number, is_commit, by_check in picked:
            decision = COMMIT if is_commit else ROLLBACK
            if by_check and self.model.checks:
                check = self.model.checks[number % len(self.model.checks)]
                request = self.world.answer(check, decision)
            else:
                sent = list(self.model.sent.values())[number % len(self.model.sent)]
                request = self.world.request(sent, decision)
            unique_id = request.transaction_id or ""
            if unique_id not in decisions:
                decisions[unique_id] = decision
            requests.append(request)
        results: list[object] = []

        def end() -> None:
            results.extend(self.world.real.send_together(requests, self.world.now))

        if not self.guarded({u: d for u, d in decisions.items() if u in self.model.open}, end):
            return
        for request, result in zip(requests, results, strict=True):
            unique_id = request.transaction_id or ""
            if unique_id in self.model.open and not isinstance(result, Exception):
                self.model.open.discard(unique_id)
                is_commit = request.commit_or_rollback == COMMIT
                (self.model.committed if is_commit else self.model.rolled_back).add(unique_id)
            elif isinstance(result, Exception):
                assert isinstance(result, Refused), result
                # Past its immunity time a producer decides only when it is asked.
                assert unique_id not in self.model.open or result.code == ResponseCode.ILLEGAL_OPERATION

    @rule(saves=st.booleans())
    def round(self, saves: bool) -> None:
        """Time passes; whatever is open and old enough is asked about."""
        before = len(self.world.asked)
        if not self.guarded({}, lambda: self.world.pass_ms(INTERVAL)):
            return
        if saves:
            self.world.save()
        asked = self.world.asked[before:]
        self.model.checks += asked
        for check in asked:
            assert check.msg_id in self.model.open, "asked about what was decided"

    # Invariants.

    @invariant()
    def what_is_published_is_right(self) -> None:
        if not hasattr(self, "world"):
            return
        published = Counter(one.unique_id for one in self.world.published())
        assert set(published) == self.model.committed
        assert set(published.values()) <= {1}, "published twice"

    @invariant()
    def what_is_open_is_open_once(self) -> None:
        if not hasattr(self, "world"):
            return
        halves = Counter(half.unique_id for half in self.world.open_halves())
        assert halves == Counter(dict.fromkeys(self.model.open, 1))
        assert self.world.broker.transactions.figures.open_count == len(self.model.open)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
