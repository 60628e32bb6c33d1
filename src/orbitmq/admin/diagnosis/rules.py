"""The rules: each gives a finding for the evidence, or None. `diagnose` tries them, the surest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbitmq.admin.diagnosis.evidence import Evidence, HeldQueue, Member, QueueEvidence
from orbitmq.plurals import counted
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import RETRY_PREFIX

SMALL_LAG_SECONDS = 1.0
STALE_MS = 30_000
"""A reader that has not pulled for so long does not pull: held pulls return after 15 s at most."""
STUCK_MS = 60_000
"""A queue whose messages have been with a member for so long, with none finished, is stuck."""
MANY_CACHED, MANY_MIB = 1000, 100
"""Clients stop pulling a queue that holds so much, unless they are configured with other limits."""
SLOW_HANDLER_MS = 100.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause."""

    cause: str
    """Stable name, for programs."""
    sentence: str
    evidence: tuple[str, ...]
    advice: str


Rule = Callable[[Evidence], Finding | None]


def diagnose(evidence: Evidence) -> list[Finding]:
    """All causes that the evidence shows, the surest and gravest first; one at least."""
    found = [finding for rule in RULES if (finding := rule(evidence)) is not None]
    return found or [_none(evidence)]


def unknown_group(evidence: Evidence) -> Finding | None:
    """No broker knows the group."""
    if evidence.known or evidence.members or evidence.queues:
        return None
    return Finding(
        "UNKNOWN_GROUP",
        f"No broker knows a group {evidence.group}.",
        (),
        "Check the name; `orbitmq admin group list` lists groups.",
    )


def not_permitted(evidence: Evidence) -> Finding | None:
    """A broker refuses the group, or whoever looks."""
    if not evidence.refused:
        return None
    return Finding(
        "NOT_PERMITTED",
        "A broker refuses access to the group.",
        (evidence.refused,),
        "Look at the rules of its user: orbitmq admin acl list.",
    )


def broadcasting(evidence: Evidence) -> Finding | None:
    """Members keep offsets themselves, so brokers know no progress."""
    if not evidence.broadcasting:
        return None
    return Finding(
        "BROADCASTING",
        f"Group {evidence.group} broadcasts: each member keeps its own offsets, and brokers know no lag.",
        (f"{counted(len(evidence.members), 'member')} online",),
        "Measure progress in the members.",
    )


def disabled(evidence: Evidence) -> Finding | None:
    """The group's settings forbid to consume."""
    if evidence.enabled:
        return None
    return Finding(
        "GROUP_DISABLED",
        f"Group {evidence.group} may not consume: its setting consumeEnable is off.",
        (f"lag {evidence.lag:,}",),
        f"orbitmq admin group create {evidence.group} --enable",
    )


def broker_gone(evidence: Evidence) -> Finding | None:
    """A broker does not answer, so its queues cannot be read."""
    if not evidence.brokers_gone:
        return None
    names = ", ".join(sorted(evidence.brokers_gone))
    return Finding(
        "BROKER_GONE",
        f"Broker {names} does not answer: its queues cannot be read.",
        tuple(evidence.brokers_gone.values()),
        "Start it, or look at its log.",
    )


def no_consumer(evidence: Evidence) -> Finding | None:
    """Messages wait, and no client is there."""
    if evidence.members or not evidence.lag:
        return None
    return Finding(
        "NO_CONSUMER",
        f"No consumer of group {evidence.group} is connected.",
        (f"lag {evidence.lag:,}, 0 members",),
        "Start its consumers, with this group and these name servers.",
    )


def topic_not_readable(evidence: Evidence) -> Finding | None:
    """A topic's permission forbids to read it."""
    topics = sorted(evidence.unreadable & {one.queue.topic for one in evidence.queues if one.lag})
    if not topics:
        return None
    return Finding(
        "TOPIC_NOT_READABLE",
        f"Topic {', '.join(topics)} may not be read: its permission lacks 4 (read).",
        tuple(f"{topic}: lag {_lag(evidence, topic):,}" for topic in topics),
        f"orbitmq admin topic perm {topics[0]} 6",
    )


def subscriptions_differ(evidence: Evidence) -> Finding | None:
    """Members of one group want different messages, so some are read by members that drop them."""
    answered = [one for one in evidence.members if one.answered]
    differing = []
    for topic in sorted({topic for one in answered for topic in one.subscriptions}):
        if topic.startswith(RETRY_PREFIX):
            continue
        wanted = Counter(one.subscriptions.get(topic, "(not subscribed)") for one in answered)
        if len(wanted) > 1:
            listed = ", ".join(
                f"{text} by {counted(count, 'member')}" for text, count in wanted.most_common()
            )
            differing.append(f"{topic}: {listed}")
    if not differing:
        return None
    return Finding(
        "SUBSCRIPTIONS_DIFFER",
        f"Members of group {evidence.group} subscribe to different messages; queues are shared as if all "
        "wanted the same.",
        tuple(differing),
        "Give all members one subscription, or a group each.",
    )


