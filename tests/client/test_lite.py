"""Lite topics over remoting, with a broker process that has them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq import (
    BrokerRefused,
    IllegalMessage,
    InvalidArgument,
    LiteConsumer,
    LiteQuotaExceeded,
    Message,
    NotRunning,
    Producer,
    PullConsumer,
    ReceivedMessage,
    Reply,
    Retry,
    TransactionProducer,
    TransactionState,
    serve,
    sync,
)
from orbitmq.cli.app import run as run_command
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.lite import LiteAction, LiteSubscriptionCtlBody, LiteSubscriptionEntry
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.lite import LiteSubscriptionCtl, PopLiteMessage
from orbitmq.testing import LocalBroker
from tests.client.naming import fresh, until

PARENT = "sessions"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """A broker with lite topics of `sessions`."""
    with LocalBroker(own_process=True, enableLmq="true", enableMultiDispatch="true") as started:
        with sync.Admin(started.namesrv) as admin:
            admin.create_topic(PARENT, queues=4, attributes={"message.type": "LITE"})
        started.create_topic(PARENT, 4)
        yield started


def lite_group(broker: LocalBroker, name: str, **attributes: str) -> str:
    """Makes a group that is bound to the parent; attributes without their beginning `lite.sub.`."""
    bound = {f"+lite.sub.{key}": value for key, value in attributes.items()}
    config = SubscriptionGroupConfig(name, attributes={"+lite.bind.topic": PARENT, **bound})
    with BlockingConnection(broker.broker) as connection:
        connection.call(UpdateAndCreateSubscriptiongroup(config))
    return name


async def test_messages_of_a_lite_topic_stand_in_one_queue_and_come_by_its_name(broker: LocalBroker) -> None:
    group = lite_group(broker, "raw")
    async with Producer("p", broker.namesrv) as producer:
        first = await producer.send(Message(PARENT, "a"), lite_topic="session_42")
        second = await (await producer.submit(Message(PARENT, "b", lite_topic="session_42")))
        await producer.send_oneway(Message(PARENT, "c", lite_topic="session_42"))
        last = await producer.send(Message(PARENT, "d", lite_topic="session_42"))
        await producer.send(Message(PARENT, "other", lite_topic="session_1"))
    # Java's proxies take queue 2 of 4 for this name.
    assert {one.queue.queue_id for one in (first, second, last)} == {2}
    entry = LiteSubscriptionEntry(LiteAction.PARTIAL_ADD, "client", group, ["session_42"], None, PARENT)
    with BlockingConnection(broker.broker) as connection:
        connection.call(LiteSubscriptionCtl(LiteSubscriptionCtlBody([entry])))
        reply = connection.call(PopLiteMessage("client", group, PARENT, 32, 60_000, 5000, 0))
    records, bad = decode_records(reply.body or b"")
    assert ([record.body for record in records], bad) == ([b"a", b"b", b"c", b"d"], [])


async def test_sends_that_no_lite_topic_can_get_are_refused_before_anything_leaves(
    broker: LocalBroker,
) -> None:
    def commit(sent: object) -> TransactionState:
        raise AssertionError("nothing was to be sent")

    lite = Message(PARENT, "x", lite_topic="one")
    async with TransactionProducer("tp", broker.namesrv, check=commit) as producer:
        queue = (await producer.queues(PARENT))[0]
        with pytest.raises(IllegalMessage, match="lite topic cannot be sent in a batch"):
            await producer.send_batch([Message(PARENT, "x"), lite])
        with pytest.raises(IllegalMessage, match="lite topic cannot be sent in a batch"):
            await producer.send_all([lite])
        with pytest.raises(IllegalMessage, match="transaction cannot be of a lite topic"):
            await producer.send_in_transaction(lite, commit)
        with pytest.raises(IllegalMessage, match="says its queue"):
            await producer.send(lite, queue=queue)
        with pytest.raises(IllegalMessage, match="says its queue"):
            await producer.send(lite, sharding_key="k")
        with pytest.raises(IllegalMessage, match="says its queue"):
            await producer.submit(lite, queue=queue)
        with pytest.raises(IllegalMessage, match="letters, digits"):
            await producer.send(Message(PARENT, "x"), lite_topic="a b")
        sent = await producer.send(Message(PARENT, "x"), queue=queue)
        assert sent.queue_offset == 0  # of all of the above nothing was stored


def test_the_blocking_producer_takes_a_lite_topic_too(broker: LocalBroker) -> None:
    with sync.Producer("sp", broker.namesrv) as producer:
        assert producer.send(Message(PARENT, "x"), lite_topic="session_42").queue.queue_id == 2


async def test_each_lite_topic_is_handled_in_order_beside_the_others(broker: LocalBroker) -> None:
    group, one, two = lite_group(broker, fresh("g")), fresh("s"), fresh("s")
    got: defaultdict[str | None, list[bytes]] = defaultdict(list)
    two_may_end, again = asyncio.Event(), list[bytes]()

    async def handle(message: ReceivedMessage) -> None:
        if message.lite_topic == two and message.body == b"0":
            await two_may_end.wait()
        got[message.lite_topic].append(message.body)

    async def handle_again(message: ReceivedMessage) -> None:
        again.append(message.body)

    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle) as consumer,
    ):
        await consumer.subscribe(one, two)
        assert consumer.lite_topics == {one, two}
        for name in (two, one):
            for number in range(5):
                await producer.send(Message(PARENT, str(number)), lite_topic=name)
        await until(lambda: len(got[one]) == 5, 60)
        assert got[two] == []  # the first one is still in hand
        two_may_end.set()
        await until(lambda: len(got[two]) == 5, 60)
        assert consumer.healthy, consumer.errors
    wanted = [b"0", b"1", b"2", b"3", b"4"]
    assert got == {one: wanted, two: wanted}
    with pytest.raises(NotRunning):
        await consumer.subscribe("more")
    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle_again) as successor,
    ):
        await successor.subscribe(one, two)
        await producer.send(Message(PARENT, "new"), lite_topic=one)
        await until(lambda: again, 60)
    assert again == [b"new"]  # the group goes on where it was


async def test_a_message_that_fails_holds_up_its_lite_topic_and_is_given_up(broker: LocalBroker) -> None:
    group, name, calls = lite_group(broker, fresh("g")), fresh("s"), list[tuple[bytes, int]]()

    async def handle(message: ReceivedMessage) -> Retry | None:
        calls.append((message.body, message.reconsume_times))
        if message.body == b"bad":
            raise ValueError("not today")
        return Retry() if message.body == b"once" and message.reconsume_times == 0 else None

    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(
            group,
            broker.namesrv,
            topic=PARENT,
            handler=handle,
            max_reconsume_times=2,
            suspend_current_queue_time_ms=10,
        ) as consumer,
    ):
        for body in ("once", "bad", "good"):
            await producer.send(Message(PARENT, body), lite_topic=name)
        await consumer.subscribe(name)
        await until(lambda: calls and calls[-1][0] == b"good", 60)
    letters = [call for call in calls if call[0] != b"bad"]
    assert letters == [(b"once", 0), (b"once", 1), (b"good", 0)]
    assert [call[1] for call in calls if call[0] == b"bad"][:3] == [0, 1, 2]
    async with PullConsumer("reader", broker.namesrv) as reader:
        (queue,) = await reader.queues(f"%DLQ%{group}")
        (letter,) = await reader.pull(queue, 0, wait_ms=10_000)
    assert (letter.body, letter.lite_topic) == (b"bad", name)
    assert "INNER_MULTI_QUEUE_OFFSET" not in letter.properties


async def test_what_was_not_acknowledged_goes_to_the_next_member_at_once(broker: LocalBroker) -> None:
    group, name = lite_group(broker, fresh("g")), fresh("s")
    first, second, cut = list[bytes](), list[bytes](), asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        first.append(message.body)
        if message.body == b"1":
            cut.set()
            await asyncio.Event().wait()

    async def handle_rest(message: ReceivedMessage) -> None:
        second.append(message.body)

    async with Producer("p", broker.namesrv) as producer:
        for number in range(3):
            await producer.send(Message(PARENT, str(number)), lite_topic=name)
    consumer = LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle, invisible_ms=3_600_000)
    async with consumer:
        await consumer.subscribe(name)
        await cut.wait()
        await consumer.close(0)
    async with LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle_rest) as successor:
        await successor.subscribe(name)
        await until(lambda: len(second) == 2, 60)  # not after the hour for which they were hidden
    assert (first, second) == ([b"0", b"1"], [b"1", b"2"])


async def test_a_batch_is_hidden_anew_for_as_long_as_a_handler_works_on_it(broker: LocalBroker) -> None:
    group, name, may_end = lite_group(broker, fresh("g")), fresh("s"), asyncio.Event()
    calls, hidden_ms = list[bytes](), list[int]()

    async def handle(message: ReceivedMessage) -> None:
        calls.append(message.body)
        await may_end.wait()

    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle, invisible_ms=3000) as consumer,
    ):
        await consumer.subscribe(name)
        await producer.send(Message(PARENT, "0"), lite_topic=name)
        await until(lambda: calls, 60)
        consumption = consumer._consumption
        assert consumption is not None
        (batch,) = consumption._batches
        hidden_ms.append(batch.hidden_until_ms)
        await until(lambda: batch.hidden_until_ms > hidden_ms[0] + 500, 60)  # the broker has said yes
        may_end.set()
        await producer.send(Message(PARENT, "1"), lite_topic=name)
        await until(lambda: b"1" in calls, 60)


async def test_a_lite_topic_that_another_member_takes_over_is_told(broker: LocalBroker) -> None:
    group, name = lite_group(broker, fresh("g"), model="Exclusive"), fresh("s")
    first, second, told = list[bytes](), list[bytes](), list[str]()

    async def lose(message: ReceivedMessage) -> None:
        first.append(message.body)

    async def win(message: ReceivedMessage) -> None:
        second.append(message.body)

    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(group, broker.namesrv, topic=PARENT, handler=lose, on_unsubscribed=told.append) as loser,
        LiteConsumer(group, broker.namesrv, topic=PARENT, handler=win) as winner,
    ):
        await loser.subscribe(name)
        await producer.send(Message(PARENT, "a"), lite_topic=name)
        await until(lambda: first, 60)
        await winner.subscribe(name)
        await until(lambda: told, 60)
        assert loser.lite_topics == frozenset()
        await producer.send(Message(PARENT, "b"), lite_topic=name)
        await until(lambda: b"b" in second, 60)
    assert (first, told) == ([b"a"], [name])


async def test_members_of_a_wildcard_group_get_every_lite_topic(broker: LocalBroker) -> None:
    group, names, got = lite_group(broker, fresh("g"), wildcard="true"), {fresh("s"), fresh("s")}, set[str]()

    async def handle(message: ReceivedMessage) -> None:
        assert message.lite_topic is not None
        got.add(message.lite_topic)

    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle) as consumer,
    ):
        for name in names:
            await producer.send(Message(PARENT, "x"), lite_topic=name)
        await until(lambda: names <= got, 60)
        with pytest.raises(BrokerRefused, match="not supported for this group"):
            await consumer.subscribe("more")
        assert consumer.lite_topics == frozenset()


async def test_limits_and_groups_that_do_not_fit_are_told(broker: LocalBroker) -> None:
    group = lite_group(broker, fresh("g"))
    async with LiteConsumer(
        group, broker.namesrv, topic=PARENT, handler=print, max_lite_topics=2
    ) as consumer:
        await consumer.subscribe("a", "b")
        await consumer.subscribe("a")
        with pytest.raises(LiteQuotaExceeded, match="max_lite_topics, 2"):
            await consumer.subscribe("c")
        with pytest.raises(InvalidArgument, match="letters, digits"):
            await consumer.subscribe("a b")
        await consumer.unsubscribe("a")
        await consumer.subscribe("c")
        assert consumer.lite_topics == {"b", "c"}
    with sync.Admin(broker.namesrv) as admin:
        admin.set_broker_config(broker.broker, {"maxLiteSubscriptionCount": "1"})
        try:
            with sync.LiteConsumer(group, broker.namesrv, topic=PARENT, handler=print) as full:
                with contextlib.suppress(LiteQuotaExceeded):
                    full.subscribe("d")  # the last place, if there is one
                with pytest.raises(LiteQuotaExceeded, match="quota exceeded 1"):
                    full.subscribe("e")
                assert "e" not in full.lite_topics
        finally:
            admin.set_broker_config(broker.broker, {"maxLiteSubscriptionCount": "100000"})
    broker.create_topic("plain")
    with pytest.raises(BrokerRefused, match="bind topic not match"):
        await LiteConsumer(fresh("unbound"), broker.namesrv, topic=PARENT, handler=print).start()
    with pytest.raises(BrokerRefused, match="type not match"):
        await LiteConsumer(group, broker.namesrv, topic="plain", handler=print).start()


async def test_a_handler_answers_a_request_of_its_lite_topic(broker: LocalBroker) -> None:
    group, name = lite_group(broker, fresh("g")), fresh("s")

    async def answer(message: ReceivedMessage) -> Reply:
        return Reply(b"re: " + message.body)

    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(group, broker.namesrv, topic=PARENT, handler=answer) as consumer,
    ):
        await consumer.subscribe(name)
        reply = await producer.request(Message(PARENT, "x", lite_topic=name), timeout_ms=60_000)
    assert reply.body == b"re: x"


def test_the_blocking_consumer_of_lite_topics(broker: LocalBroker) -> None:
    group, name, got = lite_group(broker, fresh("g")), fresh("s"), list[bytes]()
    came = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        got.append(message.body)
        came.set()

    with (
        sync.Producer("p", broker.namesrv) as producer,
        sync.LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle) as consumer,
    ):
        consumer.subscribe(name)
        assert consumer.lite_topics == {name}
        producer.send(Message(PARENT, "x"), lite_topic=name)
        assert came.wait(60)
    assert got == [b"x"]


async def test_a_process_of_consumers_ends_when_one_of_them_is_closed(broker: LocalBroker) -> None:
    group, name, got = lite_group(broker, fresh("g")), fresh("s"), list[bytes]()
    producer = Producer("p", broker.namesrv)

    async def handle(message: ReceivedMessage) -> None:
        got.append(message.body)
        if message.body == b"first":
            await producer.send(Message(PARENT, "last", lite_topic=name))
        else:
            await consumer.close()

    async with Producer("p", broker.namesrv) as other:
        await other.send(Message(PARENT, "first", lite_topic=name))
    consumer = LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle, initial_lite_topics=[name])
    assert await serve(consumer, producer, timeout_ms=60_000) == 0
    assert got == [b"first", b"last"]
    with pytest.raises(InvalidArgument, match="initial_lite_topics: a lite topic has letters, digits"):
        LiteConsumer(group, topic=PARENT, handler=handle, initial_lite_topics=["a b"])


async def test_operators_see_lite_topics_their_clients_and_the_backlog(
    broker: LocalBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    group, names = fresh("g"), [fresh("s"), fresh("s")]
    came, blocked = asyncio.Event(), asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        came.set()
        await blocked.wait()

    async def ask(*arguments: str, code: int = 0) -> Any:
        capfd.readouterr()
        command = ["admin", *arguments, "--namesrv", broker.namesrv, "--json"]
        assert await asyncio.to_thread(run_command, command) == code
        captured = capfd.readouterr()
        return json.loads(captured.out) if code == 0 else captured.err

    await ask("group", "create", group, "--attribute", f"lite.bind.topic={PARENT}")
    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(
            group, broker.namesrv, topic=PARENT, handler=handle, initial_lite_topics=names
        ) as consumer,
    ):
        for name in (names[0], names[0], names[1]):
            await producer.send(Message(PARENT, "x"), lite_topic=name)
        await came.wait()
        [row] = await ask("lite", "brokers")
        assert row["lightQueues"] >= 2
        assert row["subscriptions"] >= 2
        assert row["parents"][PARENT] == -1
        assert group in row["groups"]
        [row] = await ask("lite", "parent", PARENT)
        assert (row["expirationMinutes"], group in row["groups"]) == (-1, True)
        assert row["liteTopics"] >= 2
        [row] = await ask("lite", "topic", PARENT, names[0])
        assert (row["minOffset"], row["maxOffset"], row["sharding"]) == (0, 2, True)
        assert row["subscribers"] == [f"{consumer.client_id} ({group})"]
        [row] = await ask("lite", "client", group, consumer.client_id)
        assert (row["liteTopics"], row["names"]) == (2, sorted(names))
        [row] = await ask("lite", "client", group, "nobody")
        assert row["liteTopics"] == -1
        rows = await ask("lite", "lag", group)
        assert [(row["liteTopic"], row["lag"]) for row in rows] == [(names[0], 2), (names[1], 1)]
        assert rows[0]["oldest"] > 0
        [row] = await ask("lite", "lag", group, names[0])
        assert (row["brokerOffset"], row["consumerOffset"], row["lag"]) == (2, 0, 2)
        [row] = await ask("lite", "lag", group, "unheard-of")
        assert row["lag"] is None
        assert (await ask("lite", "dispatch", group))["group"] == group
        blocked.set()
    assert "TOPIC_NOT_EXIST: No topic route info" in await ask("lite", "parent", "unheard-of", code=1)
    said = await ask("lite", "lag", "unheard-of", code=1)
    assert "orbitmq admin group create unheard-of --attribute lite.bind.topic=TOPIC" in said


def test_a_blocking_process_ends_by_a_signal_and_says_that_a_handler_was_cut_short(
    broker: LocalBroker,
) -> None:
    group, name, main = lite_group(broker, fresh("g")), fresh("s"), threading.get_ident()

    async def handle(message: ReceivedMessage) -> None:
        signal.pthread_kill(main, signal.SIGTERM)
        await asyncio.Event().wait()

    with sync.Producer("p", broker.namesrv) as producer:
        producer.send(Message(PARENT, "x"), lite_topic=name)
    consumer = sync.LiteConsumer(
        group, broker.namesrv, topic=PARENT, handler=handle, initial_lite_topics=[name]
    )
    assert sync.run(consumer, timeout_ms=10) == 1


async def test_a_consumer_goes_on_when_a_broker_that_crashed_is_back(broker: LocalBroker) -> None:
    group, name, got = lite_group(broker, fresh("g")), fresh("s"), list[bytes]()

    async def handle(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with (
        Producer("p", broker.namesrv) as producer,
        LiteConsumer(group, broker.namesrv, topic=PARENT, handler=handle) as consumer,
    ):
        await consumer.subscribe(name)
        await producer.send(Message(PARENT, "before"), lite_topic=name)
        await until(lambda: got, 60)
        await asyncio.to_thread(broker.kill)
        await until(lambda: not consumer.healthy, 60)
        await asyncio.to_thread(broker.start)
        await producer.send(Message(PARENT, "after"), lite_topic=name)
        await until(lambda: b"after" in got and consumer.healthy, 100)
        assert consumer.lite_topics == {name}
