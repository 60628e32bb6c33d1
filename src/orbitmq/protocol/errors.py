"""Everything that can go wrong between two peers, and the one table of response codes.

    OrbitError
    ├── Malformed            bytes or text that cannot be read as what they claim to be
    │   ├── MalformedFrame   the stream is of no use any more: close the connection
    │   ├── MalformedJson    a JSON body
    │   └── MalformedReply   an answer that lacks what its request promises
    ├── Refused              raised by rules: the answer is an error with the protocol's code
    │   ├── MissingField     a request without a header field (or body) that it has to have
    │   ├── MalformedField   a header field that is not of its type
    │   ├── MalformedBody    a JSON body that cannot be read
    │   └── BodyTooLong      a body longer than its request may have
    └── BrokerRefused        raised at the caller: the peer answered with an error; one subclass per code

`Refused` travels from a handler to the process around it, which answers with
`Command.refusal()`.
`broker_refused()` turns such an answer into the caller's exception.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.protocol.codes import ResponseCode


class OrbitError(Exception):
    """Base of all errors that OrbitMQ raises on purpose."""


class Malformed(OrbitError, ValueError):
    """Bytes or text that cannot be read as what they claim to be."""


class MalformedFrame(Malformed):
    """The byte stream cannot be cut into commands; nothing after this point can be trusted."""


class MalformedJson(Malformed):
    """A body is not JSON, nor what fastjson writes in its place, or does not fit its class."""


class MalformedReply(Malformed):
    """A peer's answer lacks a field or body that its request promises."""


class Refused(OrbitError):
    """A request is answered with an error: code, remark and, where needed, header fields."""

    def __init__(self, code: int, remark: str, extra: dict[str, str] | None = None) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark
        self.extra = extra

    def __str__(self) -> str:
        return f"{code_name(self.code)}: {self.remark}"


class MissingField(Refused):
    """A request lacks a required header field, or its body (`name` is then `body`)."""

    def __init__(self, name: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, f"the custom field <{name}> is null")
        self.name = name


class MalformedField(Refused):
    """A header field holds text that is not of its type, a number out of range included."""

    def __init__(self, name: str, text: str, type_name: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR, f"the custom field <{name}> is not {type_name}: {text[:40]!r}"
        )
        self.name = name


class MalformedBody(Refused):
    """A request's body is not the JSON that it should be."""

    def __init__(self, reason: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, f"the request body cannot be read: {reason}")


class BodyTooLong(Refused):
    """A request's body is longer, or holds more, than any of its kind has to."""

    def __init__(self, found: str, most: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, f"the request body has {found}, more than {most}")


class BrokerRefused(OrbitError):
    """The peer answered with an error code. Subclasses name the codes; `code` is always there.

    `retriable` says whether another broker, or the same one a little later, may take the request.
    """

    retriable = False

    def __init__(
        self, code: int, remark: str | None = None, address: str = "", extra: dict[str, str] | None = None
    ) -> None:
        super().__init__(code, remark, address)
        self.code = code
        self.remark = remark
        self.address = address
        """The address that answered, `host:port`; empty if unknown."""
        self.extra = extra
        """Header fields of the answer."""

    def __str__(self) -> str:
        text = self.remark or _text(self.code)
        where = f" (from {self.address})" if self.address else ""
        return f"{code_name(self.code)}: {text}{where}"


class PeerFailed(BrokerRefused):
    """Something went wrong at the peer; the remark says what."""

    retriable = True


class PeerBusy(BrokerRefused):
    """The peer takes no more requests for the moment."""

    retriable = True


class RequestNotSupported(BrokerRefused):
    """The peer does not know the request code."""


class FlushDiskTimeout(BrokerRefused):
    """Stored, but not on the disk within the broker's time limit."""


class SlaveNotAvailable(BrokerRefused):
    """Stored, but no slave is there to hold a copy."""


class FlushSlaveTimeout(BrokerRefused):
    """Stored, but not on the slave within the broker's time limit."""


class MessageIllegal(BrokerRefused):
    """The message is too long, empty, or has properties that the broker does not take."""


class PeerNotAvailable(BrokerRefused):
    """The peer does not serve now: it starts, stops, or is not writable."""

    retriable = True


class NoPermission(BrokerRefused):
    """The topic, group, broker or user does not allow this."""

    retriable = True

    def __init__(
        self, code: int, remark: str | None = None, address: str = "", extra: dict[str, str] | None = None
    ) -> None:
        super().__init__(code, remark, address, extra)
        if self.wants_signature:
            self.add_note("The broker serves known users only: give access_key= and secret_key=.")

    @property
    def wants_signature(self) -> bool:
        """The broker has access control, and the request was not signed: no other try would do better."""
        return (self.remark or "").startswith("username cannot be null")


class TopicNotExist(BrokerRefused):
    """The topic is not known there."""

    retriable = True


class PullOffsetMoved(BrokerRefused):
    """The queue offset asked for is outside the queue; the answer holds one that is inside."""


class NotFound(BrokerRefused):
    """Nothing is stored under what was asked for."""


