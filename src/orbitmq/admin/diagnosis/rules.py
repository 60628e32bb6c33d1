"""The rules: each gives a finding for the evidence, or None. `diagnose` tries them, the surest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from shlex import quote

from orbitmq.admin.diagnosis.evidence import Evidence, HeldQueue, Member, QueueEvidence, filters_of
from orbitmq.admin.diagnosis.phrases import Phrase, members, phrase, queues
from orbitmq.protocol.bodies.heartbeat import FilterOfMembers
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import RETRY_PREFIX

SMALL_LAG_SECONDS = 1.0
STALE_MS = 30_000
"""A reader that has not pulled for so long does not pull: held pulls return after 15 s at most."""
STUCK_MS = 60_000
"""A queue whose messages have been with a member for so long, with none finished, is stuck."""
RECENT_MS = 300_000
"""A member whose event loop was blocked within this time counts as one that is blocked at times."""
MANY_CACHED, MANY_MIB = 1000, 100
"""Clients stop pulling a queue that holds so much, unless they are configured with other limits."""
SLOW_HANDLER_MS = 100.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause."""

    cause: str
    """Stable name, for programs."""
    sentence: Phrase
    evidence: tuple[Phrase, ...]
    advice: Phrase


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
        phrase("No broker knows a group {group}.", group=evidence.group),
        (phrase("Names that are like it: {names}.", names=_names(evidence.near)),) if evidence.near else (),
        phrase("Check the name; `orbitmq admin group list` lists groups."),
    )


def not_permitted(evidence: Evidence) -> Finding | None:
    """A broker does not permit to look at it, or at the group."""
    if not evidence.forbidden:
        return None
    return Finding(
        "NOT_PERMITTED",
        phrase("Broker {names} refuses: this user may not look at it.", names=_names(evidence.forbidden)),
        tuple(phrase("{error}", error=error) for error in evidence.forbidden.values()),
        phrase(
            "Sign as a user that may (--access-key), or look at the rules of this one: orbitmq admin acl "
            "list."
        ),
    )


def broker_refuses(evidence: Evidence) -> Finding | None:
    """A broker answers with an error."""
    if not evidence.brokers_refusing:
        return None
    return Finding(
        "BROKER_REFUSES",
        phrase(
            "Broker {names} answers with an error: nothing is known of its queues.",
            names=_names(evidence.brokers_refusing),
        ),
        tuple(phrase("{error}", error=error) for error in evidence.brokers_refusing.values()),
        phrase("Look at its log."),
    )


def broker_blind(evidence: Evidence) -> Finding | None:
    """No controller answers a master: it takes no locks, no resets and no changes."""
    if not evidence.brokers_blind:
        return None
    return Finding(
        "NO_CONTROLLER",
        phrase(
            "No controller answers master {names}: messages go on, and it refuses locks of ordered members, "
            "resets and new topics.",
            names=_names(evidence.brokers_blind),
        ),
        tuple(
            phrase("for {seconds} s", seconds=_seconds_since(evidence, since))
            for since in evidence.brokers_blind.values()
        ),
        phrase("Start the controllers, or their consensus store, again."),
    )


def broadcasting(evidence: Evidence) -> Finding | None:
    """Members keep offsets themselves, so brokers know no progress."""
    if not evidence.broadcasting:
        return None
    return Finding(
        "BROADCASTING",
        phrase(
            "Group {group} broadcasts: each member keeps its own offsets, and brokers know no lag.",
            group=evidence.group,
        ),
        (phrase("{members} online", members=members(len(evidence.members))),),
        phrase("Measure progress in the members."),
    )


def disabled(evidence: Evidence) -> Finding | None:
    """The group's settings forbid to consume."""
    if evidence.enabled:
        return None
    return Finding(
        "GROUP_DISABLED",
        phrase("Group {group} may not consume: its setting consumeEnable is off.", group=evidence.group),
        (phrase("lag {lag}", lag=evidence.lag),),
        phrase("orbitmq admin group create {group} --enable", group=quote(evidence.group)),
    )


