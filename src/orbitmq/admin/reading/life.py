"""The life of one message, from its sending to its last retry, from log, offsets and trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from orbitmq.admin.admin import Admin
from orbitmq.admin.brokers import broker_config
from orbitmq.admin.dead_letters.rules import REDRIVEN, REPLAYS
from orbitmq.admin.messages import NoMessage, messages_by_key
from orbitmq.admin.progress import group_progress
from orbitmq.admin.reading.trace import Traced, traces_of
from orbitmq.admin.stats import groups_of
from orbitmq.client.consumer.dead_letters import EXCEPTION, EXCEPTION_TEXT
from orbitmq.net.address import format_address
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import OrbitError, TopicNotExist
from orbitmq.protocol.names import (
    DELAY,
    DLQ_PREFIX,
    RETRY_PREFIX,
    TIMER_OUT_MS,
    TRANSACTION_PREPARED,
)
from orbitmq.protocol.records.ids import host_text, parse_offset_message_id
from orbitmq.protocol.records.message import StoredMessage

SEGMENT_BYTES = 1 << 30
"""Apache's mappedFileSizeCommitLog."""
MOST_GROUPS = 50

Step = Literal[
    "sent", "waited", "stored", "delivered", "handled", "waiting", "passed", "retry", "dead", "resent"
]
Source = Literal["log", "offsets", "trace"]


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """One thing that happened to the message. `passed` and `waiting` are of now, the others have a time."""

    step: Step
    source: Source
    """The evidence: a record in the log, offsets of a group, or a client's trace."""
    sentence: str
    at_ms: int | None = None
    group: str = ""
    topic: str = ""
    message_id: str = ""
    """Id of the record that shows it."""
    is_bad: bool = False


@dataclass(slots=True)
class Life:
    """All that is known of a message, the earliest first. `missing` says what could not be found out."""

    message: StoredMessage
    """As it is stored."""
    events: list[LifeEvent] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


async def life_of(admin: Admin, topic: str, unique_id: str) -> Life:
    """The life of the message with a unique id. Raises NoMessage, TopicNotExist."""
    found = await messages_by_key(admin, topic, unique_id, unique=True)
    if not found:
        raise NoMessage(f"topic {topic} has no message with unique id {unique_id}")
    first = found[0]
    life = Life(first)
    for stored in found:
        life.events += await _storing(admin, stored)
    traces = await traces_of(admin, unique_id, unreadable=life.missing)
    for one in traces:
        life.events.append(_traced(one))
    if not traces:
        life.missing.append("no client traced it: deliveries are known from offsets and retries alone")
    brokers = await admin.brokers_of(topic)
    groups = set(await groups_of(admin, brokers, topic))
    # Every broker numbers its queues alike: the address in the message identifies it.
    at = host_text(first.store_host)
    broker = next((one.name for one in brokers if one.address == at), brokers[0].name)
    queue = MessageQueue(topic, broker, first.queue_id)
    groups |= {one.group for one in traces if one.step != "sent" and one.group}
    if len(groups) > MOST_GROUPS:
        life.missing.append(f"{len(groups)} groups read the topic: {MOST_GROUPS} of them were looked at")
    for group in sorted(groups)[:MOST_GROUPS]:
        try:
            life.events += await _in_group(admin, group, queue, first.queue_offset, unique_id)
        except OrbitError as error:
            life.missing.append(f"group {group}: {error}")
    life.events += await _resent(admin, life)
    order: dict[str, int] = {"sent": 0, "waited": 1, "stored": 2, "delivered": 3, "handled": 4}
    life.events.sort(key=lambda one: (one.at_ms is None, one.at_ms or 0, order.get(one.step, 5), one.group))
    return life


async def _storing(admin: Admin, stored: StoredMessage) -> list[LifeEvent]:
    properties = stored.property_map()
    events = [
        LifeEvent(
            "sent",
            "log",
            f"Sent from {host_text(stored.born_host)}"
            + (", as a half message that was committed" if TRANSACTION_PREPARED in properties else ""),
            stored.born_timestamp,
            topic=stored.topic,
        )
    ]
    if DELAY in properties or TIMER_OUT_MS in properties:
        waited = f"delay level {properties[DELAY]}" if DELAY in properties else "a timer of its own"
        events.append(
            LifeEvent("waited", "log", f"Waited by {waited}", stored.born_timestamp, topic=stored.topic)
        )
    again = f", sent again for the {properties[REPLAYS]}. time" if REPLAYS in properties else ""
    file = await _file_of(admin, stored)
    events.append(
        LifeEvent(
            "stored",
            "log",
            f"Stored in queue {stored.queue_id} of {stored.topic} at offset {stored.queue_offset}, "
            f"commit log {file}{again}",
            stored.store_timestamp,
            topic=stored.topic,
            message_id=stored.offset_id,
        )
    )
    return events


