"""Pulls straight from the frames of a read, and the frames that answer them.

Hot: every message that is consumed passes here with some others. A header is read to a request without a dict
of its fields, and an answer is put together from its numbers and the records. What is not written as Java, Go
and C++ peers write it goes the ordinary way, which decides everything that this one does not. Interpreted,
all pulls go that way.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore"
# ruff: noqa: F821
# (The C structures are names that only the compiler knows.)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.call import Peer, Taken, Wait
from orbitmq.protocol.command import LANGUAGE_CODES, LANGUAGE_OTHER, Command
from orbitmq.protocol.header_cy import encode_command
from orbitmq.protocol.requests.pull import COMMITS_OFFSET, PullMessage, PullReply
from orbitmq.store.messages import GetStatus

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING  # type: ignore[import-not-found]
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8  # type: ignore[import-not-found]
    from cython.cimports.libc.string import memcpy  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.big_endian import get_int, put_int  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.decimal import put_decimal  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        Text,
        is_text,
        named,
        scan_send,
        to_number,
    )

if TYPE_CHECKING:
    from orbitmq.broker.offsets import OffsetTable
    from orbitmq.broker.stats import BrokerStats
    from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
    from orbitmq.protocol.bodies.topic import TopicConfig
    from orbitmq.store import GetResult, MessageStore, QueueCursor
    from orbitmq.store.filtering import Accept

_NUMBERS = (9001, 9002, 9003, 9004, 9005, 9006, 9007)
"""Stand for the numbers of an answer while its template is made."""
_FOUND = GetStatus.FOUND

MAX_STANDING = 16_384
"""Standing pulls that are kept, 2 KB each or less: of so many queues with their groups."""
PULLS_AT_ONCE = 64
BYTES_AT_ONCE = 256 << 10
"""So much of one read is answered at once; then it is looked whether the peer takes its answers."""


@cython.final
@cython.cclass
class Standing:
    """What need not be found out again of a pull that only has other offsets than one before: what it asks
    for, whether it may, and where it reads. It holds as long as nothing has changed on which that depends.
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
        """`into` is where the records of its answers are put together, `changes` what there were of them when
        it was looked up.
        """
        self.request = request
        self.group = group
        self.topic = topic
        self.wanted = wanted
        self.cursor = cursor
        self.into = into
        self.commits = bool(request.sys_flag & COMMITS_OFFSET)
        self._changes = changes


class PullRules(Protocol):
    """Who decides about pulls, and what an answer leaves behind."""

    standing: dict[bytes, Standing]
    """By all that a header says but its offsets."""
    store: MessageStore
    offsets: OffsetTable
    stats: BrokerStats

    def changes(self) -> int:
        """How often something has changed that a standing pull depends on."""

    def look_up(self, request: PullMessage, now: int) -> Standing | None:
        """What stands of a pull; None if it is none of the usual ones."""

    def suggested(self, group: SubscriptionGroupConfig, result: GetResult) -> int:
        """Which member of the broker group the client should go on with."""

    def hold(
        self, standing: Standing, request: PullMessage, opaque: int, result: GetResult, now: int
    ) -> Wait | None:
        """What a pull waits for that has found nothing; None if it is not held."""


