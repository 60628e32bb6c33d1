"""A name server and brokers that talk to it, without network or clock: what the stories are told with."""

from __future__ import annotations

from typing import Any

from orbitmq.handling.call import Call, OffLoop, Outcome, Peer, Wait
from orbitmq.nameserver.nameserver import NameServer
from orbitmq.nameserver.options import NamesrvSettings
from orbitmq.protocol.bodies.route import RegisterBrokerBody, TopicRouteData
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
)
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.route import (
    GetRouteinfoByTopic,
    QueryDataVersion,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
)
from orbitmq.protocol.schema.declare import Reply, Request

START = 1_700_000_000_000
TOPICS = ("TopicA", "TopicB")


def off_loop_done(result: Wait, now: int) -> Any:
    """The result that follows once a thread has done the work that a reply waits for."""
    (condition,) = result.on
    assert isinstance(condition, OffLoop)
    outcome = Outcome(timed_out=False)
    try:
        while True:
            next(condition.work)
    except StopIteration as done:
        outcome.value = done.value
    except Exception as error:
        outcome.error = error
    return result.then(outcome, now)


class Story:
    """Time passes only when the story says so."""

    def __init__(self, **settings: Any) -> None:
        self.settings = NamesrvSettings(**settings)
        self.server = NameServer(self.settings, START)
        self.handlers = self.server.bind()
        self.now = START

    def ask(self, request: Request[Any], *, connection: int = 1, version: int = 493, **ext: str) -> Any:
        """The reply to a request as a peer would send it; a wait for the disk is over at once."""
        command = request.to_command()
        command.version = version
        command.ext = {**(command.ext or {}), **ext}
        read = type(request).from_command(command)
        peer = Peer(connection, b"\x7f\0\0\x01\0\0\0\x01", "127.0.0.1:1", version)
        result = self.handlers[request.CODE](Call(read, command, peer), self.now)
        if isinstance(result, Wait) and isinstance(result.on[0], OffLoop):
            result = off_loop_done(result, self.now)
        if isinstance(result, Wait):
            self.saved = self.server.dirty_tables.drain_soon()
            result = result.then(Outcome(timed_out=False), self.now)
        assert isinstance(result, Reply)
        return result

    def route(self, topic: str, *, version: int = 400, **ext: str) -> TopicRouteData:
        """The route of a topic, read back from what goes over the wire."""
        reply = self.ask(GetRouteinfoByTopic(topic), version=version, **ext)
        body = reply.to_command().body
        assert body is not None
        return TopicRouteData.from_json(body)


class Broker:
    """One member of a broker group."""

    def __init__(
        self,
        story: Story,
        name: str = "broker-a",
        broker_id: int = 0,
        *,
        address: str | None = None,
        cluster: str = "C",
        connection: int | None = None,
        acting: bool | None = None,
        timeout_ms: int | None = None,
        zone: str | None = None,
    ) -> None:
        self.story = story
        self.name = name
        self.broker_id = broker_id
        self.address = address or f"{name}-{broker_id}:10911"
        self.cluster = cluster
        self.connection = connection if connection is not None else hash(self.address) & 0xFFFF
        self.acting = acting
        self.timeout_ms = timeout_ms
        self.zone = zone
        self.version = DataVersion(1, 0, START)
        self.topics = {topic: TopicConfig(topic, 4, 4) for topic in TOPICS}
        self.mappings: dict[str, TopicQueueMappingInfo] = {}
        self.filters: list[str] = []

    def body(self) -> RegisterBrokerBody:
        """The table as it goes into a registration."""
        wrapper = TopicConfigAndMappingSerializeWrapper(
            self.topics, self.version, topic_queue_mapping_info_map=self.mappings
        )
        return RegisterBrokerBody(wrapper, self.filters)

    def register(self, **changed: Any) -> RegisterBrokerReply:
        """Tells the name server everything."""
        request = RegisterBroker(
            self.name,
            self.address,
            self.cluster,
            f"{self.address}-ha",
            self.broker_id,
            self.timeout_ms,
            self.acting,
            zone_name=self.zone,
            body=self.body(),
        )
        for name, value in changed.items():
            setattr(request, name, value)
        reply = self.story.ask(request, connection=self.connection)
        assert isinstance(reply, RegisterBrokerReply)
        return reply

    def change(self) -> None:
        """The table has another version now."""
        self.version = DataVersion(self.version.counter + 1, self.version.state_version, self.story.now)

    def ask_version(self) -> tuple[bool, DataVersion | None]:
        """True first if the broker has to register again."""
        reply = self.story.ask(
            QueryDataVersion(self.name, self.address, self.cluster, self.broker_id, self.version)
        )
        return reply.changed, reply.body

    def unregister(self) -> None:
        """Says farewell."""
        self.story.ask(UnregisterBroker(self.name, self.address, self.cluster, self.broker_id))


def rows(route: TopicRouteData) -> dict[str, tuple[int, int, int]]:
    """Broker -> (read queues, write queues, perm)."""
    return {
        row.broker_name: (row.read_queue_nums, row.write_queue_nums, row.perm) for row in route.queue_datas
    }


def addresses(route: TopicRouteData) -> dict[str, dict[int, str]]:
    """Broker -> id -> address."""
    return {broker.broker_name: broker.broker_addrs or {} for broker in route.broker_datas}


def refused(call: Any) -> tuple[int, str]:
    """Code and remark with which a call is refused."""
    from orbitmq.protocol.errors import Refused

    try:
        call()
    except Refused as error:
        return int(error.code), error.remark
    raise AssertionError("not refused")


__all__ = ["START", "TOPICS", "Broker", "Command", "Story", "addresses", "refused", "rows"]
