from collections.abc import AsyncIterator, Iterator

import pytest

from orbitmq import Admin, Message, Producer
from orbitmq.admin.reading import tail as module
from orbitmq.admin.reading.selection import Selection
from orbitmq.admin.reading.tail import Look, tail
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import TopicNotExist
from orbitmq.testing import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


@pytest.fixture
async def admin(broker: LocalBroker) -> AsyncIterator[Admin]:
    async with Admin(broker.namesrv) as connected:
        yield connected


@pytest.fixture
async def producer(broker: LocalBroker) -> AsyncIterator[Producer]:
    async with Producer("p", broker.namesrv) as started:
        yield started


async def seen(looks: AsyncIterator[Look], number: int) -> tuple[list[bytes], int, int]:
    """Bodies, and the counts, of looks until so many messages were seen."""
    bodies, count, left_out = [], 0, 0
    while count < number:
        look = await anext(looks)
        bodies += [message.body for _, message in look.messages]
        count += look.seen
        left_out += look.left_out
    return bodies, count, left_out


async def test_what_comes_in_is_shown_and_what_was_there_is_not(
    admin: Admin, broker: LocalBroker, producer: Producer
) -> None:
    broker.create_topic("new", 4)
    await producer.send(Message("new", b"old"))
    looks = tail(admin, "new", Selection(tag="a"), 100, 0.02)
    assert await anext(looks) == Look([], 0, 0)
    for number in range(30):
        await producer.send(Message("new", str(number), tags="a" if number % 2 else "b"))
    bodies, count, left_out = await seen(looks, 30)
    assert sorted(map(int, bodies)) == list(range(1, 30, 2))
    assert (count, left_out) == (30, 0)


async def test_what_is_too_much_is_counted_and_the_newest_is_shown(
    admin: Admin, broker: LocalBroker, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("flood", 1)
    looks = tail(admin, "flood", Selection(), 5, 0.02)
    await anext(looks)
    await producer.send_all([Message("flood", str(number)) for number in range(1000)])
    bodies, count, left_out = await seen(looks, 1000)
    assert count == 1000
    assert len(bodies) + left_out == 1000
    assert bodies[-1] == b"999"
    monkeypatch.setattr(module, "HELD_BYTES", 250)
    await producer.send_all([Message("flood", b"x" * 100) for _ in range(5)])
    bodies, _, left_out = await seen(looks, 5)
    assert len(bodies) + left_out == 5


async def test_of_too_many_queues_with_news_some_are_read(
    admin: Admin, broker: LocalBroker, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("wide", 100_000)
    monkeypatch.setattr(module, "READ_AT_ONCE", 8)
    looks = tail(admin, "wide", Selection(), 100, 0.02)
    await anext(looks)
    for queue_id in range(60_000, 60_020):
        await producer.send(Message("wide", str(queue_id)), queue=MessageQueue("wide", "broker-a", queue_id))
    bodies, count, left_out = await seen(looks, 20)
    assert count == 20
    assert len(bodies) + left_out == 20
    assert bodies


async def test_bodies_above_the_maximum_are_counted_where_a_text_is_looked_for(
    admin: Admin, broker: LocalBroker, producer: Producer
) -> None:
    broker.create_topic("large", 1)
    looks = tail(admin, "large", Selection(text="needle"), 5, 0.02, max_body_bytes=10_000)
    await anext(looks)
    for body in (bytes(20_000), b"needle"):
        await producer.send(Message("large", body))
    shown, unread, reasons = [], 0, set()
    while unread + len(shown) < 2:
        look = await anext(looks)
        shown += [message.body for _, message in look.messages]
        unread += look.unread
        reasons.add(look.reason)
    assert (shown, unread) == ([b"needle"], 1)
    assert "more than 10000 bytes: --max-inflated-body-bytes" in "".join(reasons)


async def test_an_unknown_topic_is_told(admin: Admin) -> None:
    with pytest.raises(TopicNotExist):
        await anext(tail(admin, "never-made", Selection(), 1))
