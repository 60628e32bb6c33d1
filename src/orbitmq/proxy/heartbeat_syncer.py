"""Shares the consumers of several proxies over a topic, as Apache's proxies do: each tells of its own.

The members of a group that speak the remoting protocol share its queues among those that they hear of, so
behind several kinds of proxies they must hear of all. Operators see all members at every proxy.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from google.protobuf import json_format

from orbitmq.admin.admin import Admin
from orbitmq.admin.topics import create_topic_on_masters
from orbitmq.client.core.identity import own_ip
from orbitmq.net.address import parse_addresses
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.bodies.proxies import ChannelType, HeartbeatSyncerData, HeartbeatType, RemoteChannel
from orbitmq.protocol.codes import LanguageCode
from orbitmq.protocol.errors import Malformed, OrbitError
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.remoting.command import VERSION
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import MAY_BE_HELD, SUBSCRIPTION_IN_REQUEST, PullMessage
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.proxy.clients import Client
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.remote_members import EXPIRY_MS, RemoteMembers
from orbitmq.proxy.subscriptions import subscription_of
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

REPEAT_MS = 10_000
"""A member that stays as it was is told of again after this time."""
MOST_UNSENT = 10_000
"""Heartbeats that wait for a broker; further ones are left out, for they are repeated."""
HOLD_MS = 15_000
FAREWELL_SECONDS = 5.0
"""Time of a proxy that stops to tell of it; others forget in two minutes whom it could not name."""
LOOK_SECONDS = 20.0
PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LocalMember:
    """One consumer of this proxy."""

    client_id: str
    language: LanguageCode
    kind: ChannelType
    remote_address: str
    consumer: ConsumerData
    attribute: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.consumer.group_name, self.client_id, self.remote_address)


@dataclass(slots=True)
class _Told:
    member: LocalMember
    at_ms: int


@dataclass
class HeartbeatSyncer:
    """Tells other proxies of the consumers of this one, and hears of theirs.

    `on_changed` is called with a group whose members elsewhere are others than before.
    """

    cluster: Cluster
    admin: Admin
    settings: ProxySettings
    now: Callable[[], int]
    members: RemoteMembers = field(init=False)
    on_changed: Callable[[str], None] = lambda group: None

    def __post_init__(self) -> None:
        settings = self.settings
        # Unlike an address, which may be that of all interfaces, it differs for every process.
        self._id = f"{uuid.uuid4()}%{settings.remoting_listen_port}%{settings.grpc_server_port}"
        self._ip = settings.local_serve_addr
        self.members = RemoteMembers(self._id, settings.max_clients)
        self._told: dict[tuple[str, str, str], _Told] = {}
        self._unsent: asyncio.Queue[HeartbeatSyncerData] = asyncio.Queue(MOST_UNSENT)
        self._readers: dict[tuple[str, int], asyncio.Task[None]] = {}

    @property
    def topic(self) -> str:
        """The topic of all proxies."""
        return self.settings.heartbeat_syncer_topic_name

    async def find_address(self) -> None:
        """Has others know this proxy by one address from now on. Call before anything is told."""
        if not self._ip:
            self._ip = await own_ip(next(iter(parse_addresses(self.settings.namesrv_addr))))

    # News from this proxy.

    def registered(self, member: LocalMember) -> None:
        """A member of this proxy was heard."""
        told, now = self._told.get(member.key), self.now()
        if told is not None and told.member == member and now - told.at_ms < REPEAT_MS:
            return
        self._told[member.key] = _Told(member, now)
        self._tell(HeartbeatType.REGISTER, member)

    def left(self, member: LocalMember) -> None:
        """A member of this proxy has gone."""
        if self._told.pop(member.key, None) is not None:
            self._tell(HeartbeatType.UNREGISTER, member)

    def client_heard(self, client: Client) -> None:
        """A gRPC client was heard."""
        if client.group:
            self.registered(grpc_member(client, client.group))

    def client_left(self, client: Client) -> None:
        """A gRPC client has gone."""
        if client.group:
            self.left(grpc_member(client, client.group))

    async def all_left(self) -> None:
        """Tells that all members have gone, for `FAREWELL_SECONDS` at most; `send` has to run."""
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                for told in list(self._told.values()):
                    await self._unsent.put(self._said(HeartbeatType.UNREGISTER, told.member))
                await self._unsent.join()
        except TimeoutError:
            log.warning("other proxies were not told of all clients that have left")

    def _tell(self, kind: HeartbeatType, member: LocalMember) -> None:
        try:
            self._unsent.put_nowait(self._said(kind, member))
        except asyncio.QueueFull:
            self._told.pop(member.key, None)

    def _said(self, kind: HeartbeatType, member: LocalMember) -> HeartbeatSyncerData:
        consumer, is_here = member.consumer, kind is HeartbeatType.REGISTER
        channel = RemoteChannel(
            self._ip, member.remote_address, self.settings.bind_address, member.kind, member.attribute
        )
        return HeartbeatSyncerData(
            kind,
            member.client_id,
            member.language,
            VERSION,
            self.now(),
            consumer.subscription_data_set if is_here else None,
            consumer.group_name,
            consumer.consume_type if is_here else None,
            consumer.message_model if is_here else None,
            consumer.consume_from_where if is_here else None,
            self._id,
            channel.to_json_text(),
        )

    async def send(self) -> None:
        """Sends what is to be told, until cancelled."""
        while True:
            data = await self._unsent.get()
            try:
                queue, address = await self.cluster.queue_to_write(self.topic, None)
                await self.cluster.call(
                    address,
                    SendMessageV2(
                        f"PID_{self.topic}", self.topic, AUTO_CREATE_TOPIC, 0, queue.queue_id, 0,
                        self.now(), 0, "", 0, False, None, False, queue.broker_name, data.to_json(),
                    ),
                )  # fmt: skip
            except (ProxyRefused, OrbitError, NetError) as error:
                log.warning("other proxies do not hear of %s: %s", data.client_id, error)
                self.cluster.forget_route(self.topic)
            finally:
                self._unsent.task_done()

    # News from others.

    async def hear(self) -> None:
        """Reads what other proxies tell, until cancelled; makes the topic if it is missing."""
        try:
            while True:
                try:
                    await self._share_queues()
                except (ProxyRefused, OrbitError, NetError) as error:
                    log.warning("proxies do not hear of each other's clients: %s", error)
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                await asyncio.sleep(LOOK_SECONDS)
                self._forget_told()
                for group in self.members.expire(self.now()):
                    self.on_changed(group)
        finally:
            for reader in self._readers.values():
                reader.cancel()

    def _forget_told(self) -> None:
        """Forgets what has not been told for long: clients that came back from another address."""
        before = self.now() - EXPIRY_MS
        self._told = {key: told for key, told in self._told.items() if told.at_ms >= before}

    async def _share_queues(self) -> None:
        try:
            route = await self.cluster.route(self.topic)
        except ProxyRefused:
            cluster = self.settings.heartbeat_syncer_topic_cluster_name
            await create_topic_on_masters(self.admin, self.topic, queues=1, cluster=cluster)
            route = await self.cluster.route(self.topic)
        for queue in route.subscribe_queues:
            key = (queue.broker_name, queue.queue_id)
            if key not in self._readers:
                self._readers[key] = asyncio.create_task(self._read(*key), name=f"{self.topic} {key}")

    async def _read(self, broker: str, queue_id: int) -> None:
        """Reads one queue from its end on."""
        offset: int | None = None
        while True:
            try:
                address = await self.cluster.member(broker)
                if offset is None:
                    offset = (await self.cluster.call(address, GetMaxOffset(self.topic, queue_id))).offset
                offset = await self._pull(address, broker, queue_id, offset)
            except (ProxyRefused, OrbitError, NetError) as error:
                log.warning("what other proxies tell at %s is not read: %s", broker, error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _pull(self, address: str, broker: str, queue_id: int, offset: int) -> int:
        reply = await self.cluster.call(
            address,
            PullMessage(
                f"CID_{self.topic}", self.topic, queue_id, offset, 32,
                SUBSCRIPTION_IN_REQUEST | MAY_BE_HELD, 0, HOLD_MS, 0,
                subscription="*", expression_type="TAG", broker_name=broker,
            ),
            HOLD_MS + self.settings.broker_timeout_ms,
        )  # fmt: skip
        records, _ = decode_records(reply.body or b"")
        for record in records:
            try:
                group = self.members.take(record.body, self.now())
            except Malformed as error:
                log.warning("a heartbeat of another proxy cannot be read: %s", error)
                continue
            if group is not None:
                self.on_changed(group)
        return reply.next_begin_offset


def grpc_member(client: Client, group: str) -> LocalMember:
    """A gRPC client as another proxy takes it: its settings ride along, as Apache's write them."""
    rows: list[SubscriptionData] = [
        subscription_of(one.topic.name, one.expression) for one in client.settings.subscription.subscriptions
    ]
    pushed = client.settings.client_type in (pb.PUSH_CONSUMER, pb.LITE_PUSH_CONSUMER)
    consumer = ConsumerData(
        group,
        ConsumeType.CONSUME_PASSIVELY if pushed else ConsumeType.CONSUME_ACTIVELY,
        MessageModel.CLUSTERING,
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        rows,
    )
    return LocalMember(
        client.caller.client_id,
        LanguageCode.__members__.get(client.caller.language, LanguageCode.OTHER),
        ChannelType.GRPC_V2,
        client.caller.host,
        consumer,
        json_format.MessageToJson(client.settings, indent=None),
    )
