"""Refusals of the proxy, and the codes that clients of RocketMQ 5 know for errors of brokers.

Codes and their mapping are those of Apache's proxy.
"""

from __future__ import annotations

from orbitmq.net.errors import CallTimeout, NetError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.proxy.wire import messaging_pb2 as pb

OK = pb.Status(code=pb.OK, message="OK")

_BROKER_CODES: dict[int, pb.Code.ValueType] = {
    ResponseCode.SYSTEM_BUSY: pb.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: pb.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: pb.NOT_IMPLEMENTED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: pb.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.TOPIC_NOT_EXIST: pb.TOPIC_NOT_FOUND,
    ResponseCode.QUERY_NOT_FOUND: pb.OFFSET_NOT_FOUND,
    ResponseCode.NO_PERMISSION: pb.UNAUTHORIZED,
    ResponseCode.MESSAGE_ILLEGAL: pb.MESSAGE_CORRUPTED,
    ResponseCode.LMQ_QUOTA_EXCEEDED: pb.LITE_TOPIC_QUOTA_EXCEEDED,
    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
}


class ProxyRefused(OrbitError):
    """A call that is answered with an error: `code` of the protocol, and the reason."""

    def __init__(self, code: pb.Code.ValueType, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{pb.Code.Name(self.code)}: {self.message}"


def status_of(error: Exception) -> pb.Status:
    """The status that a client gets for an error of a rule, of a broker or of the way to it."""
    if isinstance(error, ProxyRefused):
        return pb.Status(code=error.code, message=error.message)
    if isinstance(error, BrokerRefused):
        code: pb.Code.ValueType = _BROKER_CODES.get(error.code, pb.INTERNAL_SERVER_ERROR)
        return pb.Status(code=code, message=str(error))
    if isinstance(error, CallTimeout):
        return pb.Status(code=pb.PROXY_TIMEOUT, message=str(error))
    if isinstance(error, NetError):
        return pb.Status(code=pb.INTERNAL_SERVER_ERROR, message=f"the broker cannot be reached: {error}")
    return pb.Status(code=pb.INTERNAL_SERVER_ERROR, message=f"{type(error).__name__}: {error}")


def joined_status(statuses: list[pb.Status]) -> pb.Status:
    """The status of an answer with several entries: their common code, or MULTIPLE_RESULTS.

    Programs look for the code's name in the text, which is all that Apache's proxy says.
    """
    first = statuses[0]
    if len({status.code for status in statuses}) == 1:
        if first.code == pb.OK:
            return first
        return pb.Status(code=first.code, message=f"{pb.Code.Name(first.code)}: {first.message}")
    return pb.Status(code=pb.MULTIPLE_RESULTS, message="the entries have different results")
