"""Pulls straight from the frames of a read, and the frames that answer them.

Hot: every message that is consumed passes here with some others. A consumer repeats its pull with other
offsets and the same fields otherwise. So the bytes of those fields are the key of a plan: the checks that the
rules made of the first such pull, and the cursor that reads for it. Only a pull without a plan becomes a
request. An answer is put together from its numbers and the records.

A frame that is not in the form that Java, Go and C++ peers write takes the general path, which handles
everything else. Interpreted, all pulls take the general path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.handling.call import HandledFrames, Peer, Wait
from orbitmq.protocol.remoting.command import LANGUAGE_CODES, LANGUAGE_OTHER, Command
from orbitmq.protocol.remoting.header_cy import encode_command
from orbitmq.protocol.requests.pull import COMMITS_OFFSET, PullMessage, PullReply
from orbitmq.store.log.messages import GetStatus

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.send_header import *  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.broker.offset.offsets import OffsetTable
    from orbitmq.broker.stats.counters import BrokerStats
    from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
    from orbitmq.protocol.bodies.topic import TopicConfig
    from orbitmq.store import GetResult, MessageStore, QueueCursor
    from orbitmq.store.queue.filtering import Accept

_NUMBERS = (9001, 9002, 9003, 9004, 9005, 9006, 9007)
"""Stand for the numbers of an answer while its template is made."""
_FOUND = GetStatus.FOUND

MAX_PLANS = 16_384
"""Limit of cached plans, 2 KB each or less: one per queue and group."""
PULLS_AT_ONCE = 64
BYTES_AT_ONCE = 256 << 10
"""Bytes of answers to one read, after which the peer has to accept them before more are written."""


@cython.final
@cython.cclass
class CachedPullPlan:
    """Cached checks and cursor for a repeated pull, which differs from the one before in its offsets alone.

    It is valid until something changes that the checks depend on.
    """

    request = cython.declare(object, visibility="readonly")
    group = cython.declare(object, visibility="readonly")
    topic = cython.declare(object, visibility="readonly")
    wanted = cython.declare(object, visibility="readonly")
    cursor = cython.declare(object, visibility="readonly")
    into = cython.declare(bytearray, visibility="readonly")
    commits = cython.declare(cython.bint, visibility="readonly")
    _changes: object

    def __init__(
        self,
        request: PullMessage,
        group: SubscriptionGroupConfig,
        topic: TopicConfig,
        wanted: Accept,
        cursor: QueueCursor,
        into: bytearray,
        changes: int,
    ) -> None:
        """`into` is the buffer for records of answers, `changes` the number of changes at the look-up."""
        self.request = request
        self.group = group
        self.topic = topic
        self.wanted = wanted
        self.cursor = cursor
        self.into = into
        self.commits = bool(request.sys_flag & COMMITS_OFFSET)
        self._changes = changes


class PullRules(Protocol):
    """Decisions about pulls, and the effects of an answer."""

    plans: dict[bytes, CachedPullPlan]
    """By the connection, whose member has a filter of its own, and the bytes of a header without its
    offsets."""
    store: MessageStore
    offsets: OffsetTable
    stats: BrokerStats

    def changes(self) -> int:
        """Number of changes so far that cached plans depend on."""

    def look_up(self, request: PullMessage, connection_id: int, now: int) -> CachedPullPlan | None:
        """A plan for the pulls of a connection; None if it needs the general path."""

    def suggested(self, group: SubscriptionGroupConfig, result: GetResult) -> int:
        """Id of the member of the broker group that the client should pull from next."""

    def hold(
        self, plan: CachedPullPlan, request: PullMessage, opaque: int, result: GetResult, now: int
    ) -> Wait | None:
        """The wait of a pull that has found nothing; None if it is not held."""


def handle_pulls(rules: PullRules, data: bytes, peer: Peer, now: int) -> HandledFrames | None:
    """Answers or holds the pulls at the start of a read, whole frames; None if there are none."""
    if not cython.compiled:
        return None
    read: Span = span_of(data)
    body: Span
    header: SendHeader
    length: cython.Py_ssize_t
    end: cython.Py_ssize_t = 0
    version: cython.int = 0
    language: bytes = b""
    pulls: _Pulls = _Pulls(rules, peer.connection_id, now)
    while pulls.may_have_more():
        length = scan_frame(read, end, cython.address(header), cython.address(body))
        # Neither an answer nor one-way.
        if not length or header.code != 11 or header.flag & 3 or not pulls.handle(cython.address(header)):
            break
        end += length
        version = header.version
        language = bytes_of(header.language.span)
    if not end:
        return None
    peer.version = version
    peer.language = LANGUAGE_CODES.get(language.decode(), LANGUAGE_OTHER)
    handled: HandledFrames = pulls.result(end)
    return handled


@cython.final
@cython.cclass
class _Pulls:
    """The pulls of a read, and what was found for them so far. Compiled only."""

    _rules: Any
    _plans: dict[bytes, CachedPullPlan]
    _changes: object
    _store: Any
    _offsets: Any
    _connection_id: cython.longlong
    _now: Any
    # The offsets of the pull at hand:
    _queue_offset: cython.longlong
    _commit_offset: cython.longlong
    # Results:
    _answers: list[bytes]
    _answered_bytes: cython.Py_ssize_t
    _held: list[Any]

    def __init__(self, rules: PullRules, connection_id: int, now: int) -> None:
        self._connection_id = connection_id
        self._rules = rules
        self._plans = rules.plans
        self._changes = rules.changes()
        self._store = rules.store
        self._offsets = rules.offsets
        self._now = now
        self._answers = []
        self._held = []

    @cython.cfunc
    @cython.inline
    def may_have_more(self) -> cython.bint:
        """True if one more pull may be handled before the peer has accepted the answers."""
        return len(self._answers) + len(self._held) < PULLS_AT_ONCE and self._answered_bytes < BYTES_AT_ONCE

    @cython.cfunc
    @cython.inline
    def handle(self, header: cython.pointer[SendHeader]) -> cython.bint:
        """Answers or holds a pull; False if it needs the general path."""
        plan: CachedPullPlan | None = self._plan(header)
        if plan is None:
            return False
        if self._offsets.has_resets and self._offsets.has_reset(
            plan.request.consumer_group, plan.request.topic, plan.request.queue_id
        ):
            return False
        result = self._store.copy(plan.cursor, self._queue_offset, plan.into)
        if result is None:
            return False
        if result.status is not _FOUND:
            return self._hold(plan, header, result)
        if plan.commits:
            request = plan.request
            self._offsets.commit(
                request.consumer_group, request.topic, request.queue_id, self._commit_offset, self._now
            )
        self._answers.append(answer(self._rules, plan, result, header.opaque))
        self._answered_bytes += result.size_bytes
        return True

    @cython.cfunc
    @cython.inline
    def _plan(self, header: cython.pointer[SendHeader]) -> CachedPullPlan | None:
        """The plan of a pull, made if there is none that is valid, and its offsets; None if it needs the
        general path.
        """
        key: bytes | None = _key(
            header,
            self._connection_id,
            cython.address(self._queue_offset),
            cython.address(self._commit_offset),
        )
        if key is None:
            return None
        plan: CachedPullPlan | None = self._plans.get(key)
        if plan is None or plan._changes != self._changes:
            plan = self._new_plan(key, header)
        return plan

    @cython.cfunc
    def _new_plan(self, key: bytes, header: cython.pointer[SendHeader]) -> CachedPullPlan | None:
        """Has the rules check a pull, and keeps its plan; None if it needs the general path."""
        known: dict[bytes, CachedPullPlan] = self._plans
        request = _request(header)
        plan: CachedPullPlan | None = None
        if request is not None:
            plan = self._rules.look_up(request, self._connection_id, self._now)
        if plan is None:
            return None
        if key not in known and len(known) >= MAX_PLANS:
            del known[next(iter(known))]
        known[key] = plan
        return plan

    @cython.cfunc
    def _hold(self, plan: CachedPullPlan, header: cython.pointer[SendHeader], result: Any) -> cython.bint:
        """Holds a pull that has found nothing; False if it is not held."""
        request = _request(header)
        if request is None:
            return False
        wait = self._rules.hold(plan, request, header.opaque, result, self._now)
        if wait is None:
            return False
        self._held.append((Command(PullMessage.CODE, header.opaque), wait))
        return True

    @cython.cfunc
    def result(self, end: cython.Py_ssize_t) -> Any:
        """The results of the first `end` bytes of the read."""
        answers: list[bytes] = self._answers
        whole = answers[0] if len(answers) == 1 else b"".join(answers)
        by_code = {PullMessage.CODE: (len(answers), 0)}
        return HandledFrames(end, whole, len(answers), by_code, results=self._held, concerns_others=False)


def answer(rules: PullRules, plan: CachedPullPlan, result: GetResult, opaque: int) -> bytes:
    """The frame with what was found, whose records are in the memory that the pull has for them.

    It is noted that they were given out.
    """
    request = plan.request
    group: str = request.consumer_group
    topic: str = request.topic
    queue_id: Any = request.queue_id
    next_offset: Any = result.next_offset
    size_bytes: cython.Py_ssize_t = result.size_bytes
    frame: bytes
    rules.offsets.remember_pull(group, topic, queue_id, next_offset)
    rules.stats.pulled(group, topic, queue_id, result.count, size_bytes)
    frame = _FOUND_ANSWER.frame(
        rules.suggested(plan.group, result),
        next_offset,
        result.min_offset,
        result.max_offset,
        plan.topic.topic_sys_flag,
        plan.group.group_sys_flag,
        opaque,
        plan.into,
        size_bytes,
    )
    return frame


@cython.cfunc
def _key(
    header: cython.pointer[SendHeader],
    connection_id: cython.longlong,
    queue_offset: cython.pointer[cython.longlong],
    commit_offset: cython.pointer[cython.longlong],
) -> bytes | None:
    """The connection, and all fields of a pull that its answer depends on but its offsets, which are given as
    numbers; None if those are none, or the fields too long. Compiled only.
    """
    memory = cython.declare(cython.uchar[1024])
    key: Writer = writer_over(memory, cython.sizeof(memory))
    queue_offsets: cython.int = 0
    commit_offsets: cython.int = 0
    i: cython.int
    name: Span
    value: Span
    put_decimal(cython.address(key), connection_id)
    put_u8(cython.address(key), 0)
    for i in range(header.named):
        name = header.names[i].span
        value = header.values[i].span
        if is_literal(name, b"queueOffset"):
            queue_offsets += to_number(value, queue_offset)
        elif is_literal(name, b"commitOffset"):
            commit_offsets += to_number(value, commit_offset)
        elif not is_literal(name, b"Signature"):  # another one each time; who checks it asks before
            put_span(cython.address(key), name)
            put_u8(cython.address(key), 0)
            put_span(cython.address(key), value)
            put_u8(cython.address(key), 0)
    if key.overflow or queue_offsets != 1 or commit_offsets != 1:
        return None
    whole: bytes = bytes_of(span_written(cython.address(key)))
    return whole


@cython.cfunc
def _request(header: cython.pointer[SendHeader]) -> PullMessage | None:
    """The request that a header is, None if it is unusual. Compiled only."""
    text: Span
    queue_id: cython.longlong = 0
    queue_offset: cython.longlong = 0
    most: cython.longlong = 0
    sys_flag: cython.longlong = 0
    commit_offset: cython.longlong = 0
    suspend_ms: cython.longlong = 0
    sub_version: cython.longlong = 0
    most_bytes: cython.longlong = 0
    has_most_bytes: cython.bint = named(header, b"maxMsgBytes", cython.address(text))
    if (
        not _number(header, b"queueId", 31, cython.address(queue_id))
        or not _number(header, b"queueOffset", 63, cython.address(queue_offset))
        or not _number(header, b"maxMsgNums", 31, cython.address(most))
        or not _number(header, b"sysFlag", 31, cython.address(sys_flag))
        or not _number(header, b"commitOffset", 63, cython.address(commit_offset))
        or not _number(header, b"suspendTimeoutMillis", 63, cython.address(suspend_ms))
        or not _number(header, b"subVersion", 63, cython.address(sub_version))
        or (has_most_bytes and not _number(header, b"maxMsgBytes", 31, cython.address(most_bytes)))
        or _is_rare(header)
    ):
        return None
    bulk = _string(header, b"orbitmqBulk")
    if bulk is not None and bulk != "true":
        return None
    group = _string(header, b"consumerGroup")
    topic = _string(header, b"topic")
    if group is None or topic is None:
        return None
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        max_msg_nums=most,
        sys_flag=sys_flag,
        commit_offset=commit_offset,
        suspend_timeout_millis=suspend_ms,
        sub_version=sub_version,
        subscription=_string(header, b"subscription"),
        expression_type=_string(header, b"expressionType"),
        max_msg_bytes=most_bytes if has_most_bytes else None,
        broker_name=_string(header, b"bname"),
        bulk=True if bulk else None,
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_rare(header: cython.pointer[SendHeader]) -> cython.bint:
    """True for the pull of a proxy, of a static topic or of a lite topic. Compiled only."""
    text: Span
    return (
        named(header, b"requestSource", cython.address(text))
        or named(header, b"proxyFrowardClientId", cython.address(text))
        or named(header, b"liteTopic", cython.address(text))
    )


@cython.cfunc
@cython.exceptval(check=False)
def _number(
    header: cython.pointer[SendHeader],
    literal: cython.pointer[cython.const[cython.char]],
    bits: cython.int,
    number: cython.pointer[cython.longlong],
) -> cython.bint:
    """Reads a field that is a number and fits; False for anything else. Compiled only."""
    text: Span
    if not named(header, literal, cython.address(text)) or not to_number(text, number):
        return False
    return bits == 63 or -0x80000000 <= number[0] <= 0x7FFFFFFF


@cython.cfunc
def _string(header: cython.pointer[SendHeader], literal: cython.pointer[cython.const[cython.char]]) -> Any:
    """A field's text; None without it. Compiled only."""
    text: Span
    if not named(header, literal, cython.address(text)):
        return None
    return text_of(text)


