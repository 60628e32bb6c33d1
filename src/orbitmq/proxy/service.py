"""The calls of `MessagingService`: each is answered by the module of its subject.

An error of a rule or of a broker is a status within the answer; the status of the gRPC call itself is OK, as
clients expect it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.lite_topics import bound_topic
from orbitmq.proxy.access import Access
from orbitmq.proxy.checks import CLIENT_TYPES, group_name, topic_name
from orbitmq.proxy.clients import Clients
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller, read_caller
from orbitmq.proxy.errors import OK, ProxyRefused, status_of
from orbitmq.proxy.lite.subscriptions import LiteSubscriptions
from orbitmq.proxy.offsets import Offsets
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.receiving import Receiving
from orbitmq.proxy.routes import assignments, message_queues, told_endpoints
from orbitmq.proxy.sending import Sending
from orbitmq.proxy.settling import Settling
from orbitmq.proxy.telemetry import Telemetry
from orbitmq.proxy.transactions import Transactions
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

SERVICE = "apache.rocketmq.v2.MessagingService"


class Service:
    """Answers calls, and counts them."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        clients: Clients,
        settings: ProxySettings,
        sending: Sending,
        receiving: Receiving,
        settling: Settling,
        transactions: Transactions,
        lite: LiteSubscriptions,
        telemetry: Telemetry,
        access: Access,
        now: Callable[[], int],
        peer_of: Callable[[str], str | None],
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._settings = settings
        self._sending = sending
        self._receiving = receiving
        self._settling = settling
        self._transactions = transactions
        self._lite = lite
        self._telemetry = telemetry
        self._access = access
        self._offsets = Offsets(cluster, settings)
        self._now = now
        self._peer_of = peer_of
        self._open: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls by name and by the name of their answer's code."""

    def handlers(self) -> grpc.GenericRpcHandler:
        """The calls of the service for a gRPC server."""
        methods = {
            "QueryRoute": self._unary(self.query_route, pb.QueryRouteRequest, pb.QueryRouteResponse),
            "Heartbeat": self._unary(self.heartbeat, pb.HeartbeatRequest, pb.HeartbeatResponse),
            "SendMessage": self._unary(self._sending.send, pb.SendMessageRequest, pb.SendMessageResponse),
            "QueryAssignment": self._unary(
                self.query_assignment, pb.QueryAssignmentRequest, pb.QueryAssignmentResponse
            ),
            "ReceiveMessage": self._stream(
                self._receiving.receive, pb.ReceiveMessageRequest, pb.ReceiveMessageResponse
            ),
            "AckMessage": self._unary(
                self._settling.acknowledge, pb.AckMessageRequest, pb.AckMessageResponse
            ),
            "ForwardMessageToDeadLetterQueue": self._unary(
                self._settling.forward_to_dead_letters,
                pb.ForwardMessageToDeadLetterQueueRequest,
                pb.ForwardMessageToDeadLetterQueueResponse,
            ),
            "ChangeInvisibleDuration": self._unary(
                self._settling.change_invisible_time,
                pb.ChangeInvisibleDurationRequest,
                pb.ChangeInvisibleDurationResponse,
            ),
            "EndTransaction": self._unary(
                _without_caller(self._transactions.end), pb.EndTransactionRequest, pb.EndTransactionResponse
            ),
            "NotifyClientTermination": self._unary(
                self.notify_termination,
                pb.NotifyClientTerminationRequest,
                pb.NotifyClientTerminationResponse,
            ),
            "SyncLiteSubscription": self._unary(
                self._lite.sync, pb.SyncLiteSubscriptionRequest, pb.SyncLiteSubscriptionResponse
            ),
            "RecallMessage": self._unary(
                _without_caller(self._sending.recall), pb.RecallMessageRequest, pb.RecallMessageResponse
            ),
            "PullMessage": self._stream(
                lambda request, caller: self._offsets.pull(request),
                pb.PullMessageRequest,
                pb.PullMessageResponse,
            ),
            "UpdateOffset": self._unary(
                _without_caller(self._offsets.update), pb.UpdateOffsetRequest, pb.UpdateOffsetResponse
            ),
            "GetOffset": self._unary(
                _without_caller(self._offsets.get), pb.GetOffsetRequest, pb.GetOffsetResponse
            ),
            "QueryOffset": self._unary(
                _without_caller(self._offsets.query), pb.QueryOffsetRequest, pb.QueryOffsetResponse
            ),
            "Telemetry": grpc.stream_stream_rpc_method_handler(
                self._telemetry_call,
                request_deserializer=pb.TelemetryCommand.FromString,
                response_serializer=pb.TelemetryCommand.SerializeToString,
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    # Calls that need no module of their own.

    async def query_route(self, request: pb.QueryRouteRequest, caller: Caller) -> pb.QueryRouteResponse:
        """The queues of a topic."""
        topic = topic_name(request.topic)
        route = await self._cluster.route(topic)
        kind = await self._cluster.topic_type(topic)
        queues = message_queues(topic, route, kind, self._endpoints(request.endpoints))
        return pb.QueryRouteResponse(status=OK, message_queues=queues)

    async def query_assignment(
        self, request: pb.QueryAssignmentRequest, caller: Caller
    ) -> pb.QueryAssignmentResponse:
        """The queues that a member of a group reads."""
        topic, group = topic_name(request.topic), group_name(request.group)
        route = await self._cluster.route(topic)
        config = await self._cluster.group(group)
        # Lite topics are read from a broker as a whole, also in order.
        fifo = config.consume_message_orderly and bound_topic(config) is None
        found = assignments(topic, route, self._endpoints(request.endpoints), fifo=fifo)
        return pb.QueryAssignmentResponse(status=OK, assignments=found)

    async def heartbeat(self, request: pb.HeartbeatRequest, caller: Caller) -> pb.HeartbeatResponse:
        """A sign of life."""
        if request.client_type not in CLIENT_TYPES:
            raise ProxyRefused(pb.UNRECOGNIZED_CLIENT_TYPE, "the heartbeat names no known type of client")
        client = self._clients.heard(caller.client_id, self._now())
        self._clients.on_heard(client)
        if client.topics:
            self._telemetry.on_producer(client.topics)
        return pb.HeartbeatResponse(status=OK)

    async def notify_termination(
        self, request: pb.NotifyClientTerminationRequest, caller: Caller
    ) -> pb.NotifyClientTerminationResponse:
        """A client says goodbye: others get its messages soon."""
        client = self._clients.remove(caller.client_id)
        if client is not None:
            await self._lite.left(client)
        self._settling.release_client(caller.client_id)
        return pb.NotifyClientTerminationResponse(status=OK)

    def _endpoints(self, asked: pb.Endpoints) -> pb.Endpoints:
        settings = self._settings
        return told_endpoints(
            asked,
            settings.grpc_server_port,
            [part for part in settings.advertised_endpoints.split(";") if part],
            own_port=not settings.use_endpoint_port_from_request,
        )

    # From gRPC's calls to ours.

    def _unary(
        self, answer: Callable[[Any, Caller], Awaitable[Any]], request_type: Any, response_type: Any
    ) -> grpc.RpcMethodHandler[Any, Any]:
        name = request_type.DESCRIPTOR.name.removesuffix("Request")

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
        self, answers: Callable[[Any, Caller], AsyncIterator[Any]], request_type: Any, response_type: Any
    ) -> grpc.RpcMethodHandler[Any, Any]:
        name = request_type.DESCRIPTOR.name.removesuffix("Request")

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
            async for command in self._telemetry.stream(self._checked(commands, caller), caller):
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
        if self._open[caller.client_id] >= self._settings.max_calls_of_client:
            raise ProxyRefused(
                pb.TOO_MANY_REQUESTS, f"this client has {self._settings.max_calls_of_client} open calls"
            )
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


def _without_caller(answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any, Caller], Awaitable[Any]]:
    async def call(request: Any, caller: Caller) -> Any:
        return await answer(request)

    return call