async def _file_of(admin: Admin, stored: StoredMessage) -> str:
    """The commit log's file and the place in it: `00000000000000000000 + 4711`."""
    address = format_address(*parse_offset_message_id(stored.offset_id).address)
    size = SEGMENT_BYTES
    try:
        config = await broker_config(admin, address)
        text = config.get("mappedFileSizeCommitLog") or config.get("mapedFileSizeCommitLog") or ""
        size = int(text) if text.isdigit() and int(text) > 0 else size
    except OrbitError:
        pass  # the place in the log is right all the same
    begin = stored.physical_offset // size * size
    return f"{begin:020} + {stored.physical_offset - begin} of {host_text(stored.store_host)}"


def _traced(one: Traced) -> LifeEvent:
    if one.step == "sent":
        outcome = "" if one.success else "; it failed"
        text = f"Producer group {one.group} at {one.client} sent it in {one.cost_ms} ms{outcome}"
    elif one.step == "delivered":
        again = f", after {one.retries} retries" if one.retries else ""
        text = f"Delivered to group {one.group} at {one.client}{again}"
    else:
        text = f"Group {one.group} handled it in {one.cost_ms} ms: {one.result}"
    group = "" if one.step == "sent" else one.group
    return LifeEvent(one.step, "trace", text, one.at_ms, group, is_bad=one.success is False)


def _failed(step: Step, text: str, group: str, stored: StoredMessage) -> LifeEvent:
    """A failure of a group's handler, shown by the record that it left."""
    at_ms, topic, record = stored.store_timestamp, stored.topic, stored.offset_id
    return LifeEvent(step, "log", text, at_ms, group, topic, record, is_bad=True)


async def _in_group(
    admin: Admin, group: str, queue: MessageQueue, offset: int, unique_id: str
) -> list[LifeEvent]:
    events = []
    for stored in await _copies(admin, RETRY_PREFIX + group, unique_id):
        text = f"Retry {stored.reconsume_times} for group {group} was stored"
        events.append(_failed("retry", text, group, stored))
    for stored in await _copies(admin, DLQ_PREFIX + group, unique_id):
        properties = stored.property_map()
        reason = " ".join(filter(None, (properties.get(EXCEPTION), properties.get(EXCEPTION_TEXT))))
        text = f"Group {group} gave it up as a dead letter" + (f": {reason}" if reason else "")
        events.append(_failed("dead", text, group, stored))
    offsets = (await group_progress(admin, group, queue.topic)).queues.get(queue)
    if offsets is not None:
        behind = offset - offsets.consumer_offset
        if behind < 0:
            text = f"Group {group} is past it, at offset {offsets.consumer_offset}"
            events.append(LifeEvent("passed", "offsets", text, None, group, queue.topic))
        else:
            text = f"Group {group} has not come to it: {behind} messages are before it"
            events.append(LifeEvent("waiting", "offsets", text, None, group, queue.topic))
    return events


async def _copies(admin: Admin, topic: str, unique_id: str) -> list[StoredMessage]:
    try:
        return await messages_by_key(admin, topic, unique_id, unique=True)
    except (TopicNotExist, NoMessage):
        return []


async def _resent(admin: Admin, life: Life) -> list[LifeEvent]:
    """Copies that the console sent again from a dead letter: they name it, and have the same keys."""
    letters = {one.message_id: one for one in life.events if one.step == "dead"}
    events = []
    seen = set()
    for key in life.message.keys if letters else ():
        for stored in await messages_by_key(admin, life.message.topic, key):
            letter = letters.get(stored.property_map().get(REDRIVEN, ""))
            if letter is not None and stored.offset_id not in seen:
                seen.add(stored.offset_id)
                text = f"Sent again from the dead letters of group {letter.group}, as {stored.unique_id}"
                events.append(
                    LifeEvent(
                        "resent",
                        "log",
                        text,
                        stored.store_timestamp,
                        letter.group,
                        stored.topic,
                        stored.offset_id,
                    )
                )
    if letters and not life.message.keys:
        life.missing.append("it has no keys: copies that were sent again cannot be found by them")
    return events
