"""Answers read as what their request promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from orbitmq.protocol.errors import broker_refused
from orbitmq.protocol.remoting.command import Command

if TYPE_CHECKING:
    from orbitmq.protocol.schema.declare import Reply, Request

ReplyT = TypeVar("ReplyT", bound="Reply")


def read_reply(request: Request[ReplyT], answer: Command, address: str) -> ReplyT:
    """The typed reply that `answer` is. Raises BrokerRefused if it is an error, MalformedReply."""
    if answer.code == 0 or answer.code in request.accepts:
        return cast("ReplyT", request.REPLY.from_command(answer))
    raise broker_refused(answer.code, answer.remark, address, answer.ext)
