"""Redrives: letters sent again once each, at a rate, over kills of this process and of brokers."""

from __future__ import annotations

import asyncio
import base64
import binascii
import itertools
import logging
import random
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.admin.commands.group_connections import group_connections
from orbitmq.admin.commands.messages import messages_by_key
from orbitmq.admin.dead_letters.dead_letter import Cause, DeadLetter, Place
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
    Journal,
    JournalUnusable,
    Run,
)
from orbitmq.admin.dead_letters.outgoing import Edit, Outgoing, To, Wanted, outgoing, target_of
from orbitmq.admin.dead_letters.reading import letters_at, scan
from orbitmq.client import ClientError
from orbitmq.client.sending.queue_choice import queue_of_key
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, ConsumerNotOnline, OrbitError, TopicNotExist
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.send import SendMessageV2

log = logging.getLogger(__name__)

BATCH = 64
"""Letters that are under way at a time: so many at most are in doubt after a kill."""
PRODUCER_GROUP = "REDRIVE_PRODUCER"
MAX_RATE = 10_000
MAX_PLACES = 1000
"""Letters that one run names singly."""
PAUSE_SECONDS = 2.0
"""Pause before a broker that did not answer is asked what it has, and is sent the rest."""
ROUTE_SECONDS = 10.0
WRITABLE = 2
_AGAIN = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.GO_AWAY,
    }
)
"""Refusals that may be over in a moment."""


