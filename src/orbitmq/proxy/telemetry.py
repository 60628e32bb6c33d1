"""The call Telemetry: settings of clients, and commands to them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable

from orbitmq.proxy.checks import CLIENT_TYPES, group_name, topic_name
from orbitmq.proxy.clients import Client, Clients
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.lite.rules import check_kind
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.settings import consumer_settings, producer_settings
from orbitmq.proxy.subscriptions import subscription_of
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

MOST_WAITING = 64
"""Commands that wait for a client that does not read its stream; it gets no further ones."""
MOST_TOPICS = 1024
"""Topics of one client's settings."""


class Telemetry:
    """All telemetry streams, and the answers that are awaited over them."""

    def __init__(
        self, cluster: Cluster, clients: Clients, settings: ProxySettings, now: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._settings = settings
        self._now = now
        self._nonces = itertools.count(1)
        self._awaited: dict[str, asyncio.Future[pb.TelemetryCommand]] = {}
        self.on_producer: Callable[[list[str]], None] = lambda topics: None
        """Called with the topics of a producer whose settings have come."""

    async def stream(
        self, commands: AsyncIterator[pb.TelemetryCommand], caller: Caller
    ) -> AsyncIterator[pb.TelemetryCommand]:
        """The answers to a client's commands, and the proxy's own commands. Raises ProxyRefused."""
        waiting: asyncio.Queue[pb.TelemetryCommand | Exception | None] = asyncio.Queue(MOST_WAITING)

        is_full = False

        def write(command: pb.TelemetryCommand) -> bool:
            nonlocal is_full
            was_full, is_full = is_full, waiting.full()
            if not is_full:
                waiting.put_nowait(command)
            elif not was_full:
                log.warning("client %s does not read its telemetry stream", caller.client_id)
            return not is_full

        client: Client | None = None

        async def read() -> None:
            nonlocal client
            try:
                async for command in commands:
                    if command.WhichOneof("command") != "settings":
                        self._answered(command)
                        continue
                    merged = await self.merge(command.settings)
                    client = self._clients.register(caller, merged, self._now())
                    if write not in client.streams:
                        client.streams.append(write)
                    if client.topics:
                        self.on_producer(client.topics)
                    answer = pb.TelemetryCommand(settings=merged)
                    answer.status.code, answer.status.message = pb.OK, "OK"
                    write(answer)
            except Exception as error:
                await waiting.put(error)
                return
            await waiting.put(None)

        reader = asyncio.create_task(read(), name=f"telemetry of {caller.client_id}")
        try:
            while (command := await waiting.get()) is not None:
                if isinstance(command, Exception):
                    raise command
                yield command
        finally:
            reader.cancel()
            if client is not None and write in client.streams:
                client.streams.remove(write)

    async def merge(self, asked: pb.Settings) -> pb.Settings:
        """The settings that a client gets for its own. Raises ProxyRefused."""
        kind = asked.WhichOneof("pub_sub")
        if asked.client_type not in (pb.CLIENT_TYPE_UNSPECIFIED, *CLIENT_TYPES):
            raise ProxyRefused(pb.UNRECOGNIZED_CLIENT_TYPE, f"no type of client is {asked.client_type}")
        if kind == "publishing":
            if len(asked.publishing.topics) > MOST_TOPICS:
                raise ProxyRefused(pb.ILLEGAL_TOPIC, f"a producer may name {MOST_TOPICS} topics")
            for topic in asked.publishing.topics:
                topic_name(topic)
            return producer_settings(asked, self._settings)
        if kind == "subscription":
            group = group_name(asked.subscription.group)
            if len(asked.subscription.subscriptions) > MOST_TOPICS:
                raise ProxyRefused(pb.ILLEGAL_TOPIC, f"a consumer may subscribe to {MOST_TOPICS} topics")
            for entry in asked.subscription.subscriptions:
                subscription_of(topic_name(entry.topic), entry.expression)
            config = await self._cluster.group(group)
            check_kind(asked.client_type, group, config)
            return consumer_settings(asked, self._settings, config)
        raise ProxyRefused(
            pb.UNRECOGNIZED_CLIENT_TYPE, "settings have to be those of a producer or of a consumer"
        )

    async def ask(self, client: Client, command: pb.TelemetryCommand) -> pb.TelemetryCommand:
        """Sends a command with a nonce, and waits for its answer.

        Raises ProxyRefused for a client without a stream, or one that does not answer.
        """
        limit_s = self._settings.grpc_proxy_relay_request_timeout_in_seconds
        nonce = f"{next(self._nonces)}"
        getattr(command, command.WhichOneof("command") or "").nonce = nonce
        answer: asyncio.Future[pb.TelemetryCommand] = asyncio.get_running_loop().create_future()
        self._awaited[nonce] = answer
        try:
            if not client.tell(command):
                raise ProxyRefused(pb.NOT_FOUND, f"client {client.caller.client_id} has no telemetry stream")
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError:
            raise ProxyRefused(
                pb.REQUEST_TIMEOUT,
                f"client {client.caller.client_id} did not answer within {limit_s} s",
            ) from None
        finally:
            self._awaited.pop(nonce, None)

    def _answered(self, command: pb.TelemetryCommand) -> None:
        kind = command.WhichOneof("command")
        if kind not in ("thread_stack_trace", "verify_message_result"):
            return
        waiter = self._awaited.get(getattr(command, kind).nonce)
        if waiter is not None and not waiter.done():
            waiter.set_result(command)

    def reconnect_all(self) -> None:
        """Tells every client to go elsewhere: this proxy stops."""
        command = pb.TelemetryCommand(reconnect_endpoints_command=pb.ReconnectEndpointsCommand(nonce=""))
        for client in self._clients:
            client.tell(command)