class SubscriptionWrong(BrokerRefused):
    """The subscription is unknown to the broker, older than the group's, or cannot be parsed."""


class GroupNotExist(BrokerRefused):
    """The subscription group is not known there."""


class InvalidParameter(BrokerRefused):
    """A value of the request is outside what the peer allows."""


class ConsumerNotOnline(BrokerRefused):
    """No client of the group is connected."""


class ConsumeTimeout(BrokerRefused):
    """The client that was asked did not answer in time."""


class BroadcastConsumption(BrokerRefused):
    """The group consumes in broadcasting mode, for which the request has no meaning."""


class FlowControl(BrokerRefused):
    """The peer limits the rate of its clients."""

    retriable = True


class NotLeaderForQueue(BrokerRefused):
    """The queue of a static topic lives on another broker now."""

    retriable = True


class IllegalOperation(BrokerRefused):
    """The request comes at the wrong moment, or contradicts the state of what it names."""


class GoingAway(BrokerRefused):
    """The peer is about to stop: reconnect, perhaps elsewhere, and ask again."""

    retriable = True


class TransactionRefused(BrokerRefused):
    """The transaction is in another state than the request assumes."""


class ControllerRefused(BrokerRefused):
    """The controller does not agree with what a broker believes."""


class ControllerNotLeader(ControllerRefused):
    """Another controller leads now: look for it and ask there."""

    retriable = True


class AuthRefused(BrokerRefused):
    """The user or policy does not exist."""


@dataclass(slots=True, frozen=True)
class ErrorRow:
    """One response code: the caller's exception, whether a retry has a chance, and what it means."""

    code: ResponseCode
    error: type[BrokerRefused]
    text: str
    retriable: bool


def _row(
    code: ResponseCode, error: type[BrokerRefused], text: str, retriable: bool | None = None
) -> ErrorRow:
    return ErrorRow(code, error, text, error.retriable if retriable is None else retriable)


_C = ResponseCode

