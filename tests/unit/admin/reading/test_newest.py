"""The newest messages of a topic, and all pages before them: each message once, the newest first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from orbitmq import Admin, Message, MessageQueue, Producer
from orbitmq.admin.reading import newest as module
from orbitmq.admin.reading.newest import NewestPage, newest
from orbitmq.admin.reading.selection import Selection
from orbitmq.protocol.errors import TopicNotExist
from orbitmq.protocol.requests.topic import GetTopicStatsInfo
from orbitmq.testing import LocalBroker
from tests.kit.asked import heard

COUNT = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


@pytest.fixture
async def admin(broker: LocalBroker) -> AsyncIterator[Admin]:
    async with Admin(broker.namesrv) as connected:
        yield connected


@pytest.fixture
async def numbered(broker: LocalBroker) -> str:
    """A topic with the numbers up to COUNT, unevenly in three queues of four."""
    if not broker_has(broker, "numbered"):
        async with Producer("p", broker.namesrv) as producer:
            for number in range(COUNT):
                queue = MessageQueue("numbered", "broker-a", 0 if number % 10 else number // 10 % 3)
                tag = "seven" if "7" in str(number) else None
                await producer.send(Message("numbered", str(number), tags=tag), queue=queue)
    return "numbered"


_made: set[str] = set()


def broker_has(broker: LocalBroker, topic: str) -> bool:
    if topic in _made:
        return True
    broker.create_topic(topic, 4)
    _made.add(topic)
    return False


def numbers(page: NewestPage) -> list[int]:
    return [int(message.body) for _, message in page.messages]


@pytest.mark.parametrize("most", [1, 7, 64])
async def test_pages_have_every_message_once_the_newest_first(admin: Admin, numbered: str, most: int) -> None:
    seen, page = [], await newest(admin, numbered, most)
    while True:
        times = [message.store_timestamp for _, message in page.messages]
        assert times == sorted(times, reverse=True)
        assert len(page.messages) <= most
        seen += numbers(page)
        if not page.ends:
            break
        page = await newest(admin, numbered, most, before=page.ends)
    assert sorted(seen) == list(range(COUNT))
    stored = {
        int(message.body): message.store_timestamp
        for _, message in (await newest(admin, numbered, 64)).messages
    }
    assert [stored[number] for number in seen if number in stored] == sorted(stored.values(), reverse=True)


async def test_a_page_may_begin_at_a_time(admin: Admin, numbered: str) -> None:
    everything = (await newest(admin, numbered, COUNT)).messages
    middle = everything[50][1].store_timestamp
    found = await newest(admin, numbered, COUNT, before_ms=middle)
    assert sorted(numbers(found)) == sorted(
        int(message.body) for _, message in everything if message.store_timestamp < middle
    )


@pytest.mark.parametrize("most", [3, 64])
async def test_of_a_selection_every_message_is_on_a_page_once(
    admin: Admin, numbered: str, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 30)
    found, scanned, page = list[int](), 0, None
    while page is None or page.ends:
        selection = Selection(tag="seven")
        page = await newest(admin, numbered, most, before=page and page.ends, selection=selection)
        assert len(page.messages) <= most
        assert page.scanned <= 30
        assert not page.scanned or page.back_to_ms > 0
        found += numbers(page)
        scanned += page.scanned
    assert (sorted(found), scanned) == ([one for one in range(COUNT) if "7" in str(one)], COUNT)


async def test_messages_that_come_in_between_move_no_page(
    admin: Admin, numbered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await newest(admin, numbered, 10)
    asked = heard(admin, monkeypatch)
    before = await newest(admin, numbered, 10, before=first.ends)
    assert GetTopicStatsInfo not in asked, "the page before has chosen the queues"
    again = await newest(admin, numbered, 10, before=first.ends)
    assert numbers(before) == numbers(again)
    assert not set(numbers(first)) & set(numbers(before))


async def test_of_many_queues_those_with_the_newest_messages_are_read(
    admin: Admin, numbered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_QUEUES", 1)
    page = await newest(admin, numbered, 5)
    assert {queue.queue_id for queue, _ in page.messages} == {0}
    assert page.left_out == 2, "the fourth queue is empty"


async def test_an_empty_topic_and_none(admin: Admin, broker: LocalBroker) -> None:
    broker.create_topic("nothing-yet", 4)
    assert await newest(admin, "nothing-yet", 5) == NewestPage([], {}, 0)
    with pytest.raises(TopicNotExist):
        await newest(admin, "never-made", 5)
