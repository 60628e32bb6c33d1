"""Lists of pending messages."""

import pytest

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.http import view
from orbitmq.delay_service.http.view import Filter, list_messages


@pytest.fixture
def names(world, monkeypatch):
    """Gives the names of all messages of a filter, and the number of pages, of three entries each."""
    monkeypatch.setattr(view, "MOST_LOOKED_AT", 3)

    def names(**given):
        found, cursor, pages = [], "", 0
        while pages == 0 or cursor:
            page = list_messages(world.store, Filter(**given), 2, cursor)
            found += [pending.name for _, pending in page.messages]
            cursor, pages = page.cursor, pages + 1
        return found, pages

    return names


def test_a_beginning_of_names_is_found_among_many_others(world, names):
    for n in range(50):
        world.send(topic=f"t{n % 2}", after=f"{n}s", id=f"other-{n:02}")
    for n in (2, 3, 1):
        world.send(topic=f"t{n % 2}", after=f"{n}h", id=f"order-{n}")
    world.send(topic="t0", after="1h", id="order\U0010ffff")
    world.take_in()
    assert names(prefix="order-") == (["order-1", "order-2", "order-3"], 2)
    assert names(prefix="order-", topic="t1")[0] == ["order-1", "order-3"]
    assert names(prefix="order-", since=world.now + 7_200_000)[0] == ["order-2", "order-3"]
    assert names(prefix="order-", until=world.now + 7_200_000, cluster="main")[0] == ["order-1", "order-2"]
    assert names(prefix="order-", cluster="events")[0] == []
    assert len(names(prefix="o")[0]) == 54


def test_other_lists_are_by_time(world, names):
    for n in (3, 1, 2):
        world.send(topic="t", after=f"{n}h", id=f"{n}")
    world.take_in()
    assert names(topic="t") == (["1", "2", "3"], 2)
    assert names(topic="t", since=world.now + 7_200_000)[0] == ["2", "3"]
    assert names(cluster="events")[0] == []


def test_a_cursor_belongs_to_its_kind_of_filter(world):
    for n in range(3):
        world.send(topic="t", after="1h", id=f"{n}")
    world.take_in()
    cursor = list_messages(world.store, Filter(topic="t"), 2).cursor
    for text in (cursor, "x", "TQ=="):
        with pytest.raises(NotSchedulable):
            list_messages(world.store, Filter(prefix="a"), 2, text)