def not_subscribed(evidence: Evidence) -> Finding | None:
    """A topic has a backlog, and no member subscribes to it any more."""
    answered = [one for one in evidence.members if one.answered]
    if not answered or len(answered) < len(evidence.members):
        return None
    wanted = {topic for one in answered for topic in one.subscriptions}
    topics = sorted({one.queue.topic for one in evidence.queues if one.lag} - wanted)
    topics = [topic for topic in topics if not topic.startswith(RETRY_PREFIX)]
    if not topics:
        return None
    return Finding(
        "NOT_SUBSCRIBED",
        f"No member of group {evidence.group} subscribes to {', '.join(topics)} any more.",
        tuple(f"{topic}: lag {_lag(evidence, topic):,}" for topic in topics),
        "Subscribe again, or skip what waits: orbitmq admin group reset-offset GROUP TOPIC --to latest.",
    )


def ordered_not_locked(evidence: Evidence) -> Finding | None:
    """An ordered consumer waits for a queue that is still locked for another client."""
    waiting = [
        (member.client_id, queue)
        for member in evidence.members
        if member.ordered
        for queue, held in member.held.items()
        if not held.locked and _of(evidence, queue) and _of(evidence, queue).lag  # type: ignore[union-attr]
    ]
    waiting += _never_locked(evidence)
    if not waiting:
        return None
    return Finding(
        "LOCKED_BY_ANOTHER",
        f"{counted(len(waiting), 'ordered queue')} cannot be read: the broker still has the lock of another "
        "client.",
        tuple(f"{_text(queue)} waits at {client}" for client, queue in waiting[:5]),
        "A lock of a dead client falls after 60 s; a live one has to give the queue back.",
    )


def _never_locked(evidence: Evidence) -> list[tuple[str, MessageQueue]]:
    """Queues that nobody reads in a group of ordered members: clients take a queue with its lock alone."""
    if not evidence.members or not all(one.answered and one.ordered for one in evidence.members):
        return []
    held = {queue for member in evidence.members for queue in member.held}
    wanted = {topic for member in evidence.members for topic in member.subscriptions}
    return [
        ("the group", one.queue)
        for one in evidence.queues
        if one.lag and not one.consumed and one.queue.topic in wanted and one.queue not in held
        if not one.queue.topic.startswith(RETRY_PREFIX)
    ]


def paused(evidence: Evidence) -> Finding | None:
    """A member holds queues, has nothing in hand, and does not pull."""
    idle: list[tuple[Member, MessageQueue, HeldQueue]] = []
    for member, queue, held in _held(evidence):
        found = _of(evidence, queue)
        quiet = held.last_pull_ms > 0 and evidence.now_ms - held.last_pull_ms > STALE_MS
        if (
            found is not None
            and found.lag
            and not found.consumed
            and not held.cached
            and held.locked
            and quiet
        ):
            idle.append((member, queue, held))
    if not idle:
        return None
    clients = sorted({member.client_id for member, _, _ in idle})
    return Finding(
        "PAUSED",
        f"{counted(len(clients), 'member')} of group {evidence.group} holds queues and does not pull: it is "
        "paused, or its pulling hangs.",
        tuple(
            f"{_text(queue)} at {member.client_id}: last pull {_ago(evidence, held.last_pull_ms)}"
            for member, queue, held in idle[:5]
        ),
        "Resume it, or take a dump of its threads and start it again.",
    )


def stuck_queue(evidence: Evidence) -> Finding | None:
    """A member has had messages of a queue for long and finishes none."""
    stuck = []
    for member, queue, held in _held(evidence):
        found = _of(evidence, queue)
        long = held.last_consume_ms > 0 and evidence.now_ms - held.last_consume_ms > STUCK_MS
        if found is not None and found.lag and not found.consumed and held.cached and long:
            stuck.append((member, found, held))
    if not stuck:
        return None
    member, first, held = max(stuck, key=lambda one: one[1].lag)
    share = first.lag / max(1, evidence.lag)
    return Finding(
        "STUCK_QUEUE",
        f"{_text(first.queue)} is stuck: {member.client_id} finishes none of {held.cached:,} messages.",
        (
            f"offset {first.consumer_offset:,} does not move; last handled "
            f"{_ago(evidence, held.last_consume_ms)}",
            f"lag {first.lag:,}, {share:.0%} of the group's",
        ),
        "Look at the message at that offset and at the member's threads; the handler may hang.",
    )


