"""Redrives: dead letters sent again once each, at a rate, over kills of this process and of brokers."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.admin.dead_letters.asked import Asked, BadRequest
from orbitmq.admin.dead_letters.claims import ClaimedElsewhere, Claims, sent_before
from orbitmq.admin.dead_letters.dead_letter import DeadLetter, Place
from orbitmq.admin.dead_letters.journal import (
    DONE,
    GONE,
    PLANNED,
    PLANNING,
    REFUSED,
    RUNNING,
    SENT,
    SKIPPED,
    STOPPED,
    Entry,
    JournalUnusable,
    RedriveJournal,
    Run,
)
from orbitmq.admin.dead_letters.outgoing import Outgoing, outgoing
from orbitmq.admin.dead_letters.planning import Planning, Preview
from orbitmq.admin.dead_letters.reading import letters_at
from orbitmq.admin.dead_letters.targets import Targets
from orbitmq.admin.messages import messages_by_key
from orbitmq.client import ClientError
from orbitmq.net.errors import NetError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError, TopicNotExist
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.requests.send import SendMessageV2

log = logging.getLogger(__name__)

BATCH = 64
"""Dead letters that are under way at a time: so many at most are in doubt after a kill."""
PRODUCER_GROUP = "REDRIVE_PRODUCER"
MOST_REFUSALS = 10
"""Refusals after which a dead letter stays: a reason that may be over in a moment is not."""
PAUSE_SECONDS = 2.0
"""Pause before a broker that did not answer is asked what it has, and is sent the rest."""
_AGAIN = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.GO_AWAY,
    }
)
"""Refusals that may be over in a moment."""


@dataclass(slots=True)
class _Progress:
    """The way of a run through its dead letters: round by round, each one's turn comes once in a round."""

    after: Place | None = None
    """The last one whose turn it was in this round."""
    has_failed: bool = False
    """Some of this round have to be tried again."""
    doubtful: int = 0
    """Number of those of which it is not known if they have arrived."""
    tried: set[Place] = field(default_factory=set)
    """Those that have left once, and of which an answer was lost."""
    refusals: Counter[Place] = field(default_factory=Counter)


