"""Requests that name a record by its place in the log: which topic it is of is known only once it is read.

The gate has asked about the topic or group that such a request names. Apache leaves it at that, so that
whoever may read one topic, or give messages back to one group, can have any record of the broker.
"""

from __future__ import annotations

from typing import Any, Protocol

from orbitmq.broker.auth.needs import Actions
from orbitmq.broker.auth.policies import topic_access
from orbitmq.protocol.call import Call
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.message import BadRecord, StoredMessage
from orbitmq.protocol.message_cy import decode_record
from orbitmq.protocol.names import ORIGIN_GROUP
from orbitmq.protocol.properties import decode_properties
from orbitmq.protocol.signing import ACCESS_KEY


class Asks(Protocol):
    """The part of the gate that decides about one thing."""

    def refusal_of(self, name: str | None, access: Any, host: bytes) -> str | None: ...


class RecordAccess:
    """Asks once more, for the record's own topic. Without authorization (`gate` is None) it asks nothing."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Asks | None) -> None:
        self._gate = gate

    def check(self, call: Call[Any], record: bytes | memoryview | StoredMessage, actions: Actions) -> None:
        """Raises Refused (NO_PERMISSION) unless the sender may do one of `actions` with the record's topic.

        One that was made for a retry of the group that the request names is that group's own.
        """
        if self._gate is None:
            return
        try:
            message = record if isinstance(record, StoredMessage) else decode_record(record)
        except BadRecord:
            return  # it is of no topic, and of no use
        group = getattr(call.request, "group", None)
        if group and decode_properties(message.properties).get(ORIGIN_GROUP) == group:
            return
        name = (call.command.ext or {}).get(ACCESS_KEY)
        wrong = self._gate.refusal_of(name, topic_access(message.topic, actions), call.peer.host[:-4])
        if wrong is not None:
            raise Refused(ResponseCode.NO_PERMISSION, wrong)
