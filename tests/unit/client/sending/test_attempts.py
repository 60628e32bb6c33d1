"""Tries, brokers and times of a send, with brokers whose answers are written here."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.core.errors import SendFailed, TopicNotFound
from orbitmq.client.core.message import Message, SendStatus
from orbitmq.client.producer.producer import BatchPartlySent, Producer
from orbitmq.client.sending import latency
from orbitmq.net.errors import CallTimeout, ConnectFailed
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import BrokerData, QueueData
from orbitmq.protocol.errors import BrokerRefused, MessageIllegal, Refused
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2, SendReply
from tests.kit.fake_broker import FakeBroker


def stored(request: object) -> SendReply:
    return SendReply("0" * 32, request.queue_id, 0)  # type: ignore[attr-defined]


async def is_connected(producer: Producer, broker: FakeBroker, topic: str = "T") -> None:
    """Sends one message: what follows needs no time for routes and connections."""
    broker.on(SendMessageV2, stored)
    await producer.send(Message(topic, b"first"))


@pytest.fixture
def two(broker: FakeBroker, other_broker: FakeBroker) -> tuple[FakeBroker, FakeBroker]:
    broker.topic("T", 2, other_broker)
    return broker, other_broker


async def test_a_failed_try_goes_on_at_another_broker(two: tuple[FakeBroker, FakeBroker]) -> None:
    bad, good = two
    bad.on(SendMessageV2, lambda _: Refused(2, "[TIMEOUT_CLEAN_QUEUE]busy"))
    good.on(SendMessageV2, stored)
    async with Producer("g", bad.address) as producer:
        for _ in range(4):
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-b"
    assert len(good.of(SendMessageV2)) == 4
    assert bad.of(SendMessageV2)


async def test_a_dead_broker_is_got_around(two: tuple[FakeBroker, FakeBroker]) -> None:
    names, dead = two
    names.on(SendMessageV2, stored)
    await dead.stop()
    async with Producer("g", names.address) as producer:
        for _ in range(4):
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-a"


async def test_after_three_tries_every_failure_is_told(two: tuple[FakeBroker, FakeBroker]) -> None:
    for fake in two:
        fake.on(SendMessageV2, lambda _: Refused(14, "service not available"))
    async with Producer("g", two[0].address, delivery_timeout_ms=0) as producer:
        with pytest.raises(SendFailed, match="after 3 tries") as caught:
            await producer.send(Message("T", b"x"))
    assert [type(error).__name__ for _, error in caught.value.failures] == ["PeerNotAvailable"] * 3
    assert caught.value.code == 14
    brokers = [name for name, _ in caught.value.failures]
    assert brokers[0] != brokers[1] != brokers[2]


async def test_a_refusal_that_no_other_broker_would_change_is_raised_at_once(broker: FakeBroker) -> None:
    broker.topic("T")
    broker.on(SendMessageV2, lambda _: Refused(13, "message illegal"))
    async with Producer("g", broker.address) as producer:
        with pytest.raises(MessageIllegal):
            await producer.send(Message("T", b"x"))
    assert len(broker.of(SendMessageV2)) == 1


@pytest.mark.parametrize("code", [16, 17], ids=["no permission", "no such topic"])
async def test_a_broker_that_has_decided_is_not_asked_again(
    two: tuple[FakeBroker, FakeBroker], code: int
) -> None:
    strict, other = two
    for fake in two:
        fake.on(SendMessageV2, lambda _: Refused(code, "not here"))
    async with Producer("g", strict.address) as producer:
        with pytest.raises(BrokerRefused, match="not here") as caught:
            await producer.send(Message("T", b"x"))
        assert caught.value.code == code
        assert [len(fake.of(SendMessageV2)) for fake in two] == [1, 1]
        with pytest.raises(BrokerRefused):
            await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-b", 1))
        assert [len(fake.of(SendMessageV2)) for fake in two] == [1, 2]
        other.on(SendMessageV2, stored)
        for _ in range(4):
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-b"


async def test_a_chosen_queue_is_tried_once(two: tuple[FakeBroker, FakeBroker]) -> None:
    for fake in two:
        fake.on(SendMessageV2, lambda _: Refused(2, "busy"))
    async with Producer("g", two[0].address, delivery_timeout_ms=0) as producer:
        with pytest.raises(SendFailed, match="after 1 tries"):
            await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-b", 1))
        with pytest.raises(SendFailed):
            await producer.send(Message("T", b"x"), sharding_key="k")
    assert len(two[0].of(SendMessageV2)) + len(two[1].of(SendMessageV2)) == 2
    assert two[1].of(SendMessageV2)[0].queue_id == 1


async def test_all_tries_have_one_time(broker: FakeBroker) -> None:
    broker.topic("T")
    async with Producer("g", broker.address, retry_times_when_send_failed=10) as producer:
        await is_connected(producer, broker)
        broker.on(SendMessageV2, lambda _: None)
        with pytest.raises(SendFailed) as caught:
            await producer.send(Message("T", b"x"), timeout_ms=200)
    # The first try uses up the time. Timers are inexact: a second one may have a rest of it.
    assert len(broker.of(SendMessageV2)) <= 1 + 2
    assert isinstance(caught.value.failures[0][1], CallTimeout)
    assert caught.value.code == 10002


async def test_a_status_that_is_not_ok_is_a_result(broker: FakeBroker) -> None:
    broker.topic("T")
    broker.on(SendMessageV2, lambda request: SendReply("0" * 32, request.queue_id, 5, code=12))
    async with Producer("g", broker.address) as producer:
        result = await producer.send(Message("T", b"x"))
    assert result.status is SendStatus.FLUSH_SLAVE_TIMEOUT


async def test_unless_another_broker_is_wanted_for_it(two: tuple[FakeBroker, FakeBroker]) -> None:
    weak, strong = two
    weak.on(SendMessageV2, lambda request: SendReply("0" * 32, request.queue_id, 5, code=11))
    strong.on(SendMessageV2, stored)
    async with Producer("g", weak.address, retry_another_broker_when_not_store_ok=True) as producer:
        for _ in range(4):
            assert (await producer.send(Message("T", b"x"))).status is SendStatus.SEND_OK


async def test_a_broker_that_failed_is_left_alone_for_a_while(
    two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A slow machine is not done within the ten seconds, and the other broker is slow there as well.
    monkeypatch.setattr(latency, "STEPS", ((latency.FAILED_MS, 3_600_000), (0, 0)))
    bad, good = two
    bad.on(SendMessageV2, lambda _: Refused(2, "busy"))
    good.on(SendMessageV2, stored)
    async with Producer("g", bad.address, send_latency_enable=True) as producer:
        for _ in range(20):
            await producer.send(Message("T", b"x"))
    assert len(bad.of(SendMessageV2)) <= 1


async def test_a_broker_that_goes_away_is_asked_again_on_a_new_connection(broker: FakeBroker) -> None:
    broker.topic("T")
    broker.on(
        SendMessageV2,
        lambda request: Refused(1500, "go away") if len(broker.of(SendMessageV2)) == 1 else stored(request),
    )
    async with Producer("g", broker.address) as producer:
        await producer.send(Message("T", b"x"))
    assert len(broker.of(SendMessageV2)) == 2


async def test_an_unknown_topic_takes_the_model_of_new_ones(broker: FakeBroker) -> None:
    broker.topic("TBW102", 8)
    broker.on(SendMessageV2, stored)
    async with Producer("g", broker.address) as producer:
        assert {(await producer.send(Message("NEW", b"x"))).queue.queue_id for _ in range(8)} == {0, 1, 2, 3}
        broker.topic("NEW", 2)
        async with asyncio.timeout(60):
            while len(await producer.queues("NEW")) != 2:
                await producer.send(Message("NEW", b"x"))  # has the topic looked up again


async def test_an_unknown_topic_without_a_model(broker: FakeBroker) -> None:
    async with Producer("g", broker.address) as producer:
        with pytest.raises(TopicNotFound, match="no broker would create it"):
            await producer.send(Message("NEW", b"x"))


async def test_a_topic_that_cannot_be_written_to(broker: FakeBroker) -> None:
    broker.topic("T", perm=4)
    async with Producer("g", broker.address) as producer:
        with pytest.raises(TopicNotFound, match="no queue that can be written to"):
            await producer.send(Message("T", b"x"))
        broker.topic("T", perm=6)
        broker.on(SendMessageV2, stored)
        await producer.send(Message("T", b"x"))


async def test_oneway_says_when_there_is_nobody(broker: FakeBroker, other_broker: FakeBroker) -> None:
    broker.topics["T"] = (other_broker.topic("T"), other_broker.topics["T"])[1]
    await other_broker.stop()
    async with Producer("g", broker.address) as producer:
        with pytest.raises(ConnectFailed):
            await producer.send_oneway(Message("T", b"x"))


async def test_a_batch_that_fails_in_the_middle_tells_what_was_stored(broker: FakeBroker) -> None:
    broker.topic("T", 1)

    def answer(request: SendBatchMessage) -> SendReply | Refused:
        first = len(broker.of(SendBatchMessage)) == 1
        return SendReply("A,B", request.queue_id, 0) if first else Refused(13, "no more")

    broker.on(SendBatchMessage, answer)
    async with Producer("g", broker.address, max_message_size_bytes=300) as producer:
        with pytest.raises(BatchPartlySent, match="no more") as caught:
            await producer.send_batch([Message("T", b"x" * 60) for _ in range(6)])
    assert [result.offset_message_id for result in caught.value.sent] == ["A", "B"]
    assert isinstance(caught.value.__cause__, BrokerRefused)


@pytest.mark.parametrize(("version", "names"), [(407, {"WAIT"}), (413, {"WAIT", "UNIQ_KEY"})])
async def test_old_brokers_would_give_the_id_of_a_batch_to_its_messages(
    broker: FakeBroker, version: int, names: set[str]
) -> None:
    broker.topic("T", 1)
    broker.version = version
    broker.on(SendBatchMessage, lambda request: SendReply("A,B", request.queue_id, 0))
    async with Producer("g", broker.address) as producer:
        await producer.send_batch([Message("T", b"x"), Message("T", b"y")])
    [request] = broker.of(SendBatchMessage)
    assert set(decode_properties(request.properties)) == names


async def test_closing_waits_for_what_is_under_way(broker: FakeBroker) -> None:
    broker.topic("T")
    producer = await Producer("g", broker.address, delivery_timeout_ms=0).start()
    await is_connected(producer, broker)
    broker.on(SendMessageV2, lambda _: None)
    sending = asyncio.create_task(producer.send(Message("T", b"x"), timeout_ms=300))
    await broker.until(lambda: len(broker.of(SendMessageV2)) > 1)
    await producer.close()
    with pytest.raises(SendFailed):
        await sending


async def test_a_broker_that_answered_nothing_is_waited_for_while_the_route_names_it(
    two: tuple[FakeBroker, FakeBroker],
) -> None:
    names, master = two
    names.topics["T"].queue_datas = [QueueData(master.name, 1, 1, 6)]
    names.topics["T"].broker_datas = [BrokerData("C", "broker-b", {0: master.address})]
    names.on(SendMessageV2, stored)
    async with Producer("g", names.address, send_msg_timeout_ms=50_000) as producer:
        await is_connected(producer, master)
        master.on(SendMessageV2, lambda _: None)  # as a paused process
        with pytest.raises(SendFailed):
            await producer.send(Message("T", b"x"), timeout_ms=100)
        sent = len(master.of(SendMessageV2))
        sending = asyncio.create_task(producer.send(Message("T", b"y")))
        await master.until(lambda: len(master.of(SendMessageV2)) > sent)
        names.topics["T"].broker_datas = [BrokerData("C", "broker-b", {0: names.address})]
        async with asyncio.timeout(40):  # and not the time of a try
            await sending
    assert len(names.of(SendMessageV2)) == 1


@pytest.mark.parametrize("code", [2, 14])  # of slaves, of brokers without a role
async def test_a_master_that_was_replaced_and_refuses_is_left_for_its_successor(
    two: tuple[FakeBroker, FakeBroker], code: int
) -> None:
    names, master = two
    names.topics["T"].queue_datas = [QueueData(master.name, 1, 1, 6)]
    names.topics["T"].broker_datas = [BrokerData("C", "broker-b", {0: master.address})]
    names.on(SendMessageV2, stored)

    def refuse(_: object) -> Refused:
        names.topics["T"].broker_datas = [BrokerData("C", "broker-b", {0: names.address})]
        return Refused(code, "no master any more")

    master.on(SendMessageV2, refuse)
    # The next look at all routes is an hour away.
    async with Producer(
        "g", names.address, delivery_timeout_ms=600_000, poll_name_server_interval_ms=3_600_000
    ) as producer:
        async with asyncio.timeout(120):
            await producer.send(Message("T", b"x"))
    assert len(names.of(SendMessageV2)) == 1


async def test_a_broker_that_answers_again_is_like_any_other(broker: FakeBroker) -> None:
    broker.topic("T")
    async with Producer("g", broker.address) as producer:
        await is_connected(producer, broker)
        broker.on(SendMessageV2, lambda _: None)
        with pytest.raises(SendFailed):
            await producer.send(Message("T", b"x"), timeout_ms=100)
        broker.on(SendMessageV2, lambda _: Refused(13, "message illegal"))
        with pytest.raises(MessageIllegal):
            await producer.send(Message("T", b"x"))
        broker.on(SendMessageV2, stored)
        for _ in range(2):
            await producer.send(Message("T", b"x"))
