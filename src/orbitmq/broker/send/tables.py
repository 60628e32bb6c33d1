"""Tables that sends look at and change, and the parts of them that are the same for all sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.client.locks import QueueLocks
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.send.admission import Admission
from orbitmq.broker.send.answer import AnswerTemplate
from orbitmq.broker.send.options import SendOptions
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.broker.transaction.records import OP_PROPERTIES
from orbitmq.broker.transaction.rerouting import ReroutingRules
from orbitmq.broker.transaction.transactions import Transactions
from orbitmq.protocol.names import SHARDING_KEY
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.protocol.remoting.command import LANGUAGE_PYTHON, LANGUAGES, VERSION
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessage, SendMessageV2
from orbitmq.store import MessageStore

AnySend: TypeAlias = SendMessage | SendMessageV2 | SendBatchMessage

ORDERED = SHARDING_KEY.encode() + b"\x01"
"""Mark in the properties of messages that are in order by a key."""


@dataclass(slots=True, frozen=True)
class Fixed:
    """Values that follow from options that hardly ever change."""

    region_id: str
    trace_on: bool
    own_properties: bytes
    """Properties that the broker adds to every message."""
    batch_properties: bytes
    """Properties that it adds to every message of a batch."""
    template: AnswerTemplate
    answers: bytearray
    """Memory in which `handle_send_frames` puts answers together."""
    rerouting: ReroutingRules


@dataclass(slots=True)
class SendTables:
    """Tables that a send looks at and changes."""

    identity: BrokerIdentity
    settings: SendOptions
    topics: TopicTable
    groups: GroupTable
    locks: QueueLocks
    transactions: Transactions
    levels: DelayLevels
    timer: Timers
    store: MessageStore
    stats: BrokerStats
    new_unique_id: Callable[[int], str]
    """A message id for a client that gave none; gets the time in ms."""
    promise: Promise
    record_access: RecordAccess
    admission: Admission
    next_queue: int = 0
    """Moves on with every send that leaves the queue to the broker."""
    fixed: Fixed | None = None


def fixed_parts(tables: SendTables) -> Fixed:
    """Values that are the same for every message, made again when the options behind them have changed."""
    settings = tables.settings
    fixed = tables.fixed
    if fixed is None or fixed.region_id != settings.region_id or fixed.trace_on != settings.trace_on:
        trace = "true" if settings.trace_on else "false"
        own = {"MSG_REGION": settings.region_id, "TRACE_ON": trace, "CLUSTER": tables.identity.cluster}
        template = AnswerTemplate(
            tables.identity.host, settings.region_id, trace, LANGUAGES[LANGUAGE_PYTHON], VERSION
        )
        fixed = tables.fixed = Fixed(
            settings.region_id,
            settings.trace_on,
            encode_properties(own),
            encode_properties({"CLUSTER": tables.identity.cluster}),
            template,
            bytearray(64 << 10),
            ReroutingRules(OP_PROPERTIES, tags_code(OP_PROPERTIES), partial(_refresh, tables)),
        )
    return fixed


def _refresh(tables: SendTables, rules: ReroutingRules) -> None:
    """Decides which delayed messages, half messages and decisions are accepted now."""
    rules.accepts_halves = not tables.settings.reject_transaction_message
    rules.delays_ms = {} if tables.store.retention.is_pressed else tables.levels.delay_ms
    rules.max_op_bytes = tables.settings.transaction_op_msg_max_size
    recent = tables.transactions.recent_halves()
    rules.open_halves = recent if tables.identity.is_master else None


def extra_fields(tables: SendTables) -> dict[str, str]:
    """Header fields of the answer to every send, a refusal's too."""
    settings = tables.settings
    return {"MSG_REGION": settings.region_id, "TRACE_ON": "true" if settings.trace_on else "false"}
