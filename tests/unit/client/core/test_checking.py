"""An error is told where the wrong value was given, with the class and the argument by name."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import orbitmq.errors
from orbitmq import FIRST_OFFSET, Producer, PullConsumer, PushConsumer, Sql, sync
from orbitmq.client.core.errors import ClientError, IllegalMessage, InvalidArgument, NotRunning
from orbitmq.client.core.handlers import RETRY, Reply, Retry
from orbitmq.client.core.message import Message, SendStatus
from orbitmq.client.producer.transactions import TransactionProducer, TransactionState
from orbitmq.net.errors import BadAddress, NetError
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.names import IllegalName
from orbitmq.protocol.requests.send import SendMessageV2, SendReply
from tests.kit.client_messages import received
from tests.kit.fake_broker import FakeBroker


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (PushConsumer, {"consume_from_where": "first"}, ["PushConsumer", "FIRST_OFFSET", "'first'"]),
        (PushConsumer, {"consume_from_where": 4}, ["PushConsumer", "consume_from_where"]),
        (PushConsumer, {"concurrency": "20"}, ["PushConsumer", "concurrency", "a whole number"]),
        (PushConsumer, {"concurrency": True}, ["PushConsumer", "concurrency"]),
        (PushConsumer, {"concurrency": 0}, ["PushConsumer", "concurrency", "from 1 to 1000"]),
        (PushConsumer, {"ordered": "yes"}, ["PushConsumer", "ordered", "True or False"]),
        (PushConsumer, {"on_error": "log"}, ["PushConsumer", "on_error", "a function or None"]),
        (PushConsumer, {"allocate_message_queue_strategy": "NONE"}, ["PushConsumer", "AVG"]),
        (PushConsumer, {"consume_timestamp_ms": -1}, ["PushConsumer", "consume_timestamp_ms"]),
        (Producer, {"compress_type": "ZLIB"}, ["Producer", "Compression.ZLIB"]),
        (Producer, {"send_msg_timeout_ms": None}, ["Producer", "send_msg_timeout_ms"]),
        (Producer, {"access_key": "ann"}, ["Producer", "secret"]),
        (Producer, {"namesrv": 9876}, ["Producer", "namesrv"]),
        (Producer, {"tls": "yes"}, ["Producer", "tls"]),
        (TransactionProducer, {"check": "?"}, ["TransactionProducer", "check"]),
        (PullConsumer, {"trace": 1}, ["PullConsumer", "trace"]),
        (sync.PushConsumer, {"consume_from_where": "first"}, ["PushConsumer", "FIRST_OFFSET"]),
    ],
)
def test_an_option_of_the_wrong_kind(kind: Any, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidArgument) as raised:
        kind("g", **options)
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.parametrize("kind", [Producer, PushConsumer, PullConsumer, TransactionProducer])
def test_a_misspelt_option_names_the_class_that_was_called(kind: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\."):
        kind("g", concurency=3)


def test_several_name_servers_may_be_a_list_and_a_url_is_none() -> None:
    assert Producer("g", ["a:1", "b:2"]).namesrv == "a:1;b:2"
    for wrong in ("http://127.0.0.1:9876", ["https://a:1"], ["a"], "a b:1", []):
        with pytest.raises((BadAddress, InvalidArgument)) as raised:
            Producer("g", wrong or [""])
        assert "host:port" in str(raised.value) or "no address" in str(raised.value)
    with pytest.raises(BadAddress, match=r"^Producer: namesrv: .* without http://"):
        Producer("g", "http://127.0.0.1:9876")


@pytest.mark.parametrize("group", ["", "a b", "DEFAULT_CONSUMER"])
def test_a_group_that_no_broker_takes_is_told_with_the_class_that_was_called(group: str) -> None:
    with pytest.raises(IllegalName, match=r"^PushConsumer: group: "):
        PushConsumer(group)


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": 5},
        {"body": 5},
        {"body": None},
        {"tags": ["a", "b"]},
        {"keys": 17},
        {"keys": [17]},
        {"keys": b"17"},
        {"properties": {"price": 5}},
        {"properties": ["price"]},
        {"delay_level": 30},
        {"delay_level": -1},
        {"delay_level": "3"},
        {"delay_ms": -1},
        {"delay_ms": "10"},
        {"delay_ms": float("nan")},
        {"deliver_at_ms": -5},
        {"sharding_key": 17},
        {"flag": 1 << 31},
        {"wait_store_ok": "no"},
        {"body": b""},
        {"tags": "a\x02KEYS\x01b"},
        {"keys": ["good", "a\x00"]},
        {"sharding_key": "a\x02"},
        {"properties": {"UNIQ_KEY": "1"}},
        {"properties": {"a": ""}},
        {"properties": {"a": "b\x02TAGS\x01c"}},
        {"properties": {"a\x01": "b"}},
        {"delay_level": 3, "delay_ms": 5},
        {"delay_ms": 5, "deliver_at_ms": 5},
    ],
)
def test_a_field_that_no_message_can_have(fields: dict[str, Any]) -> None:
    with pytest.raises(IllegalMessage):
        Message(**{"topic": "T", "body": b"x", **fields})


@pytest.mark.parametrize("topic", ["", " ", "a b", "T" * 128, "SCHEDULE_TOPIC_XXXX"])
def test_a_topic_that_no_message_can_be_sent_to(topic: str) -> None:
    with pytest.raises(IllegalName):
        Message(topic, b"x")


def test_texts_of_all_languages_are_taken() -> None:
    made = Message("T", b"x", tags="\u00fc\n", keys=["\u4e2d", "a\tb"], properties={"a": "\x01\u2028"})
    assert (made.tags, made.keys) == ("\u00fc\n", ("\u4e2d", "a\tb"))


async def test_what_a_send_is_given(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    good: Any = Message("T", b"x")
    async with Producer("g", broker.address) as producer:
        changed: Any = Message("T", b"x")
        changed.delay_level = 99
        for wrong in ("hello", None, changed):
            with pytest.raises(IllegalMessage, match="Message"):
                await producer.send(wrong)
            with pytest.raises(IllegalMessage, match="Message"):
                await producer.send_batch([wrong])
            with pytest.raises(IllegalMessage, match="Message"):
                await producer.send_all([wrong])
            with pytest.raises(IllegalMessage, match="Message"):
                await producer.request(wrong)
        arguments: list[dict[str, Any]] = [
            {"queue": 0},
            {"selector": "first"},
            {"sharding_key": 5},
            {"timeout_ms": -1},
            {"timeout_ms": "1"},
        ]
        for given in arguments:
            with pytest.raises(InvalidArgument, match=next(iter(given))):
                await producer.send(good, **given)
        with pytest.raises(InvalidArgument, match="batch_size"):
            await producer.send_all([good], batch_size=0)
        assert (await producer.send(good)).status is SendStatus.SEND_OK


async def test_a_queue_of_another_topic_is_none_of_a_message(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    message = Message("T", b"x")
    other = MessageQueue("U", "broker-a", 0)
    async with Producer("g", broker.address) as producer:
        for send in (producer.send, producer.submit, producer.request, producer.send_oneway):
            with pytest.raises(InvalidArgument, match="topic U, the message is for T"):
                await send(message, queue=other)  # type: ignore[operator]
        with pytest.raises(InvalidArgument, match=r"send_batch: .* topic U"):
            await producer.send_batch([message], queue=other)
        for chosen in (other, None):
            with pytest.raises(InvalidArgument, match="selector: "):
                await producer.send(message, selector=lambda _, __, chosen=chosen: chosen)  # type: ignore[misc]
        [own] = await producer.queues("T")
        assert (await producer.send(message, queue=own)).queue == own
    async with Producer("g", broker.address, namespace="N") as producer:
        broker.topic("N%T", 1)
        for queue in (MessageQueue("T", "broker-a", 0), *await producer.queues("T")):
            assert (await producer.send(message, queue=queue)).status is SendStatus.SEND_OK


@pytest.mark.parametrize("tags", [4, ["a", 5], b"a", [], "||", {}])
def test_tags_that_name_none(tags: Any) -> None:
    with pytest.raises(InvalidArgument, match="tag"):
        PushConsumer("g").subscribe("T", tags, print)


@pytest.mark.parametrize("expression", [4, None, "", " "])
def test_an_expression_that_is_none(expression: Any) -> None:
    with pytest.raises(InvalidArgument, match="Sql"):
        Sql(expression)


async def test_what_a_subscription_and_a_pull_are_given(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    consumer: Any = PushConsumer("g", broker.address)
    with pytest.raises(InvalidArgument, match="handler= missing"):
        consumer.subscribe("T", print)
    with pytest.raises(InvalidArgument, match="handler has to be"):
        consumer.subscribe("T", "*", "print")
    with pytest.raises(InvalidArgument, match="topic has to be"):
        consumer.subscribe(None)
    consumer.subscribe("T", "*", print)
    with pytest.raises(InvalidArgument, match="subscribed to already"):
        consumer.subscribe("T", "a", print)
    consumer.unsubscribe("T")
    consumer.subscribe("T", "a", print)
    await consumer.close()
    with pytest.raises(NotRunning, match="closed"):
        consumer.subscribe("U", "a", print)
    async with PullConsumer("g", broker.address) as puller:
        queue = MessageQueue("T", "broker-a", 0)
        wrong: list[tuple[Any, ...]] = [("T", 0), (queue, -1), (queue, "0"), (queue, 0, 0)]
        for arguments in wrong:
            with pytest.raises(InvalidArgument, match="pull"):
                await puller.pull(*arguments)


@pytest.mark.parametrize("level", [19, -2, "3", None, True])
def test_a_retry_has_a_level_that_there_is(level: Any) -> None:
    with pytest.raises(InvalidArgument, match="delay_level"):
        Retry(level)


def test_retries_are_equal_by_their_level() -> None:
    assert Retry() == RETRY == Retry(0) != Retry(3)
    assert len({Retry(), RETRY, Retry(3)}) == 2
    assert repr(Retry(3)) == "Retry(delay_level=3)"


def test_a_reply_is_text_and_texts() -> None:
    with pytest.raises(InvalidArgument):
        Reply(b"x", {"a": 5})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument):
        Reply(5)  # type: ignore[arg-type]


def test_properties_that_came_cannot_be_changed_and_say_so() -> None:
    properties: Any = received(own="1").properties
    with pytest.raises(TypeError, match="as it was sent"):
        properties["own"] = "2"
    with pytest.raises(TypeError, match="as it was sent"):
        properties.update(own="2")
    with pytest.raises(TypeError, match="as it was sent"):
        del properties["own"]
    assert json.loads(json.dumps(properties)) == properties == {"own": "1"}
    mine = copy.copy(properties)
    mine["own"] = "2"
    assert dict(properties, own="3") == {"own": "3"}


def test_states_print_as_their_names() -> None:
    assert str(SendStatus.SEND_OK) == f"{SendStatus.SEND_OK}" == "SEND_OK"
    assert f"{TransactionState.COMMIT:>8}" == "  COMMIT"
    assert SendStatus.SEND_OK == 0


def test_every_exception_that_a_user_can_meet_is_exported_and_in_the_guide() -> None:
    from pathlib import Path

    guide = (Path(__file__).parents[4] / "docs" / "develop" / "application-guide.md").read_text()

    def kinds(base: type[Exception]) -> set[type[Exception]]:
        own = {kind for kind in base.__subclasses__() if kind.__module__.startswith("orbitmq.")}
        return {base}.union(*map(kinds, own))

    for base in (ClientError, NetError, BrokerRefused):
        for kind in kinds(base):
            if kind.__module__.startswith(("orbitmq.client", "orbitmq.net", "orbitmq.protocol")):
                assert getattr(orbitmq.errors, kind.__name__) is kind
                assert kind.__name__ in guide or issubclass(kind, BrokerRefused)
    for name in orbitmq.errors.__all__:
        assert issubclass(getattr(orbitmq.errors, name), OrbitError)
    assert FIRST_OFFSET.name in repr(PushConsumer("g", consume_from_where=FIRST_OFFSET))