def broker_gone(evidence: Evidence) -> Finding | None:
    """A broker does not answer, so its queues cannot be read."""
    if not evidence.brokers_gone:
        return None
    return Finding(
        "BROKER_GONE",
        phrase(
            "Broker {names} does not answer: its queues cannot be read.", names=_names(evidence.brokers_gone)
        ),
        tuple(phrase("{error}", error=error) for error in evidence.brokers_gone.values()),
        phrase("Start it, or look at its log."),
    )


def no_consumer(evidence: Evidence) -> Finding | None:
    """Messages wait, and no client is there."""
    if evidence.members or not evidence.lag:
        return None
    return Finding(
        "NO_CONSUMER",
        phrase("No consumer of group {group} is connected.", group=evidence.group),
        (phrase("lag {lag}, {members} online", lag=evidence.lag, members=members(0)),),
        phrase("Start its consumers, with this group and these name servers."),
    )


def topic_not_readable(evidence: Evidence) -> Finding | None:
    """A topic's permission forbids to read it."""
    topics = sorted(evidence.unreadable & {one.queue.topic for one in evidence.queues if one.lag})
    if not topics:
        return None
    return Finding(
        "TOPIC_NOT_READABLE",
        phrase("Topic {topics} may not be read: its permission lacks 4 (read).", topics=", ".join(topics)),
        _lags(evidence, topics),
        phrase("orbitmq admin topic perm {topic} 6", topic=quote(topics[0])),
    )


def subscriptions_differ(evidence: Evidence) -> Finding | None:
    """Members of one group want different messages, so some are read by members that drop them."""
    differing = evidence.filters or filters_of(evidence.members)
    if not differing:
        return None
    rows = [(topic, list(filters)) for topic, filters in groupby(differing, key=lambda one: one.topic)]
    sentence = phrase(
        "Members of group {group} read by different filters, each the queues that it owns: what its filter "
        "passes over is lost to the group.",
        group=evidence.group,
    )
    if (stray := _stray(rows)) is not None:
        topic, client, own, others = stray
        sentence = phrase(
            "{client} reads {topic} by `{own}`, and the others of group {group} by `{others}`: what its "
            "filter passes over in the queues that it owns is lost to the group.",
            client=client, topic=topic, own=own, others=others, group=evidence.group,
        )  # fmt: skip
    return Finding(
        "SUBSCRIPTIONS_DIFFER",
        sentence,
        tuple(
            phrase("{topic}: {filters}", topic=topic, filters=", ".join(map(str, filters)))
            for topic, filters in rows
        ),
        phrase("Give all members one filter, or a group each."),
    )


def _stray(rows: list[tuple[str, list[FilterOfMembers]]]) -> tuple[str, str, str, str] | None:
    """The one member whose filter differs from that of all others, who are two at least: topic, client, its
    filter, theirs.
    """
    for topic, filters in rows:
        if len(filters) == 2:
            own, others = sorted(filters, key=lambda one: len(one.client_ids))
            if len(own.client_ids) == 1 and len(others.client_ids) > 1:
                return topic, own.client_ids[0], own.expression, others.expression
    return None


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
        phrase(
            "No member of group {group} subscribes to {topics} any more.",
            group=evidence.group,
            topics=", ".join(topics),
        ),
        _lags(evidence, topics),
        phrase(
            "Subscribe again, or skip what waits: orbitmq admin group reset-offset {group} {topic} --to "
            "latest.",
            group=quote(evidence.group),
            topic=quote(topics[0]),
        ),
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
        phrase(
            "{queues} of ordered members cannot be read: the broker still has the lock of another client.",
            queues=queues(len(waiting)),
        ),
        tuple(
            phrase("{queue} waits at {client}", queue=_text(queue), client=client)
            if client
            else phrase("{queue} waits", queue=_text(queue))
            for client, queue in waiting[:5]
        ),
        phrase("A lock of a dead client falls after 60 s; a live one has to give the queue back."),
    )


