"""Errors as RFC 9457 problems: a status, a code for programs, and what to do for people."""

from __future__ import annotations

import msgspec

from orbitmq.admin import NoBroker
from orbitmq.admin.dead_letters.asked import BadRequest
from orbitmq.admin.dead_letters.journal import JournalUnusable
from orbitmq.admin.diagnosis.access import BadQuestion
from orbitmq.admin.group_clone import CannotClone
from orbitmq.admin.messages import NoMessage
from orbitmq.broker.filter.sql92 import BadExpression
from orbitmq.client import ClientError, SendFailed, TopicNotFound
from orbitmq.client.delays import DelayUnavailable
from orbitmq.console.decoding import BadSchema, DecoderMissing
from orbitmq.net.errors import NetError
from orbitmq.options import OptionError
from orbitmq.protocol.errors import (
    BrokerRefused,
    ConsumerNotOnline,
    GroupNotExist,
    InvalidParameter,
    Malformed,
    MessageIllegal,
    NoPermission,
    NotFound,
    OrbitError,
    PullOffsetMoved,
    RequestNotSupported,
    TopicNotExist,
    code_name,
)
from orbitmq.protocol.names import IllegalName


class Problem(msgspec.Struct, rename="camel", omit_defaults=True):
    """The reason why a request was not carried out."""

    status: int
    code: str
    """Stable: programs compare this one."""
    title: str
    """Problem in a few words."""
    advice: str = ""
    """Advice to the user."""
    field: str = ""
    """The part of the request that is wrong, as a path."""
    retry_after_seconds: int = 0


class ApiError(Exception):
    """Raised by handlers: the answer is its problem."""

    def __init__(
        self, status: int, code: str, title: str, advice: str, *, field: str = "", retry_after: int = 0
    ) -> None:
        super().__init__(title)
        self.problem = Problem(status, code, title, advice, field, retry_after)


class Invalid(ApiError):
    """A value of the request that cannot be."""

    def __init__(self, title: str, advice: str, *, field: str = "") -> None:
        super().__init__(422, "INVALID", title, advice, field=field)


def check_confirmed(typed: str, name: str, kind: str, action: str) -> None:
    """Raises ApiError unless the user has typed the name of the thing that is to be deleted or drained."""
    if typed != name:
        raise ApiError(
            422,
            "NOT_CONFIRMED",
            f"type the name of the {kind}, {name}, to {action} it",
            "The name has to be exact.",
            field="confirm",
        )


_ROWS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], int, str, str], ...] = (
    (
        JournalUnusable,
        503,
        "JOURNAL",
        "One console at a time uses a folder: stop the other one, or check the disk and rights.",
    ),
    (CannotClone, 422, "CANNOT_CLONE", "The list of groups has all names."),
    ((BadRequest, BadQuestion), 422, "INVALID", "Correct the value."),
    (BadSchema, 422, "SCHEMA", "Correct the schema at the place that is named."),
    (DecoderMissing, 501, "DECODER_MISSING", "Install it for the console."),
    (OptionError, 422, "OPTION", "Correct the name or the value."),
    (BadExpression, 422, "FILTER", "Correct the SQL92 expression at the place that is named."),
    (IllegalName, 422, "ILLEGAL_NAME", "Choose another name."),
    ((TopicNotExist, TopicNotFound), 404, "TOPIC_NOT_EXIST", "Create the topic, or correct its name."),
    (GroupNotExist, 404, "GROUP_NOT_EXIST", "Create the group, or correct its name."),
    (ConsumerNotOnline, 404, "CONSUMER_NOT_ONLINE", "Start a consumer of this group."),
    (
        (NoMessage, NotFound, PullOffsetMoved),
        404,
        "NO_MESSAGE",
        "It may have been deleted by retention, or the id be of another cluster.",
    ),
    (
        NoPermission,
        403,
        "BROKER_NO_PERMISSION",
        "The topic or group does not allow it, or the user of the console's --access-key may not.",
    ),
    (RequestNotSupported, 501, "NOT_SUPPORTED", "The broker is of a version that does not have this."),
    ((InvalidParameter, MessageIllegal), 422, "INVALID_PARAMETER", "Correct the value."),
    (NoBroker, 404, "NO_BROKER", "Check that brokers are registered with these name servers."),
    (
        DelayUnavailable,
        502,
        "NO_DELAY_SERVICE",
        "Check that the delay service runs, and its address in --delay of the console.",
    ),
    (NetError, 504, "NO_ANSWER", "Check that the server runs and can be reached; then try again."),
    (
        SendFailed,
        502,
        "SEND_FAILED",
        "The message may be stored all the same: look for it before trying again.",
    ),
    (Malformed, 422, "MALFORMED", "Correct the value."),
    (ClientError, 422, "REFUSED_BY_CLIENT", "Correct the value."),
)


_BY_CODE = {
    "SYSTEM_BUSY": "The broker has too much to do, or its disk is slow: try again in a while.",
    "SYSTEM_ERROR": "The broker's log has the reason.",
    "SERVICE_NOT_AVAILABLE": "The broker takes no messages now: the page Cluster shows its disk and role.",
    "FLUSH_DISK_TIMEOUT": "The message may be stored all the same: look for it before trying again.",
    "FLUSH_SLAVE_TIMEOUT": "The message may be stored all the same: look for it before trying again.",
    "SLAVE_NOT_AVAILABLE": "Start the broker's slave. The message may be stored all the same: look for it.",
    "SUBSCRIPTION_GROUP_NOT_EXIST": "Create the group, or correct its name.",
}
"""Advice for refusals of brokers, by the name of their code."""
_OTHER_REFUSAL = "The broker's log says more."
_OTHER_ERROR = "Correct what the sentence names, and try again."
ADVICE = {row[3] for row in _ROWS} | set(_BY_CODE.values()) | {_OTHER_REFUSAL, _OTHER_ERROR}
"""Every text of these, which pages translate."""


def problem_of(error: Exception) -> Problem | None:
    """The problem for an error that a user can act on; None for a bug."""
    if isinstance(error, ApiError):
        return error.problem
    if isinstance(error, SendFailed) and isinstance(error.__cause__, NoPermission):
        return problem_of(error.__cause__)
    text = " ".join(str(error).split())
    if isinstance(error, BrokerRefused):
        text = text.removeprefix(f"{code_name(error.code)}: ")  # pages show it apart
    for kinds, status, code, advice in _ROWS:
        if isinstance(error, kinds):
            return Problem(status, code, text, advice)
    if isinstance(error, BrokerRefused):
        name = code_name(error.code)
        return Problem(502, name, text, _BY_CODE.get(name, _OTHER_REFUSAL))
    if isinstance(error, OrbitError):
        return Problem(422, "REFUSED", text, _OTHER_ERROR)
    return None
