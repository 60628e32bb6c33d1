"""Routes of a task that writes: asked of any name server, kept, and asked for again."""

from __future__ import annotations

import pytest

from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.schema.declare import JsonReply
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.connecting import PLAIN
from orbitmq.spark.sink.errors import WriteFailed
from orbitmq.spark.sink.routes import Routes
from tests.kit.spark_broker import FakeBroker

NOBODY = "127.0.0.1:1"


class NameServer(FakeBroker):
    """Knows topics by name: the permission of their queues, and the members of each broker."""

    def __init__(self, **brokers: dict[int, str]) -> None:
        super().__init__(self._route)
        self.brokers = brokers
        self.perm = 6
        self.code = 0

    def _route(self, command: Command) -> Command:
        if self.code or not self.brokers:
            return Command(self.code or 17, 0, FLAG_RESPONSE, None, None, "no route")
        route = TopicRouteData(
            queue_datas=[QueueData(name, 2, 2, self.perm) for name in self.brokers],
            broker_datas=[BrokerData("C", name, members) for name, members in self.brokers.items()],
        )
        return JsonReply[TopicRouteData](body=route).to_command(0)


def test_a_route_is_asked_for_once_and_kept() -> None:
    with NameServer(a={0: "h:1", 1: "h:2"}, b={0: "h:3"}) as names:
        routes = Routes([names.address], PLAIN)
        for _ in range(2):
            assert {(one.broker_name, one.queue_id) for one in routes.queues("T")} == {
                (name, number) for name in "ab" for number in range(2)
            }
            assert routes.masters("T") == ["h:1", "h:3"]
            assert routes.master(MessageQueue("T", "b", 0)) == "h:3"
        assert len(names.requests) == 1


def test_another_name_server_is_asked_where_one_is_down_or_does_not_know_the_topic() -> None:
    with NameServer() as ignorant, NameServer(a={0: "h:1"}) as names:
        assert Routes([NOBODY, ignorant.address, names.address], PLAIN).masters("T") == ["h:1"]


def test_a_topic_that_nobody_knows_is_a_mistake_and_one_that_nobody_can_be_asked_about_is_not() -> None:
    with NameServer() as names:
        with pytest.raises(BadOption, match=f"topic T does not exist: {names.address} does not know it"):
            Routes([names.address], PLAIN).queues("T")
        with pytest.raises(WriteFailed, match="no route to topic T"):
            Routes([names.address, NOBODY], PLAIN).queues("T")


def test_a_refusal_is_handed_on() -> None:
    with NameServer(a={0: "h:1"}) as names:
        names.code = 16
        with pytest.raises(BrokerRefused):
            Routes([names.address], PLAIN).queues("T")


def test_what_was_known_stays_where_no_name_server_answers() -> None:
    with NameServer(a={0: "h:1"}) as names:
        routes = Routes([names.address], PLAIN)
        known = routes.route("T")
    assert routes.refresh("T") is known
    assert routes.masters("T") == ["h:1"]


def test_a_topic_without_writable_queues_is_asked_for_again() -> None:
    with NameServer(a={0: "h:1"}) as names:
        routes = Routes([names.address], PLAIN)
        names.perm = 4
        with pytest.raises(WriteFailed, match="topic T has no queue that can be written to now"):
            routes.queues("T")
        names.perm = 6
        assert len(routes.queues("T")) == 2


def test_a_broker_without_a_master_takes_nothing_now() -> None:
    with NameServer(a={0: "h:1"}, b={1: "h:2"}) as names:
        routes = Routes([names.address], PLAIN)
        with pytest.raises(WriteFailed, match="broker b of topic T has no master now"):
            routes.masters("T")
        with pytest.raises(WriteFailed, match="broker b of topic T has no master now"):
            routes.master(MessageQueue("T", "b", 0))
        assert [one.broker_name for one in routes.queues("T")] == ["a", "a"]
