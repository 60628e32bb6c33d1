"""Access to what is found only behind the gate: records named by their place, and peers named by a group.

The gate has asked about the topic or group that a request names. Apache leaves it at that, so that whoever
may read one topic, or give messages back to one group, can have any record of the broker, whoever may send
to one topic decides the transactions of all, and whoever calls itself a member of a producer group is shown
its half messages.
"""

from __future__ import annotations

from typing import Any, Protocol

from orbitmq.broker.auth.permissions import Actions
from orbitmq.broker.auth.policies import topic_access
from orbitmq.handling.call import Call, Peer
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.handles.pop import normal_topic
from orbitmq.protocol.names import ORIGIN_GROUP
from orbitmq.protocol.records.message import BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import ACCESS_KEY


class Asks(Protocol):
    """The part of the gate that decides about one thing."""

    def allows(self, name: str | None, access: Any, host: bytes) -> bool: ...


def user_of(command: Command) -> str | None:
    """The user that a request says it is from; the gate has checked it."""
    return (command.ext or {}).get(ACCESS_KEY)


class RecordAccess:
    """Asks once more, for the record's own topic. Without access control (`gate` is None) it asks nothing."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Asks | None) -> None:
        self._gate = gate

    def check(self, call: Call[Any], record: bytes | memoryview | StoredMessage, actions: Actions) -> None:
        """Raises Refused (NO_PERMISSION) unless the sender may do one of `actions` with the record's topic.

        One that was made for a retry of the group that the request names is that group's own: a property says
        so in a retry topic only, for in any other one the sender has written it.
        """
        if self._gate is None:
            return
        try:
            message = record if isinstance(record, StoredMessage) else decode_record(record)
        except BadRecord:
            return  # it is of no topic, and of no use
        group = getattr(call.request, "group", None)
        if group and _is_retry_of(message, group):
            return
        self.check_topic(call.command, call.peer, message.topic, actions)

    def check_topic(self, command: Command, peer: Peer, topic: str, actions: Actions) -> None:
        """Raises Refused (NO_PERMISSION) unless the sender may do one of `actions` with a topic.

        The topic is not named: a place in the log must not reveal which topics there are.
        """
        user = user_of(command)
        if not self.allows(user, peer.host, topic, actions):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"User:{user} may not access the topic that the message is of",
            )

    def allows(self, user: str | None, host: bytes, topic: str, actions: Actions) -> bool:
        """True if a user at `host` may do one of `actions` with a topic."""
        return self._gate is None or self._gate.allows(user, topic_access(topic, actions), host)


def _is_retry_of(message: StoredMessage, group: str) -> bool:
    return (
        normal_topic(message.topic, group) != message.topic
        and decode_properties(message.properties).get(ORIGIN_GROUP) == group
    )
