"""The clients that are connected to this proxy: their settings, groups and telemetry streams. Rules only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.wire import messaging_pb2 as pb

Write = Callable[[pb.TelemetryCommand], bool]
"""Queues a command for a client; False if its stream takes no more."""


@dataclass(slots=True)
class Client:
    """One client: what it has said of itself."""

    caller: Caller
    settings: pb.Settings
    last_heard_ms: int
    streams: list[Write] = field(default_factory=list)
    """Its open telemetry streams, the newest last."""

    @property
    def group(self) -> str | None:
        """The consumer group; None for a producer."""
        if self.settings.WhichOneof("pub_sub") != "subscription":
            return None
        return self.settings.subscription.group.name

    @property
    def topics(self) -> list[str]:
        """The topics that a producer has named."""
        return [topic.name for topic in self.settings.publishing.topics]

    def tell(self, command: pb.TelemetryCommand) -> bool:
        """Sends a command over a stream that takes it; False without one."""
        return any(write(command) for write in reversed(self.streams))


class Clients:
    """All clients by id, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: dict[str, Client] = {}
        self._turn = 0
        self.on_heard: Callable[[Client], None] = lambda client: None
        """Called when the settings of a client have come, and at its heartbeats."""
        self.on_gone: Callable[[Client], None] = lambda client: None
        """Called with a client that is forgotten."""

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self._clients.values()))

    def get(self, client_id: str) -> Client | None:
        """The client of an id."""
        return self._clients.get(client_id)

    def register(self, caller: Caller, settings: pb.Settings, now: int) -> Client:
        """Takes the settings of a client, new or known. Raises ProxyRefused where there are too many."""
        client = self._clients.get(caller.client_id)
        if client is None:
            if len(self._clients) >= self._most:
                raise ProxyRefused(
                    pb.TOO_MANY_REQUESTS,
                    f"{self._most} clients are connected to this proxy: no more are taken",
                )
            client = self._clients[caller.client_id] = Client(caller, settings, now)
        client.caller, client.settings, client.last_heard_ms = caller, settings, now
        self.on_heard(client)
        return client

    def heard(self, client_id: str, now: int) -> Client:
        """Notes a sign of life. Raises ProxyRefused for a client whose settings are unknown."""
        client = self._clients.get(client_id)
        if client is None:
            raise ProxyRefused(
                pb.UNRECOGNIZED_CLIENT_TYPE, "the settings of this client are not known: open Telemetry first"
            )
        client.last_heard_ms = now
        return client

    def remove(self, client_id: str) -> Client | None:
        """Forgets a client that has said goodbye."""
        client = self._clients.pop(client_id, None)
        if client is not None:
            self.on_gone(client)
        return client

    def expire(self, before_ms: int) -> list[Client]:
        """Forgets clients without a stream that were last heard before `before_ms`."""
        gone = [
            client
            for client in self._clients.values()
            if not client.streams and client.last_heard_ms < before_ms
        ]
        for client in gone:
            self.remove(client.caller.client_id)
        return gone

    def of_group(self, group: str) -> list[Client]:
        """The members of a consumer group."""
        return [client for client in self._clients.values() if client.group == group]

    def groups(self) -> set[str]:
        """The groups that have members."""
        return {client.group for client in self._clients.values() if client.group}

    def producer_topics(self) -> set[str]:
        """The topics that producers have named."""
        return {topic for client in self._clients.values() for topic in client.topics}

    def tell_a_producer(self, topic: str, command: pb.TelemetryCommand) -> bool:
        """Sends a command to one producer of a topic, another one each time; False if none takes it."""
        producers = [client for client in self._clients.values() if topic in client.topics]
        for step in range(len(producers)):
            self._turn += 1
            if producers[(self._turn + step) % len(producers)].tell(command):
                return True
        return False