def failing(evidence: Evidence) -> Finding | None:
    """Handlers fail, so messages come again and again, and become dead letters."""
    failed = sum(one.failed_tps for member in evidence.members for one in member.handling.values())
    good = sum(one.ok_tps for member in evidence.members for one in member.handling.values())
    if not failed or failed < good / 10:
        return None
    return Finding(
        "HANDLER_FAILS",
        f"The handler fails for {failed / (failed + good):.0%} of the messages; they are delivered again.",
        (
            f"{failed:.2f} failures/s, {good:.2f} successes/s",
            f"{evidence.retry_lag:,} wait for another try, {evidence.dead_letters:,} are dead letters",
        ),
        "Look for the exception in the members' logs, or at a message of the retry topic.",
    )


def flow_control(evidence: Evidence) -> Finding | None:
    """Members have pulled as much as they may hold, and wait for their handlers."""
    full = [
        (member, queue, held)
        for member, queue, held in _held(evidence)
        if held.cached >= MANY_CACHED or held.cached_mib >= MANY_MIB
    ]
    if not full:
        return None
    return Finding(
        "FLOW_CONTROL",
        f"Members hold as much as they may ({counted(len(full), 'queue')}) and pull no more until their "
        "handlers have caught up.",
        tuple(
            f"{_text(queue)} at {member.client_id}: {held.cached:,} messages, {held.cached_mib} MiB"
            for member, queue, held in full[:5]
        ),
        "Make the handler faster, give it more threads, or add members.",
    )


def slow_handler(evidence: Evidence) -> Finding | None:
    """The handler takes long, and more comes in than the group can finish."""
    times = [
        (one.handler_ms, member, topic)
        for member in evidence.members
        for topic, one in member.handling.items()
        if one.handler_ms >= SLOW_HANDLER_MS and not topic.startswith(RETRY_PREFIX)
    ]
    if not times or not _is_behind(evidence):
        return None
    slowest, member, topic = max(times, key=lambda one: one[0])
    threads = sum(one.threads for one in evidence.members)
    can = (
        f", {counted(threads, 'thread')} finish at most {1000 * threads / slowest:,.0f}/s" if threads else ""
    )
    return Finding(
        "SLOW_HANDLER",
        f"The handler of {topic} takes {slowest:,.0f} ms for a message{can}.",
        (f"slowest: {member.client_id}", _rates(evidence)),
        "Make the handler faster, or add threads or members.",
    )


def more_members_than_queues(evidence: Evidence) -> Finding | None:
    """Some members have no queue, so adding members does not help."""
    answered = [one for one in evidence.members if one.answered and one.subscriptions]
    idle = [one for one in answered if not one.held]
    queues = sum(1 for one in evidence.queues if not one.queue.topic.startswith(RETRY_PREFIX))
    if not idle or not _is_behind(evidence) or len(answered) <= queues:
        return None
    return Finding(
        "MORE_MEMBERS_THAN_QUEUES",
        f"{len(answered)} members share {queues} queues: {len(idle)} of them have nothing to do.",
        tuple(one.client_id for one in idle[:5]),
        "Give the topic more queues: orbitmq admin topic create TOPIC --queues N.",
    )


def queue_without_reader(evidence: Evidence) -> Finding | None:
    """A queue has a backlog, all members report what they read, and none reads it."""
    if not evidence.members or not all(one.answered for one in evidence.members):
        return None
    read = {queue for member in evidence.members for queue in member.held}
    wanted = {topic for member in evidence.members for topic in member.subscriptions}
    free = [one for one in evidence.queues if one.lag and one.queue not in read and one.queue.topic in wanted]
    if not free or not read:
        return None
    return Finding(
        "QUEUE_WITHOUT_READER",
        f"{counted(len(free), 'queue')} of {len(evidence.queues)} is read by no member.",
        tuple(f"{_text(one.queue)}: lag {one.lag:,}" for one in free[:5]),
        "Members that see each other differently share wrongly: check that all use the same name servers and "
        "strategy.",
    )


def filter_drops_all(evidence: Evidence) -> Finding | None:
    """Offsets move or have moved, and the filter lets nothing through to handlers."""
    silent = [
        (member, topic, text)
        for member in evidence.members
        for topic, text in member.subscriptions.items()
        if text not in ("", "*")
        and not topic.startswith(RETRY_PREFIX)
        and any(queue.topic == topic for queue in member.held)
        and not _handled(member, topic)
        and any(one.arrived or one.consumed for one in evidence.queues if one.queue.topic == topic)
    ]
    if not silent:
        return None
    _, topic, text = silent[0]
    return Finding(
        "FILTER_DROPS_ALL",
        f"The subscription `{text}` lets no message of {topic} through: messages come in, none is handled.",
        tuple(f"{member.client_id}: 0 messages in the last minute" for member, _, _ in silent[:5]),
        "Compare it with the tags and properties of messages in the topic.",
    )


