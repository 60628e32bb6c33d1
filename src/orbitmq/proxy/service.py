"""The calls of `MessagingService`: each is answered by the module of its subject.

An error of a rule or of a broker is a status within the answer; the status of the gRPC call itself is OK, as
clients expect it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import OrbitError
from orbitmq.proxy.access import AccessControl
from orbitmq.proxy.context import Answer, Caller, read_caller, without_caller
from orbitmq.proxy.errors import ProxyRefused, status_of
from orbitmq.proxy.lite.subscriptions import LiteSubscriptions
from orbitmq.proxy.offsets import Offsets
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.presence import Presence
from orbitmq.proxy.receiving import Receiving
from orbitmq.proxy.routes import Routing
from orbitmq.proxy.sending import Sending
from orbitmq.proxy.settling import Settling
from orbitmq.proxy.telemetry import Telemetry
from orbitmq.proxy.transactions import Transactions
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

SERVICE = "apache.rocketmq.v2.MessagingService"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """The modules that answer calls."""

    routing: Routing
    presence: Presence
    sending: Sending
    receiving: Receiving
    settling: Settling
    transactions: Transactions
    lite: LiteSubscriptions
    offsets: Offsets
    telemetry: Telemetry


class Service:
    """Answers calls, and counts them."""

    def __init__(
        self,
        subjects: Subjects,
        access: AccessControl,
        settings: ProxySettings,
        peer_of: Callable[[str], str | None],
    ) -> None:
        self._subjects = subjects
        self._access = access
        self._most_open = settings.max_calls_of_client
        self._peer_of = peer_of
        self._open: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls by name and by the name of their answer's code."""

    def handlers(self) -> grpc.GenericRpcHandler:
        """The calls of the service for a gRPC server."""
        by = self._subjects
        answers: dict[str, Answer] = {
            "QueryRoute": by.routing.query_route,
            "QueryAssignment": by.routing.query_assignment,
            "Heartbeat": by.presence.heartbeat,
            "NotifyClientTermination": by.presence.notify_termination,
            "SendMessage": by.sending.send,
            "RecallMessage": without_caller(by.sending.recall),
            "AckMessage": by.settling.acknowledge,
            "ForwardMessageToDeadLetterQueue": by.settling.forward_to_dead_letters,
            "ChangeInvisibleDuration": by.settling.change_invisible_time,
            "EndTransaction": without_caller(by.transactions.end),
            "SyncLiteSubscription": by.lite.sync,
            "UpdateOffset": without_caller(by.offsets.update),
            "GetOffset": without_caller(by.offsets.get),
            "QueryOffset": without_caller(by.offsets.query),
        }
        methods = {name: self._unary(name, answer) for name, answer in answers.items()}
        methods["ReceiveMessage"] = self._stream("ReceiveMessage", by.receiving.receive)
        methods["PullMessage"] = self._stream("PullMessage", lambda request, caller: by.offsets.pull(request))
        methods["Telemetry"] = grpc.stream_stream_rpc_method_handler(
            self._telemetry_call,
            request_deserializer=pb.TelemetryCommand.FromString,
            response_serializer=pb.TelemetryCommand.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _unary(self, name: str, answer: Answer) -> grpc.RpcMethodHandler[Any, Any]:
        request_type, response_type = getattr(pb, f"{name}Request"), getattr(pb, f"{name}Response")

        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            caller: Caller | None = None
            try:
                caller = self._enter(context)
                await self._access.check(request, caller)
                response = await answer(request, caller)
            except Exception as error:
                response = response_type(status=self._reported(error, name))
            finally:
                self._leave(caller)
            self._count(name, response.status.code)
            return response

        return grpc.unary_unary_rpc_method_handler(
            call,
            request_deserializer=request_type.FromString,
            response_serializer=response_type.SerializeToString,
        )

    def _stream(
        self, name: str, answers: Callable[[Any, Caller], AsyncIterator[Any]]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        request_type, response_type = getattr(pb, f"{name}Request"), getattr(pb, f"{name}Response")

        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            caller: Caller | None = None
            code: int = pb.OK
            try:
                caller = self._enter(context)
                await self._access.check(request, caller)
                async for response in answers(request, caller):
                    if response.HasField("status"):
                        code = response.status.code
                    yield response
            except Exception as error:
                status = self._reported(error, name)
                code = status.code
                yield response_type(status=status)
            finally:
                self._leave(caller)
                self._count(name, code)

        return grpc.unary_stream_rpc_method_handler(
            call,
            request_deserializer=request_type.FromString,
            response_serializer=response_type.SerializeToString,
        )

    async def _telemetry_call(
        self, commands: AsyncIterator[pb.TelemetryCommand], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.TelemetryCommand]:
        caller: Caller | None = None
        try:
            caller = self._enter(context)
            async for command in self._subjects.telemetry.stream(self._checked(commands, caller), caller):
                yield command
        except ProxyRefused as error:
            self._count("Telemetry", error.code)
            known = pb.BAD_REQUEST <= error.code < pb.INTERNAL_ERROR
            code = grpc.StatusCode.INVALID_ARGUMENT if known else grpc.StatusCode.INTERNAL
            await context.abort(code, str(error))
        except OrbitError as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))
        finally:
            self._leave(caller)

    async def _checked(
        self, commands: AsyncIterator[pb.TelemetryCommand], caller: Caller
    ) -> AsyncIterator[pb.TelemetryCommand]:
        async for command in commands:
            await self._access.check(command, caller)
            yield command

    def _enter(self, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        """Takes a call. Raises ProxyRefused for one of a stranger, or where a client has too many open."""
        peer = self._peer_of(context.peer())
        if peer is None:
            raise ProxyRefused(pb.UNAUTHORIZED, "this port is for the proxy itself")
        caller = read_caller(context.invocation_metadata() or (), peer, context.time_remaining())
        if self._open[caller.client_id] >= self._most_open:
            raise ProxyRefused(pb.TOO_MANY_REQUESTS, f"this client has {self._most_open} open calls")
        self._open[caller.client_id] += 1
        return caller

    def _leave(self, caller: Caller | None) -> None:
        if caller is None:
            return
        self._open[caller.client_id] -= 1
        if self._open[caller.client_id] <= 0:
            del self._open[caller.client_id]

    def _count(self, name: str, code: int) -> None:
        try:
            shown = pb.Code.Name(code)  # type: ignore[arg-type]
        except ValueError:
            shown = str(code)
        self.calls[name, shown] += 1

    @staticmethod
    def _reported(error: Exception, name: str) -> pb.Status:
        if isinstance(error, asyncio.CancelledError):
            raise error
        if not isinstance(error, OrbitError | NetError | TimeoutError):
            log.exception("%s failed", name)
        return status_of(error)