class Redrive:
    """The redrives of one cluster over one journal."""

    def __init__(self, admin: Admin, cluster: str, journal: RedriveJournal) -> None:
        self._admin = admin
        self._cluster = cluster
        self._journal = journal
        self._plans = Planning(admin, cluster, journal)
        self._stopping: set[str] = set()
        self._claims: Claims | None = None
        self._active: Counter[str] = Counter()
        """Runs under way, by group: they share its claims."""
        self._planning = asyncio.Lock()

    async def begin(self, group: str, asked: Asked, user: str) -> str:
        """Notes a new run, which `carry_out` then does; gives its id."""
        return await self._journal.do(self._journal.begin, self._cluster, group, asked.as_json(), user)

    def stop(self, run: str) -> None:
        """Has `carry_out` end after the dead letters that are under way."""
        self._stopping.add(run)

    async def preview(self, group: str, asked: Asked) -> Preview:
        """The effect that a redrive would have; nothing is sent. Raises TopicNotExist."""
        return await self._plans.preview(group, asked)

    async def carry_out(self, run_id: str, done: Callable[[Run], None] | None = None) -> Run:
        """Plans a run if that was not done, sends what is left, and gives the finished run.

        A broker that does not answer is waited for. After a kill the same call continues where it was.
        """
        journal = self._journal
        run = await self._run(run_id)
        asked = Asked.from_json(run.asked)
        problem = ""
        if run.state == PLANNING:
            async with self._planning:  # two plans at a time would not know of each other's dead letters
                problem = await self._plan(run, asked)
        if not problem:
            self._active[run.group] += 1
            try:
                await self._send_all(run, asked)
            finally:
                self._active[run.group] -= 1
        state = STOPPED if problem or run_id in self._stopping else DONE
        self._stopping.discard(run_id)
        await journal.do(journal.set_state, run_id, state, problem)
        run = await self._run(run_id)
        if done is not None:
            done(run)
        return run

    async def _send_all(self, run: Run, asked: Asked) -> None:
        """Sends what is planned, until all of it has an outcome or the run is stopped."""
        journal = self._journal
        claims = await self._claims_of_journal()
        targets = Targets(self._admin)
        batch = max(1, min(BATCH, int(asked.rate / 4)))
        progress = _Progress()
        progress.doubtful = await self._find_under_way(run.id, progress)
        while run.id not in self._stopping:
            began = time.monotonic()
            most = max(0, batch - progress.doubtful)
            taken = await journal.do(journal.claim, run.id, most, progress.after)
            if taken:
                progress.after = taken[-1].place
                if await self._send(run, asked, claims, targets, taken, progress):
                    targets.forget()
                await asyncio.sleep(max(0.0, len(taken) / asked.rate - (time.monotonic() - began)))
            elif progress.doubtful or progress.has_failed:
                # All others had their turn: now those that failed have another one.
                progress.after, progress.has_failed = None, False
                await asyncio.sleep(PAUSE_SECONDS)
                progress.doubtful = await self._find_under_way(run.id, progress)
            else:
                break
        if self._active[run.group] == 1 and not progress.doubtful:
            await claims.release(run.group)

    async def _claims_of_journal(self) -> Claims:
        if self._claims is None:
            owner = await self._journal.do(self._journal.owner)
            self._claims = Claims(self._admin, f"{owner}/{self._cluster}")
        return self._claims

    async def _run(self, run_id: str) -> Run:
        run = await self._journal.do(self._journal.run, run_id)
        if run is None:
            raise BadRequest(f"no run is named {run_id}")
        return run

    async def _plan(self, run: Run, asked: Asked) -> str:
        """Notes every dead letter of a run; gives why it cannot be done, empty if it can.

        Waits for brokers that do not answer.
        """
        journal = self._journal
        while run.id not in self._stopping:
            await journal.do(journal.forget_plan, run.id)
            chunk: list[Entry] = []
            try:
                async for _, entry in self._plans.judged(run.group, asked, run.id):
                    chunk.append(entry)
                    if run.id in self._stopping:
                        break
                    if len(chunk) >= 1000:
                        await journal.do(journal.plan, run.id, chunk)
                        chunk = []
            except (NetError, NoBroker) as error:
                await journal.do(journal.set_state, run.id, PLANNING, str(error))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            except JournalUnusable:
                raise
            except OrbitError as error:
                return str(error)
            await journal.do(journal.plan, run.id, chunk)
            await journal.do(journal.set_state, run.id, RUNNING)
            return ""
        return ""

    async def _send(
        self,
        run: Run,
        asked: Asked,
        claims: Claims,
        targets: Targets,
        taken: list[Entry],
        progress: _Progress,
    ) -> bool:
        """Sends dead letters and notes what became of them; True if it is not known of some."""
        refusals = progress.refusals
        letters, unread = await self._readable(run.group, taken, claims)
        sent: dict[Place, StoredMessage] = {}
        if not asked.again:
            sent, unknown = await sent_before(self._admin, run.group, letters.values())
            unread += [(one, unknown[one.place]) for one in taken if one.place in unknown]
        # Nothing has left of these: they are planned as before.
        again = [self._tried(one, error, refusals) for one, error in unread]

        async def send(entry: Entry) -> Entry | OrbitError:
            letter = letters.get(entry.place)
            if letter is None or letter.message.store_timestamp != entry.stored_ms:
                return replace(entry, state=GONE, note="retention has deleted it")
            if (before := sent.get(entry.place)) is not None:
                if entry.place in progress.tried:
                    return _arrived(entry, before)
                return replace(entry, state=SKIPPED, note="another redrive has sent it")
            try:
                claims.check(run.group, entry.place.broker)
                made = outgoing(letter, entry.topic, entry.unique_id, asked.edit)
                sent_id = await self._send_one(targets, made)
            except ClaimedElsewhere as error:
                return self._tried(entry, error, refusals)
            except (NetError, NoBroker) as error:
                return error
            except BrokerRefused as error:
                if error.code in _AGAIN:
                    return self._tried(entry, error, refusals)
                return replace(entry, state=REFUSED, note=str(error))
            except ClientError as error:
                return replace(entry, state=REFUSED, note=str(error))
            return replace(entry, state=SENT, sent_ms=_now_ms(), sent_id=sent_id)

        missing = {one.place for one, _ in unread}
        results = await self._admin.each([one for one in taken if one.place not in missing], send)
        doubtful = [one for one in results if isinstance(one, OrbitError)]
        finished = [*again, *(one for one in results if isinstance(one, Entry))]
        problems = [*doubtful, *(error for _, error in unread)]
        await self._note(run, finished, str(problems[0]) if problems else "")
        progress.doubtful += len(doubtful)
        progress.has_failed = progress.has_failed or any(one.state == PLANNED for one in finished)
        return bool(doubtful)

    def _tried(self, entry: Entry, error: OrbitError, refusals: Counter[Place]) -> Entry:
        """The entry of a dead letter that failed, and of which nothing has left: it is tried again, so often;
        a broker that is away is waited for.
        """
        if not isinstance(error, NetError | NoBroker | ClaimedElsewhere):
            refusals[entry.place] += 1
            if refusals[entry.place] >= MOST_REFUSALS:
                return replace(entry, state=REFUSED, note=f"{error} ({MOST_REFUSALS} times)")
        return replace(entry, state=PLANNED)

    async def _readable(
        self, group: str, taken: list[Entry], claims: Claims
    ) -> tuple[dict[Place, DeadLetter], list[tuple[Entry, OrbitError]]]:
        """The dead letters that are claimed and can be read, and the others, with the reason: one of them, or
        a broker that is away, does not keep the others back.
        """
        found: dict[Place, DeadLetter] = {}
        failed: list[tuple[Entry, OrbitError]] = []
        by_broker = itertools.groupby(taken, key=lambda one: one.place.broker)
        waiting = [list(entries) for _, entries in by_broker]
        while waiting:
            some = waiting.pop()
            try:
                await claims.hold(group, some[0].place.broker)
                found |= await self._letters(group, [one.place for one in some])
            except OrbitError as error:
                if len(some) == 1 or isinstance(error, NetError | NoBroker | ClaimedElsewhere):
                    failed += [(one, error) for one in some]
                else:
                    middle = len(some) // 2
                    waiting += [some[:middle], some[middle:]]
        return found, failed

    async def _letters(self, group: str, places: list[Place]) -> dict[Place, DeadLetter]:
        """The dead letters that are still there. Raises NoBroker where a broker is not."""
        with suppress(TopicNotExist):
            return await letters_at(self._admin, group, places)
        # A name server knows no topic whose brokers are away, or have not found it yet after its start.
        present = {one.name for one in await self._admin.brokers()}
        away = {place.broker for place in places} - present
        if away:
            raise NoBroker(f"broker {min(away)}, which has dead letters of {group}, is not registered")
        with suppress(TopicNotExist):  # they may have come between the two questions
            return await letters_at(self._admin, group, places)
        return {}

    async def _send_one(self, targets: Targets, made: Outgoing) -> str:
        address, queue = await targets.queue(made.topic, made.sharding_key)
        reply = await self._admin.call(
            address,
            SendMessageV2(
                PRODUCER_GROUP,
                made.topic,
                AUTO_CREATE_TOPIC,
                4,
                queue.queue_id,
                made.sys_flag,
                _now_ms(),
                made.flag,
                made.properties.decode(),
                0,
                False,
                broker_name=queue.broker_name,
                body=made.body,
            ),
        )
        return reply.msg_id

    async def _find_under_way(self, run_id: str, progress: _Progress) -> int:
        """Asks brokers for the dead letters under way; those that are not there are planned again.

        Gives the number of those of which it is still not known: brokers do not answer, or no name server
        knows the topic, whose brokers may be away.
        """
        under_way = await self._journal.do(self._journal.under_way, run_id)
        if not under_way:
            return 0
        run = await self._run(run_id)
        finished: list[Entry] = []
        problem = ""
        unknown: set[str] = set()
        for entry in under_way:
            if entry.topic in unknown:
                continue
            try:
                found = await messages_by_key(self._admin, entry.topic, entry.unique_id, unique=True)
            except OrbitError as error:
                problem = str(error)
                unknown.add(entry.topic)
                continue
            progress.tried.add(entry.place)
            finished.append(_arrived(entry, found[0]) if found else replace(entry, state=PLANNED))
        await self._note(run, finished, problem)
        return len(under_way) - len(finished)

    async def _note(self, run: Run, entries: Iterable[Entry], error: str) -> None:
        journal = self._journal
        await journal.do(journal.record_outcomes, run.id, list(entries))
        await journal.do(journal.set_state, run.id, RUNNING, error)


def _arrived(entry: Entry, message: StoredMessage) -> Entry:
    return replace(entry, state=SENT, sent_ms=message.store_timestamp, sent_id=message.offset_id)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
