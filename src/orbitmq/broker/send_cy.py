"""Sends that need nothing but storing, which is nearly all of them: one look, and an answer from a template.

Hot: every message sent passes here. A send is plain if its topic exists and may be written to, it is a
single message, and none of its properties means anything to the broker (no delay, timer, transaction, ...).
What waits elsewhere first, with a delay level or as a half message, is nearly as plain: its properties stay
as they came, and three follow. For whatever is not, `plain_message` and `set_aside` give None, and the rules
of `handlers.send` decide.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.batch_cy import measure_batch
from orbitmq.protocol.command import Command
from orbitmq.protocol.consume_queue import UNIT
from orbitmq.protocol.message import BadRecord
from orbitmq.protocol.names import HALF_TOPIC, MAX_TOPIC_CHARACTERS, SCHEDULE_TOPIC
from orbitmq.protocol.properties_cy import find_property
from orbitmq.store.messages import PendingMessage

if cython.compiled:
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.libc.string import memchr, memcmp, memcpy  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.plain import (  # type: ignore[import-not-found]
        counts_for_something,
        is_alphanumeric,
        is_meaningful,
    )

SEND_BATCH = 320
_SEND_V2 = 310
_WRITE = 2
_HEX_DIGITS: bytes = b"0123456789ABCDEF"
_RETRY_PREFIX = "%RETRY%"

_MEANINGFUL = re.compile(
    rb"(?:^|\x02)(?:DELAY|TIMER_|TRAN_MSG|POP_CK|MSG_REGION|TRACE_ON|CLUSTER|_SYS_MSG_PRIORITY_)"
)
"""Beginnings of property names that the broker acts on, or sets itself."""
_MEANINGFUL_TO_BATCH = re.compile(r"(?:^|\x02)(?:DELAY|TRAN_MSG|UNIQ_KEY(?!\x01[0-9A-Za-z]+(?:\x02|$)))")
"""The same for the properties of a batch as a whole. Its id, if it has one, is in its answer."""
_UNIQUE_KEYS = re.compile(r"(?:^|\x02)UNIQ_KEY\x01([0-9A-Za-z]+)")
_NOT_STORED = re.compile(rb"(?:^|\x02)(?:\x01|[^\x01\x02]*(?:\x01?\x02))")
"""An entry without a name or a value, in properties that end with 0x02."""
_UNIQUE_KEY = re.compile(rb"(?:^|\x02)UNIQ_KEY\x01([0-9A-Za-z]+)(?:\x02|$)")
"""Ids of clients are hex; any other text goes the way on which it is quoted."""

_NOT_SIMPLE = (
    b"REAL_", b"TIMER_", b"POP_CK", b"MSG_REGION", b"TRACE_ON", b"CLUSTER", b"_SYS_MSG_PRIORITY_",
    b"TRANSACTION_", b"TRAN_PREPARED_", b"__transactionId__", b"CHECK_IMMUNITY_",
    b"\x00", b"\x01\x02", b"\x02\x01", b"\x02\x02",
)  # fmt: skip
"""What properties must not hold for three more to be put behind them as they are: names that the broker sets
or acts on, and entries that count for nothing. It is looked for anywhere: in a value it costs time only."""

NAMED = ("topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes", "batch")
LETTERED = ("b", "e", "f", "g", "h", "i", "j", "m")


def plain_message(
    command: Command,
    topics: dict[str, Any],
    refused: Any,
    own: bytes,
    host: bytes,
    store_host: bytes,
    delays_ms: dict[int, int] | None = None,
    takes_halves: cython.bint = False,
    now: cython.longlong = 0,
) -> tuple[PendingMessage, bytes | SetAside] | None:
    """The message of a plain send and its unique id; None if the send has to be looked at more closely.

    `topics` are the configs by name, `refused` names of topics nobody may send to, `own` the properties that
    the broker adds to every message; `delays_ms` are the delay levels, None while no delayed messages are
    taken, and `takes_halves` is whether half messages are. Of those two, a `SetAside` is given for the id.
    """
    names = LETTERED if command.code == _SEND_V2 else NAMED
    ext = command.ext
    if ext is None:
        return None
    try:
        topic: str = ext[names[0]]
        config = topics[topic]
        queue_id: cython.int = int(ext[names[1]])
        sys_flag: cython.int = int(ext[names[2]])
        born_timestamp: cython.longlong = int(ext[names[3]])
        flag: cython.int = int(ext[names[4]])
        text: str = ext[names[5]]
    except (KeyError, ValueError, OverflowError):
        return None
    if (
        ext.get(names[7]) == "true"
        or ext.get(names[6], "0") != "0"
        or queue_id < 0
        or topic in refused
        or topic.startswith(_RETRY_PREFIX)
        or not config.perm & _WRITE
        or queue_id >= max(config.write_queue_nums, config.read_queue_nums)
        or not (-0x80000000 <= flag <= 0x7FFFFFFF and -0x80000000 <= sys_flag <= 0x7FFFFFFF)
        or not -0x8000000000000000 <= born_timestamp <= 0x7FFFFFFFFFFFFFFF
    ):
        return None
    body = command.body
    if body is None:
        body = b""
    encoded: bytes = text.encode("utf-8", "replace")
    found = None if sys_flag & 0xC else _plain_properties(encoded, own)
    if found is None:
        laid = _set_aside(encoded, own, topic, queue_id, delays_ms, takes_halves)
        if laid is None:
            return None
        delay_ms = laid.delay_ms
        return (
            PendingMessage(
                HALF_TOPIC if delay_ms < 0 else SCHEDULE_TOPIC,
                laid.stored_queue_id,
                flag,
                sys_flag & ~0xC,
                born_timestamp,
                host,
                store_host,
                0,
                0,
                body,
                laid.properties,
                None if delay_ms < 0 else now + delay_ms,
            ),
            laid,
        )
    properties, unique_id = found
    return (
        PendingMessage(
            topic,
            queue_id,
            flag,
            sys_flag,
            born_timestamp,
            host,
            store_host,
            0,
            0,
            body,
            properties,
        ),
        unique_id,
    )


class SetAside:
    """What a message that waits elsewhere first was sent for. `delay_ms` below 0: it is a half message."""

    __slots__ = (
        "delay_ms",
        "group",
        "properties",
        "queue_id",
        "sent",
        "stored_queue_id",
        "topic",
        "unique_id",
    )

    def __init__(
        self,
        unique_id: bytes,
        topic: str,
        queue_id: int,
        stored_queue_id: int,
        delay_ms: int,
        group: bytes,
        sent: bytes,
        properties: bytes,
    ) -> None:
        self.unique_id = unique_id
        self.topic = topic
        self.queue_id = queue_id
        self.stored_queue_id = stored_queue_id
        self.delay_ms = delay_ms
        self.group = group
        """The producer group of a half message."""
        self.sent = sent
        """The properties of a half message as its commit publishes them."""
        self.properties = properties


@cython.cfunc
def _set_aside(
    properties: bytes, own: bytes, topic: str, queue_id: int, delays_ms: Any, takes_halves: cython.bint
) -> Any:
    """What to store of a message with a delay level, or of a half message; None for any other.

    It is what `handlers.send` would make of it: the properties as they were sent, and where it belongs.
    """
    unique_id = find_property(properties, b"UNIQ_KEY")
    if unique_id is None or not unique_id.isalnum():
        return None
    if not properties.endswith(b"\x02"):
        properties += b"\x02"
    for text in _NOT_SIMPLE:
        if text in properties:
            return None
    if properties.count(b"\x01") != properties.count(b"\x02") or properties[0] <= 2:
        return None
    level = find_property(properties, b"DELAY")
    if level is not None:
        if delays_ms is None or level[:1] == b"0" or len(level) > 2 or not level.isdigit():
            return None
        delay_ms = delays_ms.get(int(level))
        if delay_ms is None or properties.count(b"DELAY") != 1 or b"TRAN_MSG" in properties:
            return None
        stored = b"%sREAL_TOPIC\x01%s\x02REAL_QID\x01%d\x02%s" % (properties, topic.encode(), queue_id, own)
        return SetAside(unique_id, topic, queue_id, int(level) - 1, delay_ms, b"", b"", stored)
    group = find_property(properties, b"PGROUP")
    if (
        not takes_halves
        or group is None
        or find_property(properties, b"TRAN_MSG") != b"true"
        or properties.count(b"TRAN_MSG") != 1
    ):
        return None
    sent = b"%s__transactionId__\x01%s\x02" % (properties, unique_id)
    stored = b"%sREAL_TOPIC\x01%s\x02REAL_QID\x01%d\x02%s" % (sent, topic.encode(), queue_id, own)
    return SetAside(unique_id, topic, queue_id, 0, -1, group, sent + own, stored)


def plain_batch(
    command: Command, topics: dict[str, Any], refused: Any, max_bytes: int, host: bytes, store_host: bytes
) -> tuple[PendingMessage, bytes] | None:
    """The batch of a plain send of several messages, and its id, b"" if it has none.

    None if the send has to be looked at more closely.

    Its messages are stored with the properties they came with; what keeps one of them from being stored
    keeps all, and the store says so.
    """
    ext = command.ext
    body = command.body
    if ext is None or type(body) is not bytes or len(body) > max_bytes:
        return None
    try:
        topic: str = ext["b"]
        config = topics[topic]
        queue_id: cython.int = int(ext["e"])
        sys_flag: cython.int = int(ext["f"])
        born_timestamp: cython.longlong = int(ext["g"])
        text: str = ext["i"]
        measure_batch(body)
    except (KeyError, ValueError, OverflowError, BadRecord):
        return None
    if (
        ext.get("j", "0") != "0"
        or queue_id < 0
        or sys_flag & 0xC
        or not body
        or topic in refused
        or len(topic) > MAX_TOPIC_CHARACTERS
        or topic.startswith(_RETRY_PREFIX)
        or not config.perm & _WRITE
        or queue_id >= max(config.write_queue_nums, config.read_queue_nums)
        or not -0x80000000 <= sys_flag <= 0x7FFFFFFF
        or not -0x8000000000000000 <= born_timestamp <= 0x7FFFFFFFFFFFFFFF
        or _MEANINGFUL_TO_BATCH.search(text)
    ):
        return None
    unique_ids = _UNIQUE_KEYS.findall(text)
    if len(unique_ids) > 1:
        return None
    batch = PendingMessage(
        topic, queue_id, 0, sys_flag, born_timestamp, host, store_host, 0, 0, b"", b"", None, body
    )
    return batch, "".join(unique_ids).encode()


@cython.cfunc
def _plain_properties(properties: bytes, own: bytes) -> Any:
    """The properties to store and the unique id among them; None if one means something, or is not stored."""
    if cython.compiled:
        length: cython.Py_ssize_t = PyBytes_GET_SIZE(properties)
        start: cython.p_char = PyBytes_AS_STRING(properties)
        end: cython.p_char = start + length
        at: cython.p_char = start
        stop: cython.p_char
        unique: cython.p_char = cython.NULL
        unique_length: cython.Py_ssize_t = 0
        while at < end:
            if is_meaningful(at, end - at):
                return None
            stop = cython.cast(cython.p_char, memchr(at, 2, end - at))
            if stop == cython.NULL:
                stop = end
            if not counts_for_something(at, stop - at):
                return None
            if unique == cython.NULL and stop - at > 9 and memcmp(at, b"UNIQ_KEY\x01", 9) == 0:
                unique = at + 9
                unique_length = stop - unique
                if not is_alphanumeric(unique, unique_length):
                    return None
            at = stop + 1
        if unique == cython.NULL:
            return None
        if end[-1] != 2:
            return properties + b"\x02" + own, PyBytes_FromStringAndSize(unique, unique_length)
        return properties + own, PyBytes_FromStringAndSize(unique, unique_length)
    key = _UNIQUE_KEY.search(properties)
    if key is None or _MEANINGFUL.search(properties):
        return None
    if not properties.endswith(b"\x02"):
        properties += b"\x02"
    if _NOT_STORED.search(properties):
        return None
    return properties + own, key[1]


class ReplyTemplate:
    """The frame that answers a stored message: all but four numbers and the unique id is always the same."""

    __slots__ = ("after_id", "before_offset", "between_ids", "end")

    def __init__(self, store_host: bytes, region: str, trace: str, language: str, version: int) -> None:
        self.before_offset = b'{"code":0,"extFields":{"MSG_REGION":%s,"TRACE_ON":"%s","msgId":"%s' % (
            encode_basestring(region).encode(),
            trace.encode(),
            store_host.hex().upper().encode(),
        )
        self.between_ids = b"," + store_host.hex().upper().encode()
        self.after_id = b'"},"flag":1,"language":"%s","opaque":' % language.encode()
        self.end = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % version

    def frame(
        self, opaque: int, physical_offset: int, queue_id: int, queue_offset: int, unique_id: bytes
    ) -> bytes:
        """The whole frame. `unique_id` is text that JSON holds as it is."""
        header = b'%s%016X","queueId":"%d","queueOffset":"%d","transactionId":"%s%s%d%s' % (
            self.before_offset,
            physical_offset,
            queue_id,
            queue_offset,
            unique_id,
            self.after_id,
            opaque,
            self.end,
        )
        return _framed(header)

    def batch_frame(
        self, opaque: int, units: bytes, queue_id: int, queue_offset: int, unique_id: bytes
    ) -> bytes:
        """The whole frame for a batch: `units` are those of its messages, `queue_offset` is of the first.

        `unique_id` is as in `frame`, b"" where the batch has none.
        """
        header = b'%s%s","queueId":"%d","queueOffset":"%d%s%s%d%s' % (
            self.before_offset,
            _joined_offsets(units, self.between_ids),
            queue_id,
            queue_offset,
            b'","transactionId":"%s' % unique_id if unique_id else b"",
            self.after_id,
            opaque,
            self.end,
        )
        return _framed(header)


@cython.cfunc
def _framed(header: bytes) -> bytes:
    length = len(header)
    return b"%s%s%s" % ((length + 4).to_bytes(4, "big"), length.to_bytes(4, "big"), header)


@cython.cfunc
def _joined_offsets(units: bytes, between: bytes) -> bytes:
    """The physical offsets of units as 16 hexadecimal digits each."""
    if cython.compiled:
        gap: cython.Py_ssize_t = PyBytes_GET_SIZE(between)
        count: cython.Py_ssize_t = PyBytes_GET_SIZE(units) // 20
        made: bytes = PyBytes_FromStringAndSize(cython.NULL, count * (16 + gap) - gap)
        out: cython.p_char = PyBytes_AS_STRING(made)
        source: cython.p_char = PyBytes_AS_STRING(units)
        digits: cython.p_char = PyBytes_AS_STRING(_HEX_DIGITS)
        i: cython.Py_ssize_t
        byte: cython.int
        for i in range(count):
            if i:
                memcpy(out, PyBytes_AS_STRING(between), gap)
                out += gap
            for byte in range(8):
                out[2 * byte] = digits[cython.cast(cython.uchar, source[byte]) >> 4]
                out[2 * byte + 1] = digits[cython.cast(cython.uchar, source[byte]) & 0xF]
            out += 16
            source += 20
        return made
    return between.join([b"%016X" % physical_offset for physical_offset, _, _ in UNIT.iter_unpack(units)])
