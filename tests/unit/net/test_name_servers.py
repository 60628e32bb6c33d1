"""Questions to name servers, one after the other until one answers."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.net.errors import NoNameServer
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import PeerFailed, Refused
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from tests.kit.fake_broker import FakeBroker

TIMEOUT_MS = 60_000


async def test_a_name_server_that_fails_gives_way_to_the_next(
    broker: FakeBroker, other_broker: FakeBroker, pool: ConnectionPool
) -> None:
    broker.topic("T")
    await other_broker.stop()
    names = NameServers([other_broker.address, broker.address], pool, TIMEOUT_MS)
    for _ in range(3):
        assert await names.route("T") is not None
    assert names.addresses[0] == broker.address
    assert set(names.addresses) == {broker.address, other_broker.address}
    assert await names.route("U") is None


async def test_questions_that_fail_together_all_go_on_to_the_next(
    broker: FakeBroker, other_broker: FakeBroker, pool: ConnectionPool
) -> None:
    """Each moved the choice on by itself: two of them, and it was the dead one's turn again."""
    broker.topic("T")
    await other_broker.stop()
    for _ in range(5):
        names = NameServers([other_broker.address, broker.address], pool, TIMEOUT_MS)
        routes = await asyncio.gather(*(names.route("T") for _ in range(4)))
        assert None not in routes
        assert names.addresses[0] == broker.address


async def test_when_none_answers_all_are_named(other_broker: FakeBroker, pool: ConnectionPool) -> None:
    await other_broker.stop()
    with pytest.raises(NoNameServer, match=other_broker.address):
        await NameServers([other_broker.address], pool, TIMEOUT_MS).route("T")


async def test_an_error_answer_is_an_error_not_a_missing_topic(
    broker: FakeBroker, pool: ConnectionPool
) -> None:
    broker.on(GetRouteinfoByTopic, lambda _: Refused(1, "name server not ready"))
    with pytest.raises(PeerFailed, match="not ready"):
        await NameServers([broker.address], pool, TIMEOUT_MS).route("T")


async def test_the_one_that_answered_is_asked_first_from_then_on(
    broker: FakeBroker, other_broker: FakeBroker, pool: ConnectionPool
) -> None:
    broker.topic("T")
    await other_broker.stop()
    names = NameServers([other_broker.address, broker.address], pool, TIMEOUT_MS)
    assert not names.has_answered
    await names.route("T")
    assert names.has_answered
    assert names.addresses == [broker.address, other_broker.address]


async def test_without_name_servers_the_error_says_so(pool: ConnectionPool) -> None:
    with pytest.raises(NoNameServer, match="none is set"):
        await NameServers([], pool, TIMEOUT_MS).route("T")
