import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from orbitmq import Admin, Message, MessageQueue, Producer
from orbitmq.admin.messages import messages_from
from orbitmq.admin.reading.search import SearchStep, search
from orbitmq.admin.reading.selection import Selection
from orbitmq.protocol.errors import TopicNotExist
from orbitmq.protocol.requests.offset import SearchOffsetByTimestamp
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.testing import LocalBroker
from tests.kit.asked import heard

NEEDLES = {7, 150, 299}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """A topic with 300 messages in 3 queues; three of them hold the text."""

    async def fill(namesrv: str) -> None:
        async with Producer("p", namesrv) as producer:
            for number in range(300):
                text = f"needle {number}" if number in NEEDLES else f"hay {number}"
                await producer.send(Message("stack", text))
            await producer.send(Message("noted", b"x", properties={"colour": "dark blue"}))

    with LocalBroker() as running:
        running.create_topic("stack", 3)
        running.create_topic("noted", 1)
        asyncio.run(fill(running.namesrv))
        yield running


@pytest.fixture
async def admin(broker: LocalBroker) -> AsyncIterator[Admin]:
    async with Admin(broker.namesrv) as connected:
        yield connected


async def test_a_search_ends_with_the_bytes_that_it_may_inflate(admin: Admin, broker: LocalBroker) -> None:
    broker.create_topic("packed", 1)
    async with Producer("p", broker.namesrv) as producer:
        for _ in range(40):
            await producer.send(Message("packed", bytes(10_000)))
    _, last = await run(search(admin, "packed", Selection(text="nowhere"), inflated_bytes=100_000))
    assert (last.end, last.scanned, last.unread) == ("bytes", 32, 22)
    assert "100000 bytes together" in last.reason


async def run(steps: AsyncIterator[SearchStep]) -> tuple[set[bytes], SearchStep]:
    """Bodies that were found, and the last step."""
    bodies = set()
    async for step in steps:
        bodies |= {message.body for _, message in step.found}
        last = step
    return bodies, last


async def test_every_message_with_the_text_is_found_in_all_queues(admin: Admin) -> None:
    bodies, last = await run(search(admin, "stack", Selection(text="NEEDLE")))
    assert bodies == {f"needle {number}".encode() for number in NEEDLES}
    assert (last.scanned, last.total, last.end) == (300, 300, "all")
    bodies, _ = await run(search(admin, "noted", Selection(text="dark")))
    assert bodies == {b"x"}


async def test_the_budget_and_the_number_of_finds_end_a_search(admin: Admin) -> None:
    _, last = await run(search(admin, "stack", Selection(text="nowhere"), budget=50))
    assert (last.scanned, last.end) == (50, "budget")
    bodies, last = await run(search(admin, "stack", Selection(text="hay"), most=10))
    assert (len(bodies), last.end) == (10, "enough")
    bodies, last = await run(search(admin, "stack", Selection(text="needle"), budget=300))
    assert (len(bodies), last.end) == (3, "all")


async def test_a_search_begins_at_a_time(admin: Admin) -> None:
    [*_, (_, newest)] = sorted(
        [found async for step in search(admin, "stack", Selection(), most=300) for found in step.found],
        key=lambda one: one[1].store_timestamp,
    )
    bodies, last = await run(search(admin, "stack", Selection(), from_ms=newest.store_timestamp))
    assert newest.body in bodies
    assert last.total < 300
    _, last = await run(search(admin, "stack", Selection(), from_ms=4_000_000_000_000))
    assert (last.scanned, last.total, last.end) == (0, 0, "all")


async def test_only_queues_that_may_have_a_message_of_the_time_are_asked_for_it(
    admin: Admin, broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("wide", 200)
    async with Producer("p", broker.namesrv) as producer:
        for number in range(3):
            await producer.send(
                Message("wide", str(number)), queue=MessageQueue("wide", "broker-a", number * 90)
            )
    asked = heard(admin, monkeypatch)
    bodies, last = await run(search(admin, "wide", Selection(), from_ms=1))
    assert (bodies, last.total, asked[SearchOffsetByTimestamp]) == ({b"0", b"1", b"2"}, 3, 3)
    assert [one.body for _, one in await messages_from(admin, "wide", 1)] == [b"0", b"1", b"2"]
    assert (asked[SearchOffsetByTimestamp], asked[PullMessage]) == (6, 6)
    _, last = await run(search(admin, "wide", Selection(), from_ms=4_000_000_000_000))
    assert (last.end, asked[SearchOffsetByTimestamp]) == ("all", 6)


async def test_an_unknown_topic_is_told(admin: Admin) -> None:
    with pytest.raises(TopicNotExist):
        await run(search(admin, "never-made", Selection()))