def take_pulls(rules: PullRules, data: bytes, peer: Peer, now: int) -> Taken | None:
    """Answers or holds the pulls at the start of a read, whole frames; None if there are none."""
    if not cython.compiled:
        return None
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(data)
    start: cython.pointer[cython.const[cython.uchar]] = cython.cast(
        cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(data)
    )
    header: SendHeader
    length: cython.Py_ssize_t
    end: cython.Py_ssize_t = 0
    answered_bytes: cython.Py_ssize_t = 0
    queue_offset: cython.longlong = 0
    commit_offset: cython.longlong = 0
    version: cython.int = 0
    language: bytes = b""
    standing: Standing | None
    known: dict[bytes, Standing] = rules.standing
    store: Any = rules.store
    offsets: Any = rules.offsets
    changes: object = rules.changes()
    answers: list[bytes] = []
    held: list[tuple[Command, Wait]] = []
    request: PullMessage | None
    while len(answers) + len(held) < PULLS_AT_ONCE and answered_bytes < BYTES_AT_ONCE:
        length = _scan_pull(start + end, size - end, cython.address(header))
        if not length:
            break
        key = _key(cython.address(header), cython.address(queue_offset), cython.address(commit_offset))
        if key is None:
            break
        standing = known.get(key)
        if standing is None or standing._changes != changes:
            request = _request(cython.address(header))
            if request is None:
                break
            standing = rules.look_up(request, now)
            if standing is None:
                break
            if key not in known and len(known) >= MAX_STANDING:
                del known[next(iter(known))]
            known[key] = standing
        if offsets.has_resets:
            break
        result = store.copy(standing.cursor, queue_offset, standing.into)
        if result is None:
            break
        if result.status is _FOUND:
            if standing.commits:
                offsets.commit(
                    standing.request.consumer_group,
                    standing.request.topic,
                    standing.request.queue_id,
                    commit_offset,
                    now,
                )
            answers.append(answer(rules, standing, result, header.opaque))
            answered_bytes += result.size_bytes
        else:
            request = _request(cython.address(header))
            wait = None if request is None else rules.hold(standing, request, header.opaque, result, now)
            if wait is None:
                break
            held.append((Command(PullMessage.CODE, header.opaque), wait))
        end += length
        version = header.version
        language = header.language.at[: header.language.size]
    if not end:
        return None
    peer.version = version
    peer.language = LANGUAGE_CODES.get(language.decode(), LANGUAGE_OTHER)
    whole = answers[0] if len(answers) == 1 else b"".join(answers)
    by_code = {PullMessage.CODE: (len(answers), 0)}
    return Taken(end, whole, len(answers), by_code, results=held, concerns_others=False)


def answer(rules: PullRules, standing: Standing, result: GetResult, opaque: int) -> bytes:
    """The frame with what was found, whose records are in the memory that the pull has for them.

    It is noted that they were given out.
    """
    request = standing.request
    group: str = request.consumer_group
    topic: str = request.topic
    queue_id: Any = request.queue_id
    next_offset: Any = result.next_offset
    size_bytes: cython.Py_ssize_t = result.size_bytes
    frame: bytes
    rules.offsets.remember_pull(group, topic, queue_id, next_offset)
    rules.stats.pulled(group, topic, queue_id, result.count, size_bytes)
    frame = _FOUND_ANSWER.frame(
        rules.suggested(standing.group, result),
        next_offset,
        result.min_offset,
        result.max_offset,
        standing.topic.topic_sys_flag,
        standing.group.group_sys_flag,
        opaque,
        standing.into,
        size_bytes,
    )
    return frame


@cython.cfunc
@cython.exceptval(check=False)
def _scan_pull(
    frame: cython.pointer[cython.const[cython.uchar]],
    left: cython.Py_ssize_t,
    header: cython.pointer[SendHeader],
) -> cython.Py_ssize_t:
    """The size of the whole frame of a pull, with its header read; 0 for anything else. Compiled only."""
    length: cython.Py_ssize_t
    header_length: cython.Py_ssize_t
    if left < 8:
        return 0
    length = get_int(frame)
    header_length = get_int(frame + 4)  # above 24 bits: the kind of header, 0 for JSON
    if length < 4 or length + 4 > left or header_length < 2 or header_length + 4 > length or frame[4]:
        return 0
    if not scan_send(frame + 8, frame + 8 + header_length, header):
        return 0
    # Neither an answer nor one-way.
    return length + 4 if header.code == 11 and not header.flag & 3 else 0


@cython.cfunc
def _key(
    header: cython.pointer[SendHeader],
    queue_offset: cython.pointer[cython.longlong],
    commit_offset: cython.pointer[cython.longlong],
) -> bytes | None:
    """All fields of a pull that its answer depends on but its offsets, which are given as numbers; None if
    those are none, or the fields too long. Compiled only.
    """
    key = cython.declare(cython.uchar[1024])
    used: cython.Py_ssize_t = 0
    queue_offsets: cython.int = 0
    commit_offsets: cython.int = 0
    i: cython.int
    name: cython.pointer[Text]
    value: cython.pointer[Text]
    for i in range(header.named):
        name = cython.address(header.names[i])
        value = cython.address(header.values[i])
        if is_text(name, b"queueOffset", 11):
            queue_offsets += to_number(value.at, value.size, queue_offset)
        elif is_text(name, b"commitOffset", 12):
            commit_offsets += to_number(value.at, value.size, commit_offset)
        elif not is_text(name, b"Signature", 9):  # another one each time; who checks it asks before
            if used + name.size + value.size + 2 > 1024:
                return None
            memcpy(key + used, name.at, name.size)
            used += name.size
            key[used] = 0
            memcpy(key + used + 1, value.at, value.size)
            used += value.size + 2
            key[used - 1] = 0
    if queue_offsets != 1 or commit_offsets != 1:
        return None
    whole: bytes = PyBytes_FromStringAndSize(cython.cast(cython.p_char, key), used)
    return whole


