"""The newest failure by topic, from a real broker, of a real consumer and of planted letters."""

from collections.abc import Iterator

import pytest

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.admin.diagnosis.failures import last_failures
from orbitmq.testing import LocalBroker
from tests.kit.dead_letters import fail, origin, plant


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(messageDelayLevel="1s 1s 1s 1s") as running:
        yield running


async def test_a_group_without_failures_has_none(broker: LocalBroker) -> None:
    async with Admin(broker.namesrv) as admin:
        assert await last_failures(admin, "nobody") == {}


async def test_the_newest_dead_letter_of_a_topic_tells_its_exception(broker: LocalBroker) -> None:
    broker.create_topic("failing", 1)
    # One after another: handlers give up in any order.
    await fail(broker.namesrv, "failing", "fails", [Message("failing", b"odd")])
    await fail(broker.namesrv, "failing", "fails", [Message("failing", b"bad one")])
    async with Admin(broker.namesrv) as admin:
        failure = (await last_failures(admin, "fails"))["failing"]
    assert (failure.exception, failure.text, failure.dead_letter) == ("ValueError", "planted", True)
    assert failure.attempts == 1
    assert failure.at_ms > 0


async def test_topics_are_told_apart_and_only_the_end_of_a_queue_is_read(broker: LocalBroker) -> None:
    await plant(broker.namesrv, "two", 30, origin("first", exception="KeyError"))
    await plant(
        broker.namesrv, "two", 1, origin("second", exception="ValueError", exceptionText="last"), start=30
    )
    await plant(broker.namesrv, "two", 1, {"exception": "OSError"}, start=31)
    async with Admin(broker.namesrv) as admin:
        found = await last_failures(admin, "two")
    assert {topic: one.exception for topic, one in found.items()} == {
        "first": "KeyError",
        "second": "ValueError",
    }
    assert found["second"].text == "last"


async def test_a_message_that_comes_again_counts_before_it_is_a_dead_letter(broker: LocalBroker) -> None:
    broker.create_topic("again", 1)

    async def handle(message: ReceivedMessage) -> None:
        raise ValueError("once more")

    async with (
        Admin(broker.namesrv) as admin,
        PushConsumer("again", broker.namesrv, consume_from_where=FIRST_OFFSET) as consumer,
        Producer("p", broker.namesrv) as producer,
    ):
        consumer.subscribe("again", "*", handle)
        await producer.send(Message("again", b"x"))
        while not (found := await last_failures(admin, "again")):
            pass
    assert not found["again"].dead_letter
    assert found["again"].attempts >= 1
