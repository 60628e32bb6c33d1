"""Signs of life of clients, and the ends of those that say goodbye or are silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.proxy.checks import CLIENT_TYPES
from orbitmq.proxy.clients import Client, Clients
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import OK, ProxyRefused
from orbitmq.proxy.lite.subscriptions import LiteSubscriptions
from orbitmq.proxy.settling import Settling
from orbitmq.proxy.telemetry import Telemetry
from orbitmq.proxy.wire import messaging_pb2 as pb


@dataclass(eq=False, repr=False)
class Presence:
    """The calls Heartbeat and NotifyClientTermination."""

    _clients: Clients
    _settling: Settling
    _lite: LiteSubscriptions
    _telemetry: Telemetry
    _now: Callable[[], int]

    async def heartbeat(self, request: pb.HeartbeatRequest, caller: Caller) -> pb.HeartbeatResponse:
        """A sign of life. Raises ProxyRefused for a client of no known type, or one without settings."""
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
        if client is None:
            self._settling.release_client(caller.client_id)
        else:
            await self._gone(client)
        return pb.NotifyClientTerminationResponse(status=OK)

    async def expire(self, silent_ms: int) -> None:
        """Forgets clients without a stream that were silent for so long: others get their messages."""
        for client in self._clients.expire(self._now() - silent_ms):
            await self._gone(client)

    async def _gone(self, client: Client) -> None:
        self._settling.release_client(client.caller.client_id)
        await self._lite.left(client)