@cython.final
@cython.cclass
class AnswerTemplate:
    """The frame that answers a pull: all but seven numbers and the records is always the same."""

    _between: tuple[bytes, ...]

    def __init__(self, remark: str) -> None:
        suggest, next_offset, low, end, topic_flag, group_flag, opaque = _NUMBERS
        reply = PullReply(
            suggest_which_broker_id=suggest,
            next_begin_offset=next_offset,
            min_offset=low,
            max_offset=end,
            topic_sys_flag=topic_flag,
            group_sys_flag=group_flag,
            remark=remark,
        )
        rest = encode_command(reply.to_command(opaque))[8:]
        between: list[bytes] = []
        for number in _NUMBERS:
            before, _, rest = rest.partition(b"%d" % number)
            between.append(before)
        self._between = (*between, rest)

    @cython.ccall
    def frame(
        self,
        suggest: cython.longlong,
        next_offset: cython.longlong,
        low: cython.longlong,
        end: cython.longlong,
        topic_flag: cython.longlong,
        group_flag: cython.longlong,
        opaque: cython.longlong,
        records: bytearray,
        size: cython.Py_ssize_t,
    ) -> bytes:
        """The whole frame, with the first `size` bytes of `records`."""
        if not cython.compiled:
            texts = [b"%d" % n for n in (suggest, next_offset, low, end, topic_flag, group_flag, opaque)]
            pairs = zip(self._between, [*texts, b""], strict=True)
            header = b"".join([part for pair in pairs for part in pair])
            lengths = (len(header) + 4 + size).to_bytes(4, "big") + len(header).to_bytes(4, "big")
            return b"".join((lengths, header, memoryview(records)[:size]))
        numbers = cython.declare(cython.longlong[7])
        numbers[0] = suggest
        numbers[1] = next_offset
        numbers[2] = low
        numbers[3] = end
        numbers[4] = topic_flag
        numbers[5] = group_flag
        numbers[6] = opaque
        memory = cython.declare(cython.uchar[1024])
        head: Writer = writer_over(memory, cython.sizeof(memory))
        head_text: Span
        found: Span = part_of(span_of_array(records), 0, size)
        i: cython.Py_ssize_t = 0
        between: tuple[bytes, ...] = self._between
        skip(cython.address(head), 8)
        for i in range(8):
            put_bytes(cython.address(head), between[i])
            if i < 7:
                put_decimal(cython.address(head), numbers[i])
        head_text = span_written(cython.address(head))
        set_u32(cython.address(head), 0, cython.cast(cython.uint, head_text.size - 4 + size))
        set_u32(cython.address(head), 4, cython.cast(cython.uint, head_text.size - 8))
        made: bytes = new_bytes(head_text.size + size)
        out: Writer = writer_of_new(made)
        put_span(cython.address(out), head_text)
        put_span(cython.address(out), found)
        if head.overflow or out.overflow or left_of(cython.address(out)):
            raise SystemError("an answer was measured smaller than it is")
        return made


_FOUND_ANSWER: AnswerTemplate = AnswerTemplate(_FOUND.name)
