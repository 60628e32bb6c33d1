"""Claims on dead letters: of several redrives, in whatever process, one at a time sends those of a group.

A claim is a queue lock at the master that holds the dead letters, which brokers of every version have: it
lives for 30 to 60 s after its last renewal. The holder may send what no broker has under the identity of a
dead letter (`rules.identity_of`): whoever held the claim before has sent under the same one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.dead_letters.dead_letter import DeadLetter, Place
from orbitmq.admin.messages import messages_by_key
from orbitmq.net.errors import CallTimeout, NetError
from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue, UnlockBatchRequestBody
from orbitmq.protocol.errors import BrokerRefused, OrbitError, TopicNotExist
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, TOOLS_GROUP
from orbitmq.protocol.records.ids import unique_id_of
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq

RENEW_SECONDS = 5.0
"""Age of a claim at which it is renewed before more is sent."""
TRUSTED_SECONDS = 20.0
"""Age of a claim up to which its holder sends: less than any broker keeps it."""
INDEXED_SECONDS = 30.0
"""Longest wait for an index to have everything that is stored."""
UNKNOWN_INDEX_SECONDS = 1.0
"""Wait for an index of which a broker tells nothing: it follows the log by moments."""


class ClaimedElsewhere(OrbitError):
    """Another redrive sends these dead letters now."""


class Claims:
    """The claims of one redriving program, whose `owner` is its name at the brokers."""

    def __init__(self, admin: Admin, owner: str) -> None:
        self._admin = admin
        self._owner = f"redrive@{owner}"
        self._held: dict[tuple[str, str], float] = {}
        """Group and broker -> time at which the last renewal was asked for."""

    async def hold(self, group: str, broker: str) -> None:
        """Claims the dead letters of a group at a broker, or renews the claim.

        A new claim is held once everything that was sent before it can be found. Raises ClaimedElsewhere,
        NoBroker, NetError, BrokerRefused.
        """
        while self._age(group, broker) >= RENEW_SECONDS:
            is_new = self._age(group, broker) >= TRUSTED_SECONDS
            began = time.monotonic()
            [master, *_] = await self._admin.masters(broker=broker)
            queue = _queue(group, broker)
            body = LockBatchRequestBody(TOOLS_GROUP, self._owner, mq_set=[queue])
            reply = await self._admin.call(master.address, LockBatchMq(body))
            if queue not in (reply.body.lock_ok_mq_set or ()):
                self._held.pop((group, broker), None)
                raise ClaimedElsewhere(f"another redrive sends the dead letters of {group} on {broker} now")
            if is_new:
                await _all_found(self._admin)
            self._held[group, broker] = began

    def check(self, group: str, broker: str) -> None:
        """Raises ClaimedElsewhere for a claim so old that another redrive may have it by now."""
        if self._age(group, broker) >= TRUSTED_SECONDS:
            raise ClaimedElsewhere(f"the claim on the dead letters of {group} on {broker} is over")

    async def release(self, group: str) -> None:
        """Gives up the claims on a group's dead letters; one that no broker hears of expires."""
        for held, broker in [one for one in self._held if one[0] == group]:
            del self._held[held, broker]
            with suppress(OrbitError):
                [master, *_] = await self._admin.masters(broker=broker)
                body = UnlockBatchRequestBody(TOOLS_GROUP, self._owner, mq_set=[_queue(group, broker)])
                await self._admin.call(master.address, UnlockBatchMq(body))

    def _age(self, group: str, broker: str) -> float:
        return time.monotonic() - self._held.get((group, broker), -TRUSTED_SECONDS)


async def sent_before(
    admin: Admin, group: str, letters: Iterable[DeadLetter]
) -> tuple[dict[Place, StoredMessage], dict[Place, OrbitError]]:
    """Those of a group's dead letters that a redrive has sent, to either target, each with its message; and
    those of which brokers do not say it, with the reason.
    """
    known: dict[str, asyncio.Task[list[BrokerAt]]] = {}

    async def brokers_of(topic: str) -> list[BrokerAt]:
        try:
            return await admin.brokers_of(topic)
        except TopicNotExist:
            return []

    async def ask(letter: DeadLetter) -> StoredMessage | OrbitError | None:
        unique_id = unique_id_of(letter.identity)
        for topic in filter(None, (letter.topic, RETRY_PREFIX + group)):
            if topic not in known:
                known[topic] = asyncio.create_task(brokers_of(topic))
            try:
                if brokers := await known[topic]:
                    found = await messages_by_key(admin, topic, unique_id, unique=True, brokers=brokers)
                    if found:
                        return found[0]
            except OrbitError as error:
                return error
        return None

    asked = list(letters)
    answers = dict(zip((one.place for one in asked), await admin.each(asked, ask), strict=True))
    return (
        {place: one for place, one in answers.items() if isinstance(one, StoredMessage)},
        {place: one for place, one in answers.items() if isinstance(one, OrbitError)},
    )


def _queue(group: str, broker: str) -> MessageQueue:
    """The queue whose lock stands for all dead letters of a group at a broker."""
    return MessageQueue(DLQ_PREFIX + group, broker, 0)


async def _all_found(admin: Admin) -> None:
    """Returns once everything stored so far is found by its ids, at the brokers that answer."""

    async def one(broker: BrokerAt) -> None:
        with suppress(NetError):
            await _indexed(admin, broker.address)

    await admin.each(await admin.masters(), one)


async def _indexed(admin: Admin, address: str) -> None:
    deadline = time.monotonic() + INDEXED_SECONDS
    end: int | None = None
    pause = 0.01
    while True:
        try:
            figures = (await admin.call(address, GetBrokerRuntimeInfo())).body.table
            log_end, behind = int(figures["commitLogMaxOffset"]), int(figures["dispatchBehindBytes"])
        except (BrokerRefused, KeyError):  # access control may keep the figures from us
            await asyncio.sleep(UNKNOWN_INDEX_SECONDS)
            return
        end = log_end if end is None else end
        if log_end - behind >= end:
            return
        if time.monotonic() > deadline:
            raise CallTimeout(address, "the index to catch up", INDEXED_SECONDS * 1000)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.5)
