"""The plan of a redrive: the dead letters that are sent, and the reasons for which others stay."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from orbitmq.admin.admin import Admin
from orbitmq.admin.dead_letters.asked import Asked
from orbitmq.admin.dead_letters.dead_letter import DeadLetter
from orbitmq.admin.dead_letters.journal import PLANNED, SKIPPED, Entry, RedriveJournal
from orbitmq.admin.dead_letters.outgoing import Edit, SubscriptionFilter, outgoing
from orbitmq.admin.dead_letters.reading import letters_at, scan
from orbitmq.admin.dead_letters.rules import target_of
from orbitmq.admin.groups import group_connections
from orbitmq.client import ClientError
from orbitmq.protocol.errors import ConsumerNotOnline, TopicNotExist
from orbitmq.protocol.records.ids import unique_id_of
from orbitmq.protocol.records.properties import decode_properties


@dataclass(slots=True)
class FilterEffect:
    """Effect of the group's subscription to one topic on the dead letters that would be sent there."""

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
    newest_ms: int | None = None
    """Store time of the newest of them: `until_ms` of a run that is to send these."""
    would_send: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Dead letters that stay, by reason."""
    topics: Counter[str] = field(default_factory=Counter)
    """Dead letters that would be sent, by the topic that would be written: it is what they say of themselves,
    and may be what a consumer said of them."""
    filters: dict[str, FilterEffect] = field(default_factory=dict)


class Planning:
    """The plans of one cluster over one journal."""

    def __init__(self, admin: Admin, cluster: str, journal: RedriveJournal) -> None:
        self._admin = admin
        self._cluster = cluster
        self._journal = journal

    async def preview(self, group: str, asked: Asked) -> Preview:
        """The effect that a redrive would have; nothing is sent. Raises TopicNotExist."""
        preview = Preview()
        wanted = await self._filters(group)
        async for letter, entry in self.judged(group, asked, None):
            preview.selected += 1
            preview.newest_ms = max(preview.newest_ms or 0, letter.message.store_timestamp)
            if entry.state != PLANNED:
                preview.skipped[entry.note] += 1
                continue
            preview.would_send += 1
            preview.topics[entry.topic] += 1
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

    async def judged(
        self, group: str, asked: Asked, run: str | None
    ) -> AsyncIterator[tuple[DeadLetter, Entry]]:
        """The dead letters that are meant, each with its entry: planned, or skipped with the reason.

        Those of another run are skipped; `run` is None where nothing is to be noted.
        """
        exists: dict[str, bool] = {}
        async for letters in self._selected(group, asked):
            places = [(one.place, one.message.store_timestamp) for one in letters]
            taken = {}
            if not asked.again and (run is not None or self._journal.exists):
                taken = await self._journal.do(self._journal.claimed, self._cluster, group, places)
            for letter in letters:
                target = target_of(letter.topic, group, asked.to)
                if target is not None and target not in exists:
                    exists[target] = await self._exists(target)
                entry = Entry(
                    letter.place,
                    letter.message.store_timestamp,
                    # All redrives of a dead letter have one id, but for one that is asked for once more.
                    secrets.token_hex(16).upper() if asked.again else unique_id_of(letter.identity),
                    target or "",
                    SKIPPED,
                )
                if target is None:
                    entry = replace(entry, note="its first topic is not known")
                elif not exists[target]:
                    entry = replace(entry, note=f"topic {target} does not exist")
                else:
                    entry = _judge(letter, entry, asked, taken.get(letter.place))
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

    async def _filters(self, group: str) -> dict[str, SubscriptionFilter]:
        try:
            found = await group_connections(self._admin, group)
        except ConsumerNotOnline:
            return {}
        return {topic: SubscriptionFilter(one) for topic, one in found.subscription_table.items()}


def _judge(letter: DeadLetter, entry: Entry, asked: Asked, sent_by: str | None) -> Entry:
    """The entry of a dead letter whose topic exists; `sent_by` is another run that has sent it or will."""
    if letter.replays >= asked.max_replays:
        return replace(entry, note=f"it was sent again {letter.replays} times")
    try:
        outgoing(letter, entry.topic, entry.unique_id, asked.edit)
    except ClientError as error:
        if asked.edit != Edit():
            raise
        return replace(entry, note=str(error))
    if sent_by is not None:
        return replace(entry, note=f"run {sent_by} has sent it")
    return replace(entry, state=PLANNED)
