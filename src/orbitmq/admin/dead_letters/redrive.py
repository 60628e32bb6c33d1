"""Redrives: dead letters sent again once each, at a rate, over kills of this process and of brokers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.admin.commands.messages import messages_by_key
from orbitmq.admin.dead_letters.asked import Asked, BadRequest
from orbitmq.admin.dead_letters.dead_letter import DeadLetter, Place
from orbitmq.admin.dead_letters.journal import (
    DONE,
    GONE,
    PLANNED,
    PLANNING,
    REFUSED,
    RUNNING,
    SENT,
    STOPPED,
    Entry,
    Journal,
    JournalUnusable,
    Run,
)
from orbitmq.admin.dead_letters.outgoing import Outgoing, outgoing
from orbitmq.admin.dead_letters.planning import Planning, Preview
from orbitmq.admin.dead_letters.reading import letters_at
from orbitmq.admin.dead_letters.targets import Targets
from orbitmq.client import ClientError
from orbitmq.net.errors import NetError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError, TopicNotExist
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.requests.send import SendMessageV2

log = logging.getLogger(__name__)

BATCH = 64
"""Dead letters that are under way at a time: so many at most are in doubt after a kill."""
PRODUCER_GROUP = "REDRIVE_PRODUCER"
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


class Redrive:
    """The redrives of one cluster over one journal."""

    def __init__(self, admin: Admin, cluster: str, journal: Journal) -> None:
        self._admin = admin
        self._cluster = cluster
        self._journal = journal
        self._plans = Planning(admin, cluster, journal)
        self._stopping: set[str] = set()
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

        A broker that does not answer is waited for. After a kill the same call goes on where it was.
        """
        journal = self._journal
        run = await self._run(run_id)
        asked = Asked.from_json(run.asked)
        problem = ""
        if run.state == PLANNING:
            async with self._planning:  # two plans at a time would not know of each other's dead letters
                problem = await self._plan(run, asked)
        targets = Targets(self._admin)
        batch = max(1, min(BATCH, int(asked.rate / 4)))
        doubtful = bool(await journal.do(journal.under_way, run_id))
        while not problem and run_id not in self._stopping:
            if doubtful:
                doubtful = not await self._find_under_way(run_id)
                if doubtful:
                    await asyncio.sleep(PAUSE_SECONDS)
                continue
            began = time.monotonic()
            taken = await journal.do(journal.claim, run_id, batch)
            if not taken:
                break
            doubtful = await self._send(run, asked, targets, taken)
            if doubtful:
                targets.forget()
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                await asyncio.sleep(max(0.0, len(taken) / asked.rate - (time.monotonic() - began)))
        state = STOPPED if problem or run_id in self._stopping else DONE
        self._stopping.discard(run_id)
        await journal.do(journal.set_state, run_id, state, problem)
        run = await self._run(run_id)
        if done is not None:
            done(run)
        return run

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

    async def _send(self, run: Run, asked: Asked, targets: Targets, taken: list[Entry]) -> bool:
        """Sends dead letters and notes what became of them; True if it is not known of some."""
        try:
            letters = await self._letters(run.group, [one.place for one in taken])
        except OrbitError as error:
            # Nothing has left: they are planned as before.
            await self._note(run, [replace(one, state=PLANNED) for one in taken], str(error))
            return True

        async def send(entry: Entry) -> Entry | OrbitError:
            letter = letters.get(entry.place)
            if letter is None or letter.message.store_timestamp != entry.stored_ms:
                return replace(entry, state=GONE, note="retention has deleted it")
            try:
                made = outgoing(letter, entry.topic, entry.unique_id, asked.edit)
                sent_id = await self._send_one(targets, made)
            except (NetError, NoBroker) as error:
                return error
            except BrokerRefused as error:
                if error.code in _AGAIN:
                    return error
                return replace(entry, state=REFUSED, note=str(error))
            except ClientError as error:
                return replace(entry, state=REFUSED, note=str(error))
            return replace(entry, state=SENT, sent_ms=_now_ms(), sent_id=sent_id)

        results = await self._admin.each(taken, send)
        failures = [one for one in results if isinstance(one, OrbitError)]
        finished = [one for one in results if isinstance(one, Entry)]
        await self._note(run, finished, str(failures[0]) if failures else "")
        return bool(failures)

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

    async def _find_under_way(self, run_id: str) -> bool:
        """Asks brokers for the dead letters under way; those that are not there are planned again.

        False: brokers do not answer, or no name server knows the topic, whose brokers may be away.
        """
        run = await self._run(run_id)
        finished: list[Entry] = []
        for entry in await self._journal.do(self._journal.under_way, run_id):
            try:
                found = await messages_by_key(self._admin, entry.topic, entry.unique_id, unique=True)
            except OrbitError as error:
                await self._note(run, finished, str(error))
                return False
            if found:
                first = found[0]
                finished.append(
                    replace(entry, state=SENT, sent_ms=first.store_timestamp, sent_id=first.offset_id)
                )
            else:
                finished.append(replace(entry, state=PLANNED))
        await self._note(run, finished, "")
        return True

    async def _note(self, run: Run, entries: Iterable[Entry], error: str) -> None:
        journal = self._journal
        await journal.do(journal.record_outcomes, run.id, list(entries))
        await journal.do(journal.set_state, run.id, RUNNING, error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