def _never_locked(evidence: Evidence) -> list[tuple[str, MessageQueue]]:
    """Queues without a reader in a group of ordered members: clients take a queue with its lock alone."""
    if not evidence.members or not all(one.answered and one.ordered for one in evidence.members):
        return []
    held = {queue for member in evidence.members for queue in member.held}
    wanted = {topic for member in evidence.members for topic in member.subscriptions}
    return [
        ("", one.queue)
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
        phrase(
            "Queues are held and not pulled by {members} of group {group}: paused, or the pulling hangs.",
            members=members(len(clients)),
            group=evidence.group,
        ),
        tuple(
            phrase(
                "{queue} at {client}: last pull {seconds} s ago",
                queue=_text(queue),
                client=member.client_id,
                seconds=_seconds_since(evidence, held.last_pull_ms),
            )
            for member, queue, held in idle[:5]
        ),
        phrase("Resume it, or take a dump of its threads and start it again."),
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
        phrase(
            "{queue} is stuck: {client} finishes none of {count} messages.",
            queue=_text(first.queue),
            client=member.client_id,
            count=held.cached,
        ),
        (
            phrase(
                "offset {offset} does not move; last handled {seconds} s ago",
                offset=first.consumer_offset,
                seconds=_seconds_since(evidence, held.last_consume_ms),
            ),
            phrase("lag {lag}, {share} of the group's", lag=first.lag, share=f"{share:.0%}"),
        ),
        phrase("Look at the message at that offset and at the member's threads; the handler may hang."),
    )


def loop_blocked(evidence: Evidence) -> Finding | None:
    """Code of a member has blocked its event loop, in which it does everything else, a short while ago."""
    blocked = [
        (member, blocks)
        for member in evidence.members
        if (blocks := member.blocks) is not None and evidence.now_ms - blocks.last_ms <= RECENT_MS
    ]
    if not blocked:
        return None
    member, worst = max(blocked, key=lambda one: one[1].longest_ms)
    return Finding(
        "LOOP_BLOCKED",
        phrase(
            "Code of {client} blocks its event loop, for {seconds} s at a time: it handles and pulls nothing "
            "meanwhile.",
            client=member.client_id,
            seconds=f"{worst.longest_ms / 1000:,.1f}",
        ),
        tuple(
            phrase(
                "{client}: {times} times, last {seconds} s ago at {place}",
                client=one.client_id,
                times=blocks.times,
                seconds=_seconds_since(evidence, blocks.last_ms),
                place=blocks.at,
            )
            for one, blocks in blocked[:5]
        ),
        phrase("Make the handler a plain function, which runs in a thread, or await what it waits for."),
    )


def member_silent(evidence: Evidence) -> Finding | None:
    """A member does not report, and nothing is consumed."""
    silent = [one.client_id for one in evidence.members if not one.answered]
    if not silent or not _is_behind(evidence) or _moved(evidence)[0]:
        return None
    return Finding(
        "MEMBER_SILENT",
        phrase(
            "No answer comes from {members} of group {group}, and nothing is consumed.",
            members=members(len(silent)),
            group=evidence.group,
        ),
        tuple(phrase("{client} does not answer", client=one) for one in silent[:5]),
        phrase("Look at its process: it may hang, or its code blocks its event loop (see its log)."),
    )


def failing(evidence: Evidence) -> Finding | None:
    """Handlers fail, so messages come again and again, and become dead letters."""
    failed = sum(one.failed_tps for member in evidence.members for one in member.handling.values())
    good = sum(one.ok_tps for member in evidence.members for one in member.handling.values())
    if not failed or failed < good / 10:
        return None
    return Finding(
        "HANDLER_FAILS",
        phrase(
            "The handler fails for {share} of the messages; they are delivered again.",
            share=f"{failed / (failed + good):.0%}",
        ),
        (
            phrase("{failed} failures/s, {good} successes/s", failed=f"{failed:.2f}", good=f"{good:.2f}"),
            _retries(evidence),
        ),
        phrase("Look for the exception in the members' logs, or at a message of the retry topic."),
    )


