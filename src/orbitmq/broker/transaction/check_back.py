"""Check-back: asking producers about half messages that stay open.

Every transactionCheckInterval a round goes over the half messages that were there when it began, oldest
first. The rules, in this order, for one that is open:

- its topic was deleted since: dropped;
- asked transactionCheckMax times, or older than fileReservedTime: given up, its producer is not asked again;
- of a time to come, by the broker's clock too: that clock was set back, and its producer is asked, as by
  Apache's broker; otherwise it would not be asked for as long as the clock repeats;
- it has an immunity time of its own that is not over: it is copied, its producer is not asked;
- younger than transactionTimeOut: the round is over;
- else it is copied with its count of checks raised, and a live producer of its group is asked about the
  copy. The count rises where there is none, too.

One that cannot be copied is asked about where it stands; its count is kept in memory.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.members import Client
from orbitmq.broker.client.outbox import Outbox
from orbitmq.broker.copied_properties import NoRoom
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.stats.passed_over import AGAIN, PassedOver
from orbitmq.broker.transaction.options import TransactionOptions
from orbitmq.broker.transaction.records import Half, check_request, copied, given_up
from orbitmq.broker.transaction.transactions import Transactions
from orbitmq.protocol.names import TRANSACTION_CHECK_TOPIC
from orbitmq.store import FINAL_REFUSALS, PendingMessage, PutStatus

log = logging.getLogger(__name__)

HALVES_PER_SLICE = 100
BYTES_PER_SLICE = 1 << 20
"""Number of bytes that one turn copies, and asks about, before it lets others go first."""
HOUR_MS = 3_600_000
KIND = "check-back"
CHECK_MAX_TIME_QUEUES = 1


class Verdict(Enum):
    """Decision of a round about an open half message."""

    GIVE_UP = auto()
    END_ROUND = auto()
    KEEP = auto()
    """Copied, but its producer is not asked."""
    ASK = auto()


def judge(half: Half, settings: TransactionOptions, now: int, further_checks: int = 0) -> Verdict:
    """Applies the rules to one open half message; `further_checks` are those that it does not say itself."""
    born = half.record.born_timestamp
    too_old = now - born > settings.file_reserved_time * HOUR_MS
    if too_old or half.check_times + further_checks >= settings.transaction_check_max:
        return Verdict.GIVE_UP
    age, timeout = half.age_ms(now), settings.transaction_time_out
    immunity = half.immunity_ms(timeout)
    if age < 0 or age >= (timeout if immunity is None else immunity):
        return Verdict.ASK
    return Verdict.END_ROUND if immunity is None else Verdict.KEEP


@dataclass(eq=False, repr=False)
class CheckBack:
    """Call `tick` every second, and again directly after True.

    `keeps_up(connection id)` says whether a producer takes what it is sent: one that does not is not asked.
    Nor is one that may not send to the half message's topic (`may_see`): anybody can name a producer group.
    """

    _identity: BrokerIdentity
    _settings: TransactionOptions
    _transactions: Transactions
    _topics: TopicTable
    _clients: ClientTable
    _outbox: Outbox
    _began: int

    def __post_init__(self) -> None:
        self.keeps_up: Callable[[int], bool] = lambda connection_id: True
        self.may_see: Callable[[Client, str], bool] = lambda client, topic: True
        self.is_held = False
        """No producer is asked yet: a slave may have acted for this broker and is asked first."""
        self._round: _Round | None = None
        self._turns: dict[str, int] = {}
        self._questions: deque[int] = deque()
        """Copies whose producers are asked once readers see them: under SYNC_FLUSH, after the flush."""
        self._in_place: dict[int, int] = {}
        """Half messages, by queue offset, that cannot be copied, and how often their producers were asked."""
        self.passed = PassedOver()

    def forget(self, now: int) -> None:
        """Ends the round and what it wanted to ask; the next one begins after an interval."""
        self._round = None
        self._questions.clear()
        self._in_place.clear()
        self._began = now

    def tick(self, now: int) -> bool:
        """Continues the round, or begins one when it is time. True if there is more to do at once."""
        if self.is_held:
            return False
        transactions = self._transactions
        transactions.note_stored()
        # Before the next copies take the place of those that it asks about.
        if self._send_questions(now):
            return True
        if self._round is None and now - self._began >= self._settings.transaction_check_interval:
            self._began = now
            self._round = _Round(transactions.window.start, transactions.end)
        if self._round is not None and self._slice(self._round, now):
            self._round = None
        questions_left = self._send_questions(now)
        transactions.note_positions(now)
        return self._round is not None or questions_left

    def _slice(self, check: _Round, now: int) -> bool:
        transactions = self._transactions
        abandoned: list[Half] = []
        halves: list[Half] = []
        copies: list[PendingMessage] = []
        dropped: list[Half] = []
        size = 0
        over = False
        host = self._identity.host
        for _ in range(HALVES_PER_SLICE):
            offset = transactions.window.next_open(check.at, check.end)
            if offset is None or size >= BYTES_PER_SLICE:
                over = offset is None
                break
            half = transactions.half(offset)
            check.at = offset + 1
            if half is None:
                transactions.pass_unreadable(offset)
                continue
            if transactions.is_of_deleted(half.topic, half.physical_offset):
                dropped.append(half)
                continue
            verdict = judge(half, self._settings, now, self._in_place.get(offset, 0))
            if verdict is Verdict.END_ROUND:
                over = True
                break
            if verdict is Verdict.GIVE_UP:
                abandoned.append(half)
                size += half.record.size
                continue
            asks = verdict is Verdict.ASK
            if asks and self._has_slow_producers_only(half):
                continue
            try:
                if offset not in self._in_place:
                    copies.append(copied(half, half.check_times + asks, host))
                    halves.append(half)
            except NoRoom as error:
                self._pass_over(half, str(error))
            if asks and offset in self._in_place:
                self._ask_in_place(half)
            elif asks:
                check.asked.add(offset)
            size += half.record.size
        if dropped:
            transactions.drop(dropped, now)
        stored = self._store(check, halves, copies, abandoned, now)
        check.asked.clear()
        return over or not stored

    def _store(
        self,
        check: _Round,
        halves: list[Half],
        copies: list[PendingMessage],
        abandoned: list[Half],
        now: int,
    ) -> bool:
        """Puts into the log what a slice came to. True if all was stored. A message that was not stored comes
        round again.
        """
        transactions = self._transactions
        stored = transactions.replace(halves, copies, now)
        ok = True
        for half, appended in zip(halves, stored, strict=True):
            asks = half.offset in check.asked
            if appended.status is PutStatus.PUT_OK:
                if asks:
                    self._questions.append(appended.queue_offset)
            elif appended.status in FINAL_REFUSALS:
                self._pass_over(half, appended.status.name)
                if asks:
                    self._ask_in_place(half)
            else:
                ok = False
        if abandoned:
            self._topics.ensure(TRANSACTION_CHECK_TOPIC, CHECK_MAX_TIME_QUEUES, now)
            laid = [given_up(half, self._identity.host) for half in abandoned]
            for half, appended in zip(abandoned, transactions.give_up(abandoned, laid, now), strict=True):
                if appended.status in FINAL_REFUSALS:
                    self.passed.note(KIND, AGAIN, f"half message {half.unique_id}", appended.status.name)
                elif appended.status is not PutStatus.PUT_OK:
                    ok = False
            log.warning("%d half messages were given up: their producers did not decide", len(abandoned))
        if not ok:
            log.warning("half messages could not be copied; tried again in the next round")
        return ok

    def _pass_over(self, half: Half, why: str) -> None:
        """Leaves a half message where it stands: nothing that is copied comes of it."""
        for offset in [offset for offset in self._in_place if offset < self._transactions.window.start]:
            del self._in_place[offset]
        self._in_place[half.offset] = 0
        self.passed.note(KIND, AGAIN, f"half message {half.unique_id} of {half.topic}", why)

    def _ask_in_place(self, half: Half) -> None:
        self._in_place[half.offset] += 1
        self._questions.append(half.offset)

    def _send_questions(self, now: int) -> bool:
        """Sends questions about copies that can be read. True if there are more of them."""
        transactions = self._transactions
        end = transactions.end
        for _ in range(HALVES_PER_SLICE):
            if not self._questions or self._questions[0] >= end:
                return False
            half = transactions.half(self._questions.popleft())
            if half is None or transactions.live(half) is None:
                continue  # decided meanwhile
            connection_id = self._producer(half)
            if connection_id is not None:
                self._outbox.push(connection_id, check_request(half, self._identity.name))
                transactions.figures.asked[half.group] += 1
        return bool(self._questions)

    def _producer(self, half: Half) -> int | None:
        """A live producer of its group, each in turn; one that keeps up if there is one."""
        group, connections = half.group, self._producers(half)
        if not connections:
            self._turns.pop(group, None)
            return None
        turn = self._turns[group] = self._turns.get(group, -1) + 1
        first = turn % len(connections)
        for connection_id in (*connections[first:], *connections[:first]):
            if self.keeps_up(connection_id):
                return connection_id
        return None

    def _producers(self, half: Half) -> list[int]:
        """The connections of its group's producers that may be shown it."""
        members = self._clients.producers.get(half.group, {})
        return [number for number, client in members.items() if self.may_see(client, half.topic)]

    def _has_slow_producers_only(self, half: Half) -> bool:
        connections = self._producers(half)
        return bool(connections) and not any(map(self.keeps_up, connections))


class _Round:
    """Progress of a round."""

    __slots__ = ("asked", "at", "end")

    def __init__(self, at: int, end: int) -> None:
        self.at = at
        self.end = end
        self.asked: set[int] = set()
        """Half messages of the present slice whose producers are asked."""