class BadRequest(OrbitError, ValueError):
    """A redrive that cannot be asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A redrive as it is asked for: single letters, all of a cause, or all of the group without either.

    `rate` is in letters a second. Letters that were sent again `max_replays` times are left out, and so are
    those that an earlier run has sent, unless `again`. `edit` is for a single letter. Raises BadRequest.
    """

    places: tuple[Place, ...] = ()
    cause: Cause | None = None
    to: To = "origin"
    rate: float = 50.0
    max_replays: int = 3
    again: bool = False
    edit: Edit = field(default_factory=Edit)

    def __post_init__(self) -> None:
        if self.places and self.cause is not None:
            raise BadRequest("a redrive is of single letters or of a cause, not of both")
        if len(self.places) > MAX_PLACES:
            raise BadRequest(f"a redrive names {MAX_PLACES} letters at most; take a cause for more")
        if self.to not in get_args(To):
            raise BadRequest(f"a letter goes to origin or to retry, not to {self.to!r}")
        if not 0 < self.rate <= MAX_RATE:
            raise BadRequest(f"a rate is above 0 and at most {MAX_RATE} letters a second, not {self.rate:g}")
        if not 1 <= self.max_replays <= 1000:
            raise BadRequest(f"max_replays is from 1 to 1000, not {self.max_replays}")
        if self.edit != Edit() and len(self.places) != 1:
            raise BadRequest("an edit is of one letter: name its place")

    def wants(self, letter: DeadLetter) -> bool:
        """True if a letter of a scan is meant."""
        return self.cause is None or letter.cause == self.cause

    def as_json(self) -> dict[str, Any]:
        """For the journal."""
        edit, cause = self.edit, self.cause
        return {
            "places": [[one.broker, one.queue_id, one.queue_offset] for one in self.places],
            "cause": None if cause is None else [cause.topic, cause.exception, cause.shape],
            "to": self.to,
            "rate": self.rate,
            "maxReplays": self.max_replays,
            "again": self.again,
            "edit": {
                "body": None if edit.body is None else base64.b64encode(edit.body).decode(),
                "tags": edit.tags,
                "keys": edit.keys,
                "properties": None if edit.properties is None else dict(edit.properties),
            },
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Asked:
        """The reverse."""
        edit, cause = value["edit"], value["cause"]
        return cls(
            tuple(Place(*one) for one in value["places"]),
            None if cause is None else Cause(*cause),
            value["to"],
            value["rate"],
            value["maxReplays"],
            value["again"],
            Edit(
                None if edit["body"] is None else base64.b64decode(edit["body"]),
                edit["tags"],
                edit["keys"],
                edit["properties"],
            ),
        )


def edit_of(body: str | None, tags: str | None, keys: str | None, properties: dict[str, str] | None) -> Edit:
    """An edit whose body comes as base64. Raises BadRequest."""
    try:
        data = None if body is None else base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("the body of an edit has to be base64") from None
    return Edit(data, tags, keys, properties)


@dataclass(slots=True)
class FilterEffect:
    """Effect of the group's subscription to one topic on the letters that would be sent there."""

    topic: str
    known: bool = False
    """False: no member is online, or none subscribes to the topic."""
    kind: str = ""
    expression: str = ""
    error: str = ""
    passes: int = 0
    drops: int = 0


@dataclass(slots=True)
class Preview:
    """Effect that a redrive would have."""

    selected: int = 0
    would_send: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Letters that stay, by reason."""
    filters: dict[str, FilterEffect] = field(default_factory=dict)


class Targets:
    """Queues that take messages, by topic; asked anew after a while and after an error."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._known: dict[str, tuple[float, list[tuple[str, MessageQueue]]]] = {}
        self._turn = itertools.count(random.randrange(1 << 16))

    async def queue(self, topic: str, sharding_key: str | None) -> tuple[str, MessageQueue]:
        """The address and the queue for the next message. Raises TopicNotExist, NoBroker."""
        queues = await self._queues(topic)
        if sharding_key:
            chosen = queue_of_key([queue for _, queue in queues], sharding_key)
            return next(one for one in queues if one[1] == chosen)
        return queues[next(self._turn) % len(queues)]

    def forget(self) -> None:
        """Has routes asked for again."""
        self._known.clear()

    async def _queues(self, topic: str) -> list[tuple[str, MessageQueue]]:
        now = time.monotonic()
        known = self._known.get(topic)
        if known is not None and now - known[0] < ROUTE_SECONDS:
            return known[1]
        route = await self._admin.route(topic)
        masters = {
            one.broker_name: one.broker_addrs[0]
            for one in route.broker_datas
            if one.broker_addrs and 0 in one.broker_addrs
        }
        queues = [
            (masters[data.broker_name], MessageQueue(topic, data.broker_name, queue_id))
            for data in sorted(route.queue_datas, key=lambda one: one.broker_name)
            if data.broker_name in masters and data.perm & WRITABLE
            for queue_id in range(data.write_queue_nums)
        ]
        if not queues:
            raise NoBroker(f"no master takes messages of topic {topic}")
        self._known[topic] = (now, queues)
        return queues


class Redrive:
    """The redrives of one cluster over one journal."""

    def __init__(self, admin: Admin, cluster: str, journal: Journal) -> None:
        self._admin = admin
        self._cluster = cluster
        self._journal = journal
        self._stopping: set[str] = set()
        self._planning = asyncio.Lock()

    async def begin(self, group: str, asked: Asked, user: str) -> str:
        """Notes a new run, which `carry_out` then does; gives its id."""
        return await self._journal.do(self._journal.begin, self._cluster, group, asked.as_json(), user)

    def stop(self, run: str) -> None:
        """Has `carry_out` end after the letters that are under way."""
        self._stopping.add(run)

    async def preview(self, group: str, asked: Asked) -> Preview:
        """The effect that a redrive would have; nothing is sent. Raises TopicNotExist."""
        preview = Preview()
        wanted = await self._filters(group)
        async for letter, entry in self._judged(group, asked, None):
            preview.selected += 1
            if entry.state != PLANNED:
                preview.skipped[entry.note] += 1
                continue
            preview.would_send += 1
            topic = letter.topic or ""
            effect = preview.filters.setdefault(topic, FilterEffect(topic))
            filter_ = wanted.get(topic)
            if filter_ is None:
                continue
            effect.known, effect.kind = True, filter_.kind
            effect.expression, effect.error = filter_.expression, filter_.error
            made = outgoing(letter, entry.topic, entry.unique_id, asked.edit)
            if filter_.lets_pass(decode_properties(made.properties).get("TAGS"), made.properties):
                effect.passes += 1
            else:
                effect.drops += 1
        return preview

    async def carry_out(self, run_id: str, done: Callable[[Run], None] | None = None) -> Run:
        """Plans a run if that was not done, sends what is left, and gives the finished run.

        A broker that does not answer is waited for. After a kill the same call goes on where it was.
        """
        journal = self._journal
        run = await self._run(run_id)
        asked = Asked.from_json(run.asked)
        problem = ""
        if run.state == PLANNING:
            async with self._planning:  # two plans at a time would not know of each other's letters
                problem = await self._plan(run, asked)
        targets = Targets(self._admin)
        batch = max(1, min(BATCH, int(asked.rate / 4)))
        doubtful = bool(await journal.do(journal.under_way, run_id))
        while not problem and run_id not in self._stopping:
            if doubtful:
                doubtful = not await self._look_for(run_id)
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
        """Notes every letter of a run; gives why it cannot be done, empty if it can.

        Waits for brokers that do not answer.
        """
        journal = self._journal
        while run.id not in self._stopping:
            await journal.do(journal.forget_plan, run.id)
            chunk: list[Entry] = []
            try:
                async for _, entry in self._judged(run.group, asked, run.id):
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

    async def _judged(
        self, group: str, asked: Asked, run: str | None
    ) -> AsyncIterator[tuple[DeadLetter, Entry]]:
        """The letters that are meant, each with its entry: planned, or skipped with the reason."""
        exists: dict[str, bool] = {}
        async for letters in self._selected(group, asked):
            places = [(one.place, one.message.store_timestamp) for one in letters]
            taken = {}
            if not asked.again and (run is not None or self._journal.exists):
                taken = await self._journal.do(self._journal.claimed, self._cluster, group, places)
            for letter in letters:
                target = target_of(letter, group, asked.to)
                if target is not None and target not in exists:
                    exists[target] = await self._exists(target)
                entry = Entry(
                    letter.place,
                    letter.message.store_timestamp,
                    secrets.token_hex(16).upper(),
                    target or "",
                    SKIPPED,
                )
                if target is None:
                    entry = replace(entry, note="its first topic is not known")
                elif not exists[target]:
                    entry = replace(entry, note=f"topic {target} does not exist")
                elif letter.replays >= asked.max_replays:
                    entry = replace(entry, note=f"it was sent again {letter.replays} times")
                else:
                    try:
                        outgoing(letter, target, entry.unique_id, asked.edit)
                    except ClientError as error:
                        if asked.edit != Edit():
                            raise
                        entry = replace(entry, note=str(error))
                    else:
                        run_of = taken.get(letter.place)
                        note = "" if run_of is None else f"run {run_of} has sent it"
                        entry = replace(entry, state=SKIPPED if note else PLANNED, note=note)
                yield letter, entry

    async def _selected(self, group: str, asked: Asked) -> AsyncIterator[list[DeadLetter]]:
        if asked.places:
            yield list((await letters_at(self._admin, group, asked.places)).values())
            return
        async for page in scan(self._admin, group):
            yield [one for one in page.letters if asked.wants(one)]

    async def _exists(self, topic: str) -> bool:
        try:
            await self._admin.route(topic)
        except TopicNotExist:
            return False
        return True

    async def _filters(self, group: str) -> dict[str, Wanted]:
        try:
            found = await group_connections(self._admin, group)
        except ConsumerNotOnline:
            return {}
        return {topic: Wanted(one) for topic, one in found.subscription_table.items()}

    async def _send(self, run: Run, asked: Asked, targets: Targets, taken: list[Entry]) -> bool:
        """Sends letters and notes what became of them; True if it is not known of some."""
        try:
            letters = await letters_at(self._admin, run.group, (one.place for one in taken))
        except TopicNotExist:
            letters = {}
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

    async def _look_for(self, run_id: str) -> bool:
        """Asks brokers for the letters under way; those that are not there are planned again.

        False: brokers do not answer.
        """
        run = await self._run(run_id)
        finished: list[Entry] = []
        for entry in await self._journal.do(self._journal.under_way, run_id):
            try:
                found = await messages_by_key(self._admin, entry.topic, entry.unique_id, unique=True)
            except TopicNotExist:
                found = []
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
