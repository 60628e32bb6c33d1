"""What options change in what a proxy asks of brokers, keeps of their answers, and refuses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from orbitmq.client.core.routes import TopicRoute
from orbitmq.net.errors import CallTimeout
from orbitmq.protocol.bodies.auth import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.protocol.requests.admin import GetBrokerConfig
from orbitmq.protocol.requests.auth import AuthGetAcl, AuthGetUser
from orbitmq.protocol.requests.pop import AckMessage, InvisibletimeReply, PopMessage, PopReply
from orbitmq.protocol.schema.declare import JsonReply
from orbitmq.proxy.access import AccessControl
from orbitmq.proxy.clients import Client, Clients
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.heartbeat_syncer import HeartbeatSyncer
from orbitmq.proxy.lite.subscriptions import LiteSubscriptions
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.receiving import Receiving
from orbitmq.proxy.renewal import Renewals, Renewed
from orbitmq.proxy.sending import Sending
from orbitmq.proxy.settling import Settling
from orbitmq.proxy.telemetry import MOST_WAITING, Telemetry
from orbitmq.proxy.transactions import Transactions
from orbitmq.proxy.wire import messaging_pb2 as pb
from tests.unit.proxy.test_rules import CALLER, HANDLE, given

NOW = 1_700_000_000_000
LITE = {"lite.bind.topic": "orders"}


class Asked(Cluster):
    """A cluster of one broker, which notes what it is asked and gives `answer`."""

    def __init__(self, answer: Callable[[Any], Any] = lambda request: None, **attributes: str) -> None:
        self.requests: list[Any] = []
        self._answer = answer
        self._group = SubscriptionGroupConfig("g", attributes=attributes)

    async def masters(self) -> dict[str, str]:
        return {"broker-a": "127.0.0.1:1"}

    async def master(self, broker_name: str) -> str:
        return "127.0.0.1:1"

    async def group(self, group: str) -> SubscriptionGroupConfig:
        return self._group

    async def topic_type(self, topic: str) -> str:
        return "TRANSACTION"

    async def readable_brokers(self, topic: str) -> list[str]:
        return ["broker-a"]

    async def queue_to_write(self, topic: str, group: str | None) -> tuple[MessageQueue, str]:
        return MessageQueue(topic, "broker-a", 0), "127.0.0.1:1"

    async def route(self, topic: str) -> TopicRoute:
        broker = BrokerData("c", "broker-a", {0: "127.0.0.1:1"})
        return TopicRoute(
            topic, TopicRouteData(queue_datas=[QueueData("broker-a", 1, 1, 6, 0)], broker_datas=[broker])
        )

    async def call(self, address: str, request: Any, timeout_ms: float | None = None) -> Any:
        self.requests.append(request)
        return self._answer(request)


class Slow(Asked):
    """A cluster whose broker answers as soon as it may."""

    def __init__(self) -> None:
        super().__init__(lambda request: InvisibletimeReply(NOW, 90_000, 5))
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def call(self, address: str, request: Any, timeout_ms: float | None = None) -> Any:
        reply = await super().call(address, request)
        self.asked.set()
        await self.may_answer.wait()
        return reply


class Stop(Exception):
    """Ends a call once its request is noted."""


def stop(request: Any) -> Any:
    raise Stop


# Receives.


async def received(
    options: ProxySettings, kind: pb.ClientType.ValueType = pb.PUSH_CONSUMER, **fields: Any
) -> PopMessage:
    """What the broker is asked for a receive of a client that holds two messages. Raises ProxyRefused."""
    cluster = Asked(lambda request: PopReply(0, 0, 0, 0), **(LITE if kind == pb.LITE_PUSH_CONSUMER else {}))
    clients, renewals = Clients(1), Renewals(options)
    clients.register(CALLER, pb.Settings(client_type=kind), NOW)
    for name in ("a", "b"):
        renewals.add(name, Renewed("g", "orders", "c1", name, HANDLE, 0, 1))
    settling = Settling(cluster, renewals, options, lambda: NOW)
    request = pb.ReceiveMessageRequest(group=pb.Resource(name="g"), **fields)
    request.message_queue.topic.name = "orders"
    async for _ in Receiving(cluster, clients, settling, renewals, options, lambda: NOW).receive(
        request, CALLER
    ):
        pass
    (asked,) = cluster.requests
    return asked


def seconds(count: int) -> Any:
    return pb.ReceiveMessageRequest(invisible_duration={"seconds": count}).invisible_duration


async def test_received_messages_are_invisible_as_long_as_the_options_allow() -> None:
    options = given(minInvisibleTimeMillsForRecv=3000, maxInvisibleTimeMills=50_000_000)
    for count, is_taken in ((2, False), (3, True), (50_000, True), (50_001, False)):
        if is_taken:
            assert (await received(options, invisible_duration=seconds(count))).invisible_time == count * 1000
            continue
        with pytest.raises(ProxyRefused, match="ILLEGAL_INVISIBLE_TIME"):
            await received(options, invisible_duration=seconds(count))


async def test_messages_that_the_proxy_renews_have_an_invisible_time_of_their_own() -> None:
    for is_on, invisible_ms in (("true", 7000), ("false", 20_000)):
        options = given(enableProxyAutoRenew=is_on, defaultInvisibleTimeMills=7000)
        asked = await received(options, auto_renew=True, invisible_duration=seconds(20))
        assert asked.invisible_time == invisible_ms


async def test_a_client_holds_so_many_messages_of_lite_topics() -> None:
    kind = pb.LITE_PUSH_CONSUMER
    await received(given(maxLiteRenewNumPerChannel=2), kind, auto_renew=True)
    with pytest.raises(ProxyRefused, match="too many unacked messages"):
        await received(given(maxLiteRenewNumPerChannel=1), kind, auto_renew=True)


async def test_messages_of_a_client_that_is_gone_are_there_after_the_time_of_the_option() -> None:
    options, cluster = given(invisibleTimeMillisWhenClear=250), Asked(stop)
    renewals = Renewals(options)
    renewals.add("given", Renewed("g", "orders", "c1", "01", HANDLE, 0, 1))
    settling = Settling(cluster, renewals, options, lambda: NOW)
    settling.release_client("c1")
    await settling.close()
    assert [one.invisible_time for one in cluster.requests] == [250]


async def test_a_renewal_and_the_end_of_a_delivery_wait_for_each_other() -> None:
    """A renewal replaces the handle, and brokers of Apache's took the old one for acknowledged: the message
    came again. One that began during an acknowledgement kept the message invisible for a minute more.
    """
    cluster, renewals = Slow(), Renewals(given())
    renewals.add(HANDLE.to_text(), Renewed("g", "orders", "c1", "01", HANDLE, NOW, 1))
    settling = Settling(cluster, renewals, given(), lambda: NOW)
    request = pb.AckMessageRequest(entries=[pb.AckMessageEntry(receipt_handle=HANDLE.to_text())])
    request.group.name, request.topic.name = "g", "orders"
    renewal = asyncio.create_task(settling.renew_due())
    await cluster.asked.wait()
    end = asyncio.create_task(settling.acknowledge(request, CALLER))
    await asyncio.sleep(0)
    cluster.may_answer.set()
    assert (await end).status.code == pb.OK
    await renewal
    changed, ended = cluster.requests
    assert (changed.extra_info, ended.extra_info) == (
        HANDLE.to_text(),
        HANDLE.hidden(NOW, 90_000, 5).to_text(),
    )

    cluster, renewals = Slow(), Renewals(given())
    renewals.add(HANDLE.to_text(), Renewed("g", "orders", "c1", "01", HANDLE, NOW, 1))
    settling = Settling(cluster, renewals, given(), lambda: NOW)
    end = asyncio.create_task(settling.acknowledge(request, CALLER))
    await cluster.asked.wait()
    renewal = asyncio.create_task(settling.renew_due())
    await asyncio.sleep(0)
    cluster.may_answer.set()
    await asyncio.gather(end, renewal)
    assert [type(one) for one in cluster.requests] == [AckMessage]


async def test_calls_that_add_lite_topics_are_so_many_in_a_second() -> None:
    now = NOW
    lite = LiteSubscriptions(Asked(**LITE), Clients(1), given(maxSyncLiteSubscriptionRate=2), lambda: now)
    request = pb.SyncLiteSubscriptionRequest(lite_topic_set=["l"], action=pb.PARTIAL_ADD)
    request.group.name, request.topic.name = "g", "orders"
    for _ in range(2):
        await lite.sync(request, CALLER)
    with pytest.raises(ProxyRefused, match="Too many"):
        await lite.sync(request, CALLER)
    now += 1000
    await lite.sync(request, CALLER)


# Sends.


async def test_the_type_of_a_message_is_not_checked_if_the_option_says_so() -> None:
    request = pb.SendMessageRequest()
    message = request.messages.add(body=b"x", topic=pb.Resource(name="orders"))
    message.system_properties.message_id = "01"
    with pytest.raises(ProxyRefused, match="takes messages of type TRANSACTION"):
        await Sending(Asked(stop), given(), lambda: NOW).send(request, CALLER)
    with pytest.raises(Stop):
        await Sending(Asked(stop), given(enableTopicMessageTypeCheck="false"), lambda: NOW).send(
            request, CALLER
        )


async def test_heartbeats_name_so_many_topics_of_producers() -> None:
    cluster = Asked()
    await Transactions(cluster, Clients(1), given(transactionHeartbeatBatchNum=2)).send_heartbeats("abc")
    assert [len(one.body.producer_data_set) for one in cluster.requests] == [2, 1]


async def test_other_proxies_are_told_over_the_topic_and_the_address_of_the_options() -> None:
    cluster, told = Asked(stop), given(heartbeatSyncerTopicName="Beats", localServeAddr="192.0.2.7")
    syncer = HeartbeatSyncer(cluster, None, told, lambda: NOW)  # type: ignore[arg-type]
    settings = pb.Settings(client_type=pb.PUSH_CONSUMER)
    settings.subscription.group.name = "g"
    syncer.client_heard(Client(CALLER, settings, NOW))
    with pytest.raises(Stop):
        await syncer.send()
    (sent,) = cluster.requests
    assert sent.topic == "Beats"
    assert json.loads(json.loads(sent.body)["channelData"])["remoteProxyIp"] == "192.0.2.7"


async def test_an_answer_of_a_broker_is_awaited_for_the_time_of_the_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = Cluster(
            given(namesrvAddr="127.0.0.1:1", brokerTimeoutMs=500), lambda connection, commands: None
        )
        with pytest.raises(CallTimeout, match="within 500 ms"):
            await cluster.call(f"127.0.0.1:{silent.getsockname()[1]}", GetBrokerConfig())
        await cluster.close()


async def test_a_client_that_does_not_read_its_stream_is_told_no_more_and_one_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clients = Clients(10)
    telemetry = Telemetry(Asked(), clients, given(), lambda: NOW)
    settings = pb.Settings(client_type=pb.PRODUCER)
    settings.publishing.topics.add(name="t")

    async def commands() -> AsyncIterator[pb.TelemetryCommand]:
        for _ in range(3 * MOST_WAITING):
            yield pb.TelemetryCommand(settings=settings)
        await asyncio.Event().wait()

    stream = telemetry.stream(commands(), CALLER)
    assert (await anext(stream)).status.code == pb.OK
    client = clients.get(CALLER.client_id)
    assert client is not None
    caplog.clear()
    told = [client.tell(pb.TelemetryCommand()) for _ in range(2 * MOST_WAITING)]
    assert told == [True, *[False] * (2 * MOST_WAITING - 1)], "one of the answers to its settings was read"
    assert [one.getMessage() for one in caplog.records] == [
        f"client {CALLER.client_id} does not read its telemetry stream"
    ]
    for _ in range(MOST_WAITING):
        await anext(stream)
    assert client.tell(pb.TelemetryCommand())
    await stream.aclose()  # type: ignore[attr-defined]
    assert not client.streams


# What is kept.

Get = Callable[[str], Awaitable[Any]]


def of_cluster(settings: ProxySettings, kind: str) -> Get:
    return getattr(Cluster(settings, lambda connection, commands: None), kind)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("option", "owner", "look_up", "get"),
    [
        ("topicRouteServiceCache", Cluster, "_look_up_route", lambda given: of_cluster(given, "route")),
        ("topicConfigCache", Cluster, "_look_up_type", lambda given: of_cluster(given, "topic_type")),
        (
            "subscriptionGroupConfigCache", Cluster, "_look_up_group",
            lambda given: of_cluster(given, "group"),
        ),
        ("userCache", AccessControl, "_look_up", lambda given: AccessControl(Asked(), given)._users.get),
    ],
)  # fmt: skip
async def test_answers_are_kept_for_so_long_and_so_many(
    option: str,
    owner: type,
    look_up: str,
    get: Callable[[ProxySettings], Get],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    async def note(self: object, name: str) -> str:
        looked.append(name)
        return name

    monkeypatch.setattr(owner, look_up, note)
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])
    limits = {f"{option}RefreshSeconds": 5000, f"{option}MaxNum": 2}
    asked = get(given(namesrvAddr="127.0.0.1:1", **limits))
    for ahead[0], name in ((0, "a"), (0, "b"), (4000, "a"), (4000, "b"), (5001, "a")):
        assert await asked(name) == name
    assert looked == ["a", "b", "a"], "each is kept for 5000 s"
    for name in ("c", "d", "c", "e", "c"):
        await asked(name)
    assert looked[3:] == ["c", "d", "e", "c"], "two are kept"


# Rights.


async def test_rights_of_users_are_checked_if_the_option_says_so() -> None:
    entry = PolicyEntryInfo("Topic:mine", ["Pub"], None, "Allow")
    acl = AclInfo("User:u", [PolicyInfo("Custom", [entry])])
    answers = {AuthGetUser: UserInfo("u", "secret", "Normal", "enable"), AuthGetAcl: acl}
    cluster = Asked(lambda request: JsonReply(answers[type(request)]))
    signature = hmac.digest(b"secret", b"then", hashlib.sha1).hex()
    header = f"MQv2-HMAC-SHA1 Credential=u, SignedHeaders=x-mq-date-time, Signature={signature}"
    caller = Caller("c1", "JAVA", "5.0.7", "127.0.0.1:1", None, authorization=header, date_time="then")

    def sent(topic: str) -> pb.SendMessageRequest:
        return pb.SendMessageRequest(messages=[pb.Message(topic=pb.Resource(name=topic))])

    options = {
        "authenticationEnabled": "true",
        "innerClientAuthenticationCredentials": '{"accessKey":"root","secretKey":"x"}',
        "signatureMaxAgeSeconds": 0,
    }
    await AccessControl(cluster, given(**options)).check(sent("other"), caller)
    access = AccessControl(cluster, given(authorizationEnabled="true", **options))
    await access.check(sent("mine"), caller)
    with pytest.raises(ProxyRefused, match="User:u has no permission"):
        await access.check(sent("other"), caller)
    with pytest.raises(ProxyRefused, match="not signed"):
        await access.check(sent("mine"), CALLER)