ERRORS: dict[int, ErrorRow] = {
    int(row.code): row
    for row in (
        _row(_C.SYSTEM_ERROR, PeerFailed, "something went wrong at the peer"),
        _row(_C.SYSTEM_BUSY, PeerBusy, "the peer is too busy to take the request"),
        _row(_C.REQUEST_CODE_NOT_SUPPORTED, RequestNotSupported, "the peer does not know this request"),
        _row(_C.TRANSACTION_FAILED, TransactionRefused, "the transaction failed"),
        _row(_C.FLUSH_DISK_TIMEOUT, FlushDiskTimeout, "stored, but not yet on the disk"),
        _row(_C.SLAVE_NOT_AVAILABLE, SlaveNotAvailable, "stored, but there is no slave to copy it"),
        _row(_C.FLUSH_SLAVE_TIMEOUT, FlushSlaveTimeout, "stored, but not yet on the slave"),
        _row(_C.MESSAGE_ILLEGAL, MessageIllegal, "the broker does not take this message"),
        _row(_C.SERVICE_NOT_AVAILABLE, PeerNotAvailable, "the peer does not serve now"),
        _row(_C.VERSION_NOT_SUPPORTED, RequestNotSupported, "the peer does not serve this version"),
        _row(_C.NO_PERMISSION, NoPermission, "not permitted"),
        _row(_C.TOPIC_NOT_EXIST, TopicNotExist, "the topic does not exist"),
        _row(_C.TOPIC_EXIST_ALREADY, InvalidParameter, "the topic exists already"),
        _row(_C.PULL_NOT_FOUND, NotFound, "no message yet"),
        _row(_C.PULL_RETRY_IMMEDIATELY, NotFound, "no message there: pull again from the next offset", True),
        _row(_C.PULL_OFFSET_MOVED, PullOffsetMoved, "the queue offset is outside the queue"),
        _row(_C.QUERY_NOT_FOUND, NotFound, "nothing found"),
        _row(_C.SUBSCRIPTION_PARSE_FAILED, SubscriptionWrong, "the subscription cannot be parsed"),
        _row(_C.SUBSCRIPTION_NOT_EXIST, SubscriptionWrong, "the subscription does not exist", True),
        _row(_C.SUBSCRIPTION_NOT_LATEST, SubscriptionWrong, "the broker has an older subscription", True),
        _row(_C.SUBSCRIPTION_GROUP_NOT_EXIST, GroupNotExist, "the subscription group does not exist"),
        _row(_C.FILTER_DATA_NOT_EXIST, SubscriptionWrong, "the broker has no filter for the group", True),
        _row(_C.FILTER_DATA_NOT_LATEST, SubscriptionWrong, "the broker has an older filter", True),
        _row(_C.INVALID_PARAMETER, InvalidParameter, "a parameter is outside what is allowed"),
        _row(_C.TRANSACTION_SHOULD_COMMIT, TransactionRefused, "the transaction should be committed"),
        _row(_C.TRANSACTION_SHOULD_ROLLBACK, TransactionRefused, "the transaction should be rolled back"),
        _row(_C.TRANSACTION_STATE_UNKNOW, TransactionRefused, "the state of the transaction is unknown"),
        _row(_C.TRANSACTION_STATE_GROUP_WRONG, TransactionRefused, "the transaction is of another group"),
        _row(_C.NO_BUYER_ID, InvalidParameter, "the message has no buyer id", True),
        _row(_C.NOT_IN_CURRENT_UNIT, InvalidParameter, "the message belongs to another unit", True),
        _row(_C.CONSUMER_NOT_ONLINE, ConsumerNotOnline, "no client of the group is connected"),
        _row(_C.CONSUME_MSG_TIMEOUT, ConsumeTimeout, "the client did not answer in time"),
        _row(_C.NO_MESSAGE, NotFound, "no message"),
        _row(_C.POLLING_FULL, PeerBusy, "too many waiting requests"),
        _row(_C.POLLING_TIMEOUT, NotFound, "no message in the time given", True),
        _row(_C.BROKER_NOT_EXIST, InvalidParameter, "the broker does not exist"),
        _row(_C.BROKER_DISPATCH_NOT_COMPLETE, PeerNotAvailable, "the broker has still to index messages"),
        _row(_C.BROADCAST_CONSUMPTION, BroadcastConsumption, "the group consumes in broadcasting mode"),
        _row(_C.FLOW_CONTROL, FlowControl, "the peer limits the rate"),
        _row(_C.NOT_LEADER_FOR_QUEUE, NotLeaderForQueue, "the queue lives on another broker"),
        _row(_C.ILLEGAL_OPERATION, IllegalOperation, "the operation is not possible now"),
        _row(_C.RPC_UNKNOWN, PeerFailed, "a call to another broker failed"),
        _row(_C.RPC_ADDR_IS_NULL, PeerFailed, "the other broker's address is unknown"),
        _row(_C.RPC_SEND_TO_CHANNEL_FAILED, PeerFailed, "the other broker could not be reached"),
        _row(_C.RPC_TIME_OUT, PeerFailed, "the other broker did not answer in time"),
        _row(_C.GO_AWAY, GoingAway, "the peer is about to stop"),
        _row(_C.LMQ_QUOTA_EXCEEDED, IllegalOperation, "the broker takes no more lite topics"),
        _row(
            _C.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
            IllegalOperation,
            "the member, the group or the broker takes no more lite subscriptions",
        ),
        _row(_C.CONTROLLER_FENCED_MASTER_EPOCH, ControllerRefused, "the master epoch is not the present one"),
        _row(
            _C.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
            ControllerRefused,
            "the epoch of the sync state set is not the present one",
        ),
        _row(_C.CONTROLLER_INVALID_MASTER, ControllerRefused, "another broker is master"),
        _row(_C.CONTROLLER_INVALID_REPLICAS, ControllerRefused, "a replica is unknown"),
        _row(_C.CONTROLLER_MASTER_NOT_AVAILABLE, ControllerRefused, "there is no master now", True),
        _row(_C.CONTROLLER_INVALID_REQUEST, ControllerRefused, "the controller does not take this request"),
        _row(_C.CONTROLLER_BROKER_NOT_ALIVE, ControllerRefused, "a replica does not live"),
        _row(_C.CONTROLLER_NOT_LEADER, ControllerNotLeader, "another controller leads"),
        _row(_C.CONTROLLER_BROKER_METADATA_NOT_EXIST, ControllerRefused, "the broker set is unknown"),
        _row(_C.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, ControllerRefused, "the broker set still lives"),
        _row(
            _C.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, ControllerRefused, "the broker has to register first"
        ),
        _row(_C.CONTROLLER_MASTER_STILL_EXIST, ControllerRefused, "the present master stays"),
        _row(_C.CONTROLLER_ELECT_MASTER_FAILED, ControllerRefused, "no replica can become master", True),
        _row(
            _C.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, ControllerRefused, "the sync state set was not changed"
        ),
        _row(_C.CONTROLLER_BROKER_ID_INVALID, ControllerRefused, "the broker id is not free"),
        _row(_C.CONTROLLER_JRAFT_INTERNAL_ERROR, ControllerRefused, "the controllers do not agree", True),
        _row(_C.CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS, ControllerRefused, "nothing is known of the broker"),
        _row(_C.USER_NOT_EXIST, AuthRefused, "the user does not exist"),
        _row(_C.POLICY_NOT_EXIST, AuthRefused, "the policy does not exist"),
    )
}
"""Every response code but SUCCESS."""


def code_name(code: int) -> str:
    """`TOPIC_NOT_EXIST` for 17; `code 9999` for a number that is not declared."""
    try:
        return ResponseCode(code).name
    except ValueError:
        return f"code {code}"


def _text(code: int) -> str:
    row = ERRORS.get(code)
    return row.text if row else "refused without a reason"


def broker_refused(
    code: int, remark: str | None = None, address: str = "", extra: dict[str, str] | None = None
) -> BrokerRefused:
    """The exception for an error answer; plain `BrokerRefused` for codes that are not declared."""
    row = ERRORS.get(code)
    if row is None:
        return BrokerRefused(code, remark, address, extra)
    error = row.error(code, remark, address, extra)
    error.retriable = row.retriable
    return error
