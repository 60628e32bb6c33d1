"""The port of clients that speak the remoting protocol, and the relay of each to brokers.

Each client has connections to brokers of its own. So brokers know it as if it had come to them: by its id, by
its signatures, and for what they ask of it. OrbitMQ's proxies need not know each other's clients; Apache's
keep theirs from the brokers, so a syncer tells and hears of them.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import KW_ONLY, InitVar, dataclass

from orbitmq.net.address import format_address
from orbitmq.net.balancers import parse_networks
from orbitmq.net.connection import Connection
from orbitmq.net.errors import CallTimeout, NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.tls import Contexts
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, Malformed, OrbitError, Refused
from orbitmq.protocol.remoting.command import Command, Oversized
from orbitmq.protocol.requests.client import NotifyConsumerIdsChanged
from orbitmq.protocol.requests.route import GetRouteinfoByTopic, route_reply
from orbitmq.protocol.requests.transaction import CheckTransactionState
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.heartbeat_syncer import HeartbeatSyncer
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.remoting.groups import Groups, with_others
from orbitmq.proxy.remoting.targets import (
    ROUTE,
    TO_ALL,
    TO_ANY,
    TO_ONE,
    only_broker,
    route_through,
    target_of,
)
from orbitmq.proxy.wire import messaging_pb2 as pb
from orbitmq.server.tasks.background import BackgroundTasks
from orbitmq.server.turn.listener import Listener

log = logging.getLogger(__name__)

MOST_OPEN = 1024
"""Requests of one client that wait for their answers."""
MOST_HELD_BYTES = 32 << 20
"""Bodies of the requests of one client that wait for their answers."""
MOST_UNSENT_BYTES = 64 << 20
"""Answers that wait for one client to take them; then it is cut."""
RELAYED_MS = 60_000
"""Longest wait for an answer: brokers hold pulls and pops for less."""


class _Client:
    """One client: its connection, and those that it has to brokers."""

    def __init__(self, connection: Connection, pool: ConnectionPool, groups: Groups | None) -> None:
        self.connection = connection
        self.pool = pool
        self.groups = groups
        self.open = 0
        self.held_bytes = 0


@dataclass(eq=False, repr=False)
class RemotingPort:
    """Accepts clients, and relays what they ask."""

    _cluster: Cluster
    _settings: ProxySettings
    _background: BackgroundTasks
    _: KW_ONLY
    tls: InitVar[Contexts | None]
    to_brokers: ssl.SSLContext | None
    syncer: HeartbeatSyncer | None = None

    def __post_init__(self, tls: Contexts | None) -> None:
        if self.syncer is not None:
            self.syncer.on_changed = self._members_changed
        self._clients: dict[int, _Client] = {}
        self._listener = Listener(
            self._on_requests,
            self._on_closed,
            max_connections=self._settings.max_connections,
            tls=tls,
            balancers=parse_networks(self._settings.proxy_protocol_from),
        )

    def __len__(self) -> int:
        return len(self._clients)

    async def listen(self, host: str, port: int) -> int:
        """The port listened on. Raises CannotListen."""
        await self._listener.listen(host, port, backlog=self._settings.server_socket_backlog)
        return self._listener.ports[0]

    def close_idle(self) -> None:
        """Closes connections on which nothing has come or left for long."""
        self._listener.close_idle(self._settings.server_channel_max_idle_time_seconds)
        for client in self._clients.values():
            client.pool.close_idle()

    async def close(self) -> None:
        """Ends every connection."""
        await self._listener.close()
        for client in list(self._clients.values()):
            await client.pool.close()

    def _on_closed(self, connection: Connection) -> None:
        client = self._clients.pop(connection.id, None)
        if client is not None:
            if client.groups is not None:
                client.groups.leave()
            self._background.start(client.pool.close(), f"end of {connection.address}")

    def _members_changed(self, group: str) -> None:
        """Has the members of a group share its queues again."""
        for client in self._clients.values():
            if client.groups is not None and group in client.groups.members:
                client.connection.send(NotifyConsumerIdsChanged(group).to_command(oneway=True))

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        client = self._clients.get(connection.id)
        if client is None:
            client = self._clients[connection.id] = _Client(
                connection,
                ConnectionPool(
                    lambda broker, asked: self._on_broker_requests(connection, broker, asked),
                    ssl=self.to_brokers,
                ),
                None if self.syncer is None else Groups(self.syncer, connection.address),
            )
        for command in commands:
            self._background.start(self._answer(client, command), f"relay of {connection.address}")

    async def _answer(self, client: _Client, command: Command) -> None:
        """Relays one request; what fails is told to the client, if it waits for an answer."""
        opaque, is_oneway, size = command.opaque, command.is_oneway, len(command.body or b"")
        if client.open >= MOST_OPEN or client.held_bytes + size > MOST_HELD_BYTES:
            answer: Command | None = _refusal(ResponseCode.SYSTEM_BUSY, "[PROXY]too many open requests")
        else:
            client.open += 1
            client.held_bytes += size
            try:
                answer = await self._relay(client, command)
            except ProxyRefused as error:
                is_unknown = error.code == pb.TOPIC_NOT_FOUND
                code = ResponseCode.TOPIC_NOT_EXIST if is_unknown else ResponseCode.SYSTEM_ERROR
                answer = _refusal(code, f"[PROXY]{error.message}")
            except BrokerRefused as error:
                answer = _refusal(error.code, error.remark or "")
            except CallTimeout as error:
                answer = _refusal(ResponseCode.SYSTEM_BUSY, f"[PROXY]{error}")
            except (NetError, Malformed) as error:
                answer = _refusal(ResponseCode.SYSTEM_ERROR, f"[PROXY]{error}")
            finally:
                client.open -= 1
                client.held_bytes -= size
        if is_oneway or answer is None:
            return
        answer.opaque = opaque
        client.connection.send(answer)
        if client.connection.unsent_bytes > MOST_UNSENT_BYTES:
            client.connection.cut("it does not take its answers")

    async def _relay(self, client: _Client, command: Command) -> Command | None:
        """The answer to a request. Raises ProxyRefused, NetError, BrokerRefused, Malformed."""
        code = command.code
        if isinstance(command, Oversized):
            return _refusal(ResponseCode.MESSAGE_ILLEGAL, f"a body of {command.body_bytes} bytes is too long")
        if code == ROUTE:
            return await self._route(client, command)
        if code in TO_ALL:
            answer = await self._tell_all(client, command)
            if client.groups is not None and answer is not None and answer.code == ResponseCode.SUCCESS:
                client.groups.note(command)
            return answer
        if code in TO_ANY:
            address = min((await self._cluster.masters()).values(), default="")
            if not address:
                raise ProxyRefused(pb.BAD_REQUEST, "no broker has a master now")
        elif code in TO_ONE:
            address = await self._cluster.member(await self._broker_name(command))
        else:
            return _refusal(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request code {code} is not served by a proxy"
            )
        answer = await self._ask(client, address, command)
        if self.syncer is None or code not in TO_ANY or answer is None:
            return answer
        group = (command.ext or {}).get("consumerGroup", "")
        return with_others(command, answer, self.syncer.members.of_group(group))

    async def _broker_name(self, command: Command) -> str:
        target = target_of(command)
        name = target.broker_name
        if name is None and target.topic is not None:
            name = only_broker(await self._cluster.route(target.topic))
        if name is None:
            names = list(await self._cluster.masters())
            name = names[0] if len(names) == 1 else None
        if name is None:
            raise ProxyRefused(
                pb.BAD_REQUEST,
                f"request {command.code} names no broker, and there are several: "
                "take a client of 5.0 or newer",
            )
        return name

    async def _ask(self, client: _Client, address: str, command: Command) -> Command | None:
        """Passes a request on to a broker, on a connection that takes it."""
        for may_go_away in (True, False):
            connection = await client.pool.connection(address)
            await connection.drain()
            if command.is_oneway:
                connection.send(command)
                return None
            answer = await connection.submit_command(command, f"request {command.code}", RELAYED_MS)
            if answer.code != ResponseCode.GO_AWAY or not may_go_away:
                break
            connection.close("the broker asked us to go away")
        return answer

    async def _tell_all(self, client: _Client, command: Command) -> Command | None:
        """Passes a request on to every master: one that takes it is enough."""
        answer, failure = None, None
        for address in sorted((await self._cluster.masters()).values()):
            try:
                got = await self._ask(client, address, command)
            except NetError as error:
                failure = error
                continue
            if got is not None and (answer is None or answer.code != ResponseCode.SUCCESS):
                answer = got
        if answer is None and failure is not None:
            raise failure
        return answer

    async def _route(self, client: _Client, command: Command) -> Command:
        request = GetRouteinfoByTopic.from_command(command)
        route = await self._cluster.route(request.topic)
        connection = client.connection
        address = self._settings.remoting_access_addr or format_address(
            connection.local_host, connection.local_port
        )
        return route_reply(route_through(route, address), command).to_command()

    # Requests of brokers to clients.

    def _on_broker_requests(self, client: Connection, broker: Connection, commands: list[Command]) -> None:
        for command in commands:
            self._background.start(self._ask_client(client, broker, command), f"request to {client.address}")

    async def _ask_client(self, client: Connection, broker: Connection, command: Command) -> None:
        if command.code == CheckTransactionState.CODE and not (command.ext or {}).get("bname"):
            members = await self._cluster.masters()
            name = next((one for one, address in members.items() if address == broker.address), None)
            if name is not None:
                command.ext = {**(command.ext or {}), "bname": name}
        if command.is_oneway:
            client.send(command)
            return
        opaque = command.opaque
        try:
            answer = await client.submit_command(command, f"request {command.code}", RELAYED_MS)
        except (OrbitError, NetError) as error:
            answer = _refusal(ResponseCode.SYSTEM_ERROR, f"[PROXY]{error}")
        answer.opaque = opaque
        broker.send(answer)


def _refusal(code: int, remark: str) -> Command:
    return Command.refusal(Refused(code, remark))