@cython.cfunc
def _request(header: cython.pointer[SendHeader]) -> PullMessage | None:
    """The request that a header is, None if it is unusual. Compiled only."""
    text: Text
    queue_id: cython.longlong = 0
    queue_offset: cython.longlong = 0
    most: cython.longlong = 0
    sys_flag: cython.longlong = 0
    commit_offset: cython.longlong = 0
    suspend_ms: cython.longlong = 0
    sub_version: cython.longlong = 0
    most_bytes: cython.longlong = 0
    has_most_bytes: cython.bint
    if (
        not _number(header, b"queueId", 7, 31, cython.address(queue_id))
        or not _number(header, b"queueOffset", 11, 63, cython.address(queue_offset))
        or not _number(header, b"maxMsgNums", 10, 31, cython.address(most))
        or not _number(header, b"sysFlag", 7, 31, cython.address(sys_flag))
        or not _number(header, b"commitOffset", 12, 63, cython.address(commit_offset))
        or not _number(header, b"suspendTimeoutMillis", 20, 63, cython.address(suspend_ms))
        or not _number(header, b"subVersion", 10, 63, cython.address(sub_version))
    ):
        return None
    has_most_bytes = named(header, b"maxMsgBytes", 11, cython.address(text))
    if has_most_bytes and not _number(header, b"maxMsgBytes", 11, 31, cython.address(most_bytes)):
        return None
    # Proxies' pulls, and those of static topics.
    if named(header, b"requestSource", 13, cython.address(text)) or named(
        header, b"proxyFrowardClientId", 20, cython.address(text)
    ):
        return None
    bulk = _string(header, b"orbitmqBulk", 11)
    if bulk is not None and bulk != "true":
        return None
    group = _string(header, b"consumerGroup", 13)
    topic = _string(header, b"topic", 5)
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
        subscription=_string(header, b"subscription", 12),
        expression_type=_string(header, b"expressionType", 14),
        max_msg_bytes=most_bytes if has_most_bytes else None,
        broker_name=_string(header, b"bname", 5),
        bulk=True if bulk else None,
    )


@cython.cfunc
@cython.exceptval(check=False)
def _number(
    header: cython.pointer[SendHeader],
    name: cython.p_char,
    size: cython.Py_ssize_t,
    bits: cython.int,
    number: cython.pointer[cython.longlong],
) -> cython.bint:
    """Reads a field that is a number and fits; False for anything else. Compiled only."""
    text: Text
    if not named(header, name, size, cython.address(text)) or not to_number(text.at, text.size, number):
        return False
    return bits == 63 or -0x80000000 <= number[0] <= 0x7FFFFFFF


@cython.cfunc
def _string(header: cython.pointer[SendHeader], name: cython.p_char, size: cython.Py_ssize_t) -> Any:
    """A field's text; None without it. Compiled only."""
    text: Text
    if not named(header, name, size, cython.address(text)):
        return None
    return PyUnicode_DecodeUTF8(cython.cast(cython.p_char, text.at), text.size, cython.NULL)


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
        head = cython.declare(cython.uchar[1024])
        at: cython.p_uchar = cython.cast(cython.p_uchar, head) + 8
        i: cython.Py_ssize_t = 0
        between: tuple[bytes, ...] = self._between
        for i in range(8):
            part: bytes = between[i]
            memcpy(at, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
            at += PyBytes_GET_SIZE(part)
            if i < 7:
                at = put_decimal(at, numbers[i])
        length: cython.Py_ssize_t = at - cython.cast(cython.p_uchar, head)
        put_int(cython.cast(cython.p_uchar, head), cython.cast(cython.uint, length - 4 + size))
        put_int(cython.cast(cython.p_uchar, head) + 4, cython.cast(cython.uint, length - 8))
        made: bytes = PyBytes_FromStringAndSize(cython.NULL, length + size)
        memcpy(PyBytes_AS_STRING(made), head, length)
        memcpy(PyBytes_AS_STRING(made) + length, PyByteArray_AS_STRING(records), size)
        return made


_FOUND_ANSWER: AnswerTemplate = AnswerTemplate(_FOUND.name)