def _handled(member: Member, topic: str) -> bool:
    """True if messages of a topic have come to a member; some clients report topics only after that."""
    handling = member.handling.get(topic)
    return handling is not None and bool(handling.ok_tps or handling.failed_tps or handling.pull_tps)


def deleted_before_read(evidence: Evidence) -> Finding | None:
    """Retention has deleted messages that the group had not read."""
    lost = [
        one
        for one in evidence.queues
        if one.min_offset is not None and one.consumer_offset < one.min_offset and one.lag
    ]
    if not lost:
        return None
    count = sum((one.min_offset or 0) - one.consumer_offset for one in lost)
    return Finding(
        "DELETED_BEFORE_READ",
        f"Retention has deleted {count:,} messages that group {evidence.group} had not read.",
        tuple(
            f"{_text(one.queue)}: at {one.consumer_offset:,}, stored from {one.min_offset:,}"
            for one in lost[:5]
        ),
        "Keep messages longer (fileReservedTime); the group goes on with the oldest that is there.",
    )


def catching_up(evidence: Evidence) -> Finding | None:
    """The group finishes more than comes in."""
    consumed, arrived = _moved(evidence)
    if consumed <= arrived or not _is_behind(evidence):
        return None
    left = evidence.lag * evidence.seconds / (consumed - arrived)
    return Finding(
        "CATCHING_UP",
        f"Group {evidence.group} works through its backlog: about {left:,.0f} s at this rate.",
        (_rates(evidence),),
        "Wait, or add members.",
    )


def too_much_comes_in(evidence: Evidence) -> Finding | None:
    """The group works, and at least as much comes in as it finishes."""
    consumed, arrived = _moved(evidence)
    if not consumed or consumed > arrived or not _is_behind(evidence):
        return None
    return Finding(
        "TOO_MUCH_COMES_IN",
        f"Group {evidence.group} works, and does not get closer to the end of its topics.",
        (_rates(evidence),),
        "Add members, up to the number of queues, or threads to them.",
    )


RULES: Sequence[Rule] = (
    unknown_group,
    not_permitted,
    broadcasting,
    disabled,
    broker_gone,
    no_consumer,
    topic_not_readable,
    subscriptions_differ,
    not_subscribed,
    ordered_not_locked,
    paused,
    stuck_queue,
    failing,
    flow_control,
    slow_handler,
    queue_without_reader,
    more_members_than_queues,
    filter_drops_all,
    deleted_before_read,
    catching_up,
    too_much_comes_in,
)


def _none(evidence: Evidence) -> Finding:
    if not _is_behind(evidence):
        return Finding(
            "NOT_BEHIND",
            f"Group {evidence.group} is not behind.",
            (f"lag {evidence.lag:,}", f"{counted(len(evidence.members), 'member')} online"),
            "Nothing has to be done.",
        )
    return Finding(
        "NOT_FOUND",
        f"Group {evidence.group} is behind, and no rule knows why.",
        (f"lag {evidence.lag:,}, {counted(len(evidence.members), 'member')} online", _rates(evidence)),
        "Look at the members' logs.",
    )


def _is_behind(evidence: Evidence) -> bool:
    """A backlog of no more than what comes in within a second is no backlog."""
    _, arrived = _moved(evidence)
    return evidence.lag > SMALL_LAG_SECONDS * arrived / max(evidence.seconds, 1e-9)


def _moved(evidence: Evidence) -> tuple[int, int]:
    return sum(one.consumed for one in evidence.queues), sum(one.arrived for one in evidence.queues)


def _rates(evidence: Evidence) -> str:
    consumed, arrived = (moved / max(evidence.seconds, 1e-9) for moved in _moved(evidence))
    return f"{arrived:,.1f}/s come in, {consumed:,.1f}/s are finished, lag {evidence.lag:,}"


def _lag(evidence: Evidence, topic: str) -> int:
    return sum(one.lag for one in evidence.queues if one.queue.topic == topic)


def _of(evidence: Evidence, queue: MessageQueue) -> QueueEvidence | None:
    return next((one for one in evidence.queues if one.queue == queue), None)


def _held(evidence: Evidence) -> list[tuple[Member, MessageQueue, HeldQueue]]:
    return [(member, queue, held) for member in evidence.members for queue, held in member.held.items()]


def _text(queue: MessageQueue) -> str:
    return f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}"


def _ago(evidence: Evidence, at_ms: int) -> str:
    return f"{max(0, evidence.now_ms - at_ms) // 1000:,} s ago"
