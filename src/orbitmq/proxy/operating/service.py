"""The gRPC service `Admin`: calls of operators, who have a port and rights of their own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import OrbitError
from orbitmq.proxy.access import AccessControl
from orbitmq.proxy.context import Answer, read_caller, without_caller
from orbitmq.proxy.errors import ProxyRefused, status_of
from orbitmq.proxy.operating.members import Members
from orbitmq.proxy.operating.messages import MessageCalls
from orbitmq.proxy.operating.progress import ProgressCalls
from orbitmq.proxy.wire import admin_pb2 as operator
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

SERVICE = "apache.rocketmq.v2.Admin"
OPERATOR_ID = "operator"
"""The client id of operators' programs that name none."""


@dataclass(eq=False, repr=False)
class OperatorService:
    """Answers operators alone: super users, where access is controlled."""

    _members: Members
    _messages: MessageCalls
    _progress: ProgressCalls
    _access: AccessControl
    _peer_of: Callable[[str], str | None]

    def handlers(self) -> grpc.GenericRpcHandler:
        """The calls of the service for a gRPC server."""
        members, messages, progress = self._members, self._messages, self._progress
        answers: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "DescribeTopicStatus": progress.topic_status,
            "ListSubscription": members.subscriptions,
            "DescribeSubscription": members.described,
            "DeleteSubscription": _not_kept,
            "DescribeGroupAccumulation": progress.accumulation,
            "ListConsumerConnection": members.connections,
            "ResetGroupOffset": progress.reset,
            "PrintThreadStackTrace": messages.stack,
            "VerifyMessage": messages.verify,
            "GetConsumerRunningInfo": members.running,
            "GetTopicRoute": progress.topic_route,
            "QueryTimeSpan": progress.time_span,
            "GetProxyRuntimeStats": progress.stats,
        }
        handlers = {
            name: self._handler(name, name, without_caller(answer)) for name, answer in answers.items()
        }
        handlers["QueryMessage"] = self._handler(
            "QueryMessage", "ListMessage", without_caller(messages.query)
        )
        handlers["AdminSendMessage"] = self._handler("AdminSendMessage", "AdminSendMessage", messages.send)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _handler(self, name: str, kind: str, answer: Answer) -> grpc.RpcMethodHandler[Any, Any]:
        request_type = getattr(operator, f"{kind}Request")
        response_type = getattr(operator, f"{kind}Response")

        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            try:
                peer = self._peer_of(context.peer())
                if peer is None:
                    raise ProxyRefused(pb.UNAUTHORIZED, "operators have a port of their own")
                metadata = context.invocation_metadata() or ()
                caller = read_caller(metadata, peer, context.time_remaining(), unnamed=OPERATOR_ID)
                await self._access.check_operator(caller)
                log.info("%s of %s, %s", name, caller.client_id, peer)
                return await answer(request, caller)
            except Exception as error:
                if not isinstance(error, OrbitError | NetError | ValueError):
                    log.exception("%s failed", name)
                return response_type(status=status_of(error))

        return grpc.unary_unary_rpc_method_handler(
            call,
            request_deserializer=request_type.FromString,
            response_serializer=response_type.SerializeToString,
        )


async def _not_kept(request: operator.DeleteSubscriptionRequest) -> operator.DeleteSubscriptionResponse:
    raise ProxyRefused(
        pb.NOT_IMPLEMENTED, "subscriptions are not kept: they end with the clients whose they are"
    )