def retries_grow(evidence: Evidence) -> Finding | None:
    """More messages come back than are tried again, or they become dead letters between the looks."""
    retried = [one for one in evidence.queues if one.queue.topic.startswith(RETRY_PREFIX)]
    arrived, consumed = (sum(one.arrived for one in retried), sum(one.consumed for one in retried))
    if evidence.new_dead_letters:
        sentence = phrase("Messages of group {group} become dead letters.", group=evidence.group)
    elif evidence.retry_lag and arrived > max(1, consumed):
        sentence = phrase(
            "Messages of group {group} come back faster than they are tried again: its retries grow.",
            group=evidence.group,
        )
    else:
        return None
    return Finding(
        "RETRIES_GROW",
        sentence,
        (
            phrase(
                "{arrived} came back and {consumed} were tried again within {seconds} s; {dead} became dead "
                "letters",
                arrived=arrived,
                consumed=consumed,
                seconds=f"{evidence.seconds:.1f}",
                dead=evidence.new_dead_letters,
            ),
            _retries(evidence),
        ),
        phrase("Look for the exception in the members' logs, or at a message of the retry topic."),
    )


def _retries(evidence: Evidence) -> Phrase:
    return phrase(
        "{waiting} wait for another try, {dead} are dead letters",
        waiting=evidence.retry_lag,
        dead=evidence.dead_letters,
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
        phrase(
            "Members hold as much as they may ({queues}) and pull no more until their handlers have caught "
            "up.",
            queues=queues(len(full)),
        ),
        tuple(
            phrase(
                "{queue} at {client}: {count} messages, {size} MiB",
                queue=_text(queue),
                client=member.client_id,
                count=held.cached,
                size=held.cached_mib,
            )
            for member, queue, held in full[:5]
        ),
        phrase("Make the handler faster, give it more threads, or add members."),
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
    takes = phrase(
        "The handler of {topic} takes {time} ms for a message.", topic=topic, time=f"{slowest:,.0f}"
    )
    if threads:
        takes = phrase(
            "The handler of {topic} takes {time} ms for a message; with {threads} at a time the group "
            "finishes at most {rate}/s.",
            topic=topic,
            time=f"{slowest:,.0f}",
            threads=threads,
            rate=f"{1000 * threads / slowest:,.0f}",
        )
    return Finding(
        "SLOW_HANDLER",
        takes,
        (phrase("slowest: {client}", client=member.client_id), _rates(evidence)),
        phrase("Make the handler faster, or add threads or members."),
    )


def more_members_than_queues(evidence: Evidence) -> Finding | None:
    """Some members have no queue, so adding members does not help."""
    answered = [one for one in evidence.members if one.answered and one.subscriptions]
    idle = [one for one in answered if not one.held]
    shared = sum(1 for one in evidence.queues if not one.queue.topic.startswith(RETRY_PREFIX))
    if not idle or not _is_behind(evidence) or len(answered) <= shared:
        return None
    return Finding(
        "MORE_MEMBERS_THAN_QUEUES",
        phrase(
            "{members} share {queues}: {idle} of them have nothing to do.",
            members=members(len(answered)),
            queues=queues(shared),
            idle=len(idle),
        ),
        tuple(phrase("{client} has no queue", client=one.client_id) for one in idle[:5]),
        phrase("Give the topic more queues: orbitmq admin topic create TOPIC --queues N."),
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
        phrase("No member reads {count} of {queues}.", count=len(free), queues=queues(len(evidence.queues))),
        tuple(phrase("{queue}: lag {lag}", queue=_text(one.queue), lag=one.lag) for one in free[:5]),
        phrase(
            "Members that see each other differently share wrongly: check that all use the same name servers "
            "and strategy."
        ),
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
        phrase(
            "The subscription `{filter}` lets no message of {topic} through: messages come in, none is "
            "handled.",
            filter=text,
            topic=topic,
        ),
        tuple(
            phrase("{client}: no message in the last minute", client=member.client_id)
            for member, _, _ in silent[:5]
        ),
        phrase("Compare it with the tags and properties of messages in the topic."),
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
        phrase(
            "Retention has deleted {count} messages that group {group} had not read.",
            count=count,
            group=evidence.group,
        ),
        tuple(
            phrase(
                "{queue}: at {offset}, stored from {first}",
                queue=_text(one.queue),
                offset=one.consumer_offset,
                first=one.min_offset or 0,
            )
            for one in lost[:5]
        ),
        phrase("Keep messages longer (fileReservedTime); the group goes on with the oldest that is there."),
    )


def catching_up(evidence: Evidence) -> Finding | None:
    """The group finishes more than comes in."""
    consumed, arrived = _moved(evidence)
    if consumed <= arrived or not _is_behind(evidence):
        return None
    left = evidence.lag * evidence.seconds / (consumed - arrived)
    return Finding(
        "CATCHING_UP",
        phrase(
            "Group {group} works through its backlog: about {seconds} s at this rate.",
            group=evidence.group,
            seconds=f"{left:,.0f}",
        ),
        (_rates(evidence),),
        phrase("Wait, or add members."),
    )


def too_much_comes_in(evidence: Evidence) -> Finding | None:
    """The group works, and at least as much comes in as it finishes."""
    consumed, arrived = _moved(evidence)
    if not consumed or consumed > arrived or not _is_behind(evidence):
        return None
    return Finding(
        "TOO_MUCH_COMES_IN",
        phrase(
            "Group {group} works, and does not get closer to the end of its topics.", group=evidence.group
        ),
        (_rates(evidence),),
        phrase("Add members, up to the number of queues, or threads to them."),
    )


RULES: Sequence[Rule] = (
    unknown_group,
    not_permitted,
    broadcasting,
    disabled,
    broker_gone,
    broker_refuses,
    broker_blind,
    no_consumer,
    topic_not_readable,
    subscriptions_differ,
    not_subscribed,
    ordered_not_locked,
    paused,
    loop_blocked,
    stuck_queue,
    failing,
    retries_grow,
    flow_control,
    slow_handler,
    queue_without_reader,
    more_members_than_queues,
    filter_drops_all,
    deleted_before_read,
    member_silent,
    catching_up,
    too_much_comes_in,
)


def _none(evidence: Evidence) -> Finding:
    state = phrase("lag {lag}, {members} online", lag=evidence.lag, members=members(len(evidence.members)))
    if not _is_behind(evidence):
        return Finding(
            "NOT_BEHIND",
            phrase("Group {group} is not behind.", group=evidence.group),
            (state,),
            phrase("Nothing has to be done."),
        )
    return Finding(
        "NOT_FOUND",
        phrase("Group {group} is behind, and no rule knows why.", group=evidence.group),
        (state, _rates(evidence)),
        phrase("Look at the members' logs."),
    )


def _is_behind(evidence: Evidence) -> bool:
    """A backlog of no more than what comes in within a second is no backlog."""
    _, arrived = _moved(evidence)
    return evidence.lag > SMALL_LAG_SECONDS * arrived / max(evidence.seconds, 1e-9)


def _moved(evidence: Evidence) -> tuple[int, int]:
    return sum(one.consumed for one in evidence.queues), sum(one.arrived for one in evidence.queues)


def _rates(evidence: Evidence) -> Phrase:
    consumed, arrived = (moved / max(evidence.seconds, 1e-9) for moved in _moved(evidence))
    return phrase(
        "{arrived}/s come in, {consumed}/s are finished, lag {lag}",
        arrived=f"{arrived:,.1f}",
        consumed=f"{consumed:,.1f}",
        lag=evidence.lag,
    )


def _lags(evidence: Evidence, topics: Sequence[str]) -> tuple[Phrase, ...]:
    return tuple(
        phrase(
            "{topic}: lag {lag}",
            topic=topic,
            lag=sum(one.lag for one in evidence.queues if one.queue.topic == topic),
        )
        for topic in topics
    )


def _of(evidence: Evidence, queue: MessageQueue) -> QueueEvidence | None:
    return next((one for one in evidence.queues if one.queue == queue), None)


def _held(evidence: Evidence) -> list[tuple[Member, MessageQueue, HeldQueue]]:
    return [(member, queue, held) for member in evidence.members for queue, held in member.held.items()]


def _names(brokers: Iterable[str]) -> str:
    return ", ".join(sorted(brokers))


def _text(queue: MessageQueue) -> Phrase:
    return phrase(
        "queue {number} of {topic} on {broker}",
        number=str(queue.queue_id),
        topic=queue.topic,
        broker=queue.broker_name,
    )


def _seconds_since(evidence: Evidence, at_ms: int) -> int:
    return max(0, evidence.now_ms - at_ms) // 1000
