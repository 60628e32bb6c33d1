"""Calls and results as bytes, by thriftpy2. It reads a peer's bytes only after `bounds` has gone through."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import thriftpy2
from thriftpy2.protocol.compact import TCompactProtocol
from thriftpy2.thrift import TApplicationException, TMessageType

from orbitmq.delay_service.thrift.bounds import MalformedCall, Walk

interface = thriftpy2.load(str(Path(__file__).with_name("producer.thrift")), "orbitmq_ddmq_thrift")
"""The structs and the service."""
SERVICE: Any = interface.ProducerService
METHODS = frozenset(SERVICE.thrift_services)
UNKNOWN_METHOD: int = TApplicationException.UNKNOWN_METHOD
PROTOCOL_ERROR: int = TApplicationException.PROTOCOL_ERROR


@dataclass(frozen=True, slots=True)
class Call:
    """A call. `arguments` has the values of its peer, None for a method that is not in the interface."""

    method: str
    number: int
    arguments: Any = None
    problem: str = ""
    """The reason why its arguments cannot be read; the call is answered with it."""


def read_call(frame: bytes) -> Call:
    """The call in a frame. Raises MalformedCall for bytes that no answer would help."""
    walk = Walk(frame)
    method, number = walk.head()
    if method not in METHODS:
        return Call(method, number)
    try:
        walk.arguments()
        protocol = TCompactProtocol(BytesIO(frame), strict_decode=True)
        protocol.read_message_begin()
        arguments = getattr(SERVICE, f"{method}_args")()
        arguments.read(protocol)
    except MalformedCall as error:
        return Call(method, number, problem=str(error))
    except UnicodeDecodeError:
        return Call(method, number, problem="a text is not UTF-8")
    return Call(method, number, arguments)


def result_frame(call: Call, code: int, reason: str, id: str = "") -> bytes:
    """The answer to a call, with a result."""
    if call.method == "sendDelaySync":
        result = interface.DelayResult(code, reason, id)
    else:
        result = interface.Result(code, reason)
    return _frame(call, TMessageType.REPLY, getattr(SERVICE, f"{call.method}_result")(result))


def error_frame(call: Call, kind: int, reason: str) -> bytes:
    """The answer to a call that has no result."""
    return _frame(call, TMessageType.EXCEPTION, TApplicationException(kind, reason))


def _frame(call: Call, kind: int, content: Any) -> bytes:
    buffer = BytesIO()
    protocol = TCompactProtocol(buffer)
    protocol.write_message_begin(call.method, kind, call.number)
    protocol.write_struct(content)
    protocol.write_message_end()
    data = buffer.getvalue()
    return len(data).to_bytes(4, "big") + data
