import asyncio
from collections.abc import Iterator

import pytest

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PushConsumer, ReceivedMessage, Retry
from orbitmq.admin.messages import NoMessage
from orbitmq.admin.reading.life import Life, life_of
from orbitmq.admin.reading.trace import traces_of
from orbitmq.testing import LocalBroker

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(traceTopicEnable="true") as running:
        running.create_topic("lived", 1)
        yield running


async def until(admin: Admin, unique_id: str, *wanted: tuple[str, str]) -> Life:
    """The life of the message, once it has steps, each with its source: indexes and traces follow behind."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                life = await life_of(admin, "lived", unique_id)
                if {(one.step, one.source) for one in life.events} >= set(wanted):
                    return life
            except NoMessage:
                pass
            await asyncio.sleep(0.1)


async def test_a_message_is_followed_from_its_producer_to_the_dead_letters_and_back(
    broker: LocalBroker,
) -> None:
    tries: list[int] = []
    given_up = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        tries.append(message.reconsume_times)
        if len(tries) == 1:
            raise Retry(delay_level=1)
        given_up.set()
        raise Retry(delay_level=-1) from ValueError("no such customer")

    async with (
        Admin(broker.namesrv) as admin,
        Producer("makers", broker.namesrv, trace=True) as producer,
    ):
        sent = await producer.send(Message("lived", b"{}", keys="k-1"))
        consumer = PushConsumer("users", broker.namesrv, consume_from_where=FIRST_OFFSET, trace=True)
        consumer.subscribe("lived", "*", handle)
        async with consumer, asyncio.timeout(PATIENCE_SECONDS):
            await given_up.wait()
            life = await until(admin, sent.message_id, ("dead", "log"))
        life = await until(admin, sent.message_id, ("handled", "trace"), ("sent", "trace"))
        steps = [one.step for one in life.events if one.source == "log"]
        assert steps == ["sent", "stored", "retry", "dead"]
        [dead] = [one for one in life.events if one.step == "dead"]
        assert (dead.group, dead.is_bad) == ("users", True)
        assert "no such customer" in dead.sentence
        [stored] = [one for one in life.events if one.step == "stored"]
        assert "queue 0 of lived at offset 0, commit log 00000000000000000000 + " in stored.sentence
        assert stored.message_id == sent.offset_message_id
        traced = {one.step: one.group for one in life.events if one.source == "trace"}
        assert traced == {"sent": "", "delivered": "users", "handled": "users"}
        assert [one.sentence for one in life.events if one.step == "passed"] == [
            "Group users is past it, at offset 1"
        ]
        assert life.missing == []


async def test_a_message_that_nobody_has_read_or_traced_says_so(broker: LocalBroker) -> None:
    async with Admin(broker.namesrv) as admin, Producer("p", broker.namesrv) as producer:
        await admin.create_group("late")
        sent = await producer.send(Message("lived", b"x"))
        await admin.reset_offsets("late", "lived", "earliest")
        life = await until(admin, sent.message_id, ("stored", "log"))
        [waiting] = [one for one in life.events if one.group == "late"]
        assert waiting.step == "waiting"
        assert "no client traced it" in life.missing[0]
        assert await traces_of(admin, sent.message_id) == []
        with pytest.raises(NoMessage):
            await life_of(admin, "lived", "0" * 32)
