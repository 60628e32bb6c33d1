"""Stores in Redis: leases, states, and what becomes of them when Redis or a process goes away."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis.asyncio

from orbitmq.client import HoldBack, InvalidArgument, ReceivedMessage, Reply, Retry
from orbitmq.idempotence import (
    AsyncRedisStore,
    Event,
    IdempotenceError,
    KeyConflict,
    LeaseLost,
    Once,
    RedisStore,
    StoreUnavailable,
    once,
)
from tests.kit.client_messages import received
from tests.kit.redis_server import RedisServer, redis_server

pytestmark = pytest.mark.needs("redis")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as started:
        yield started


class Harness:
    """A store over one client, and handlers for it of plain functions."""

    def __init__(self, client: Any, asynchronous: bool) -> None:
        self.client = client
        self.is_async = asynchronous

    def guard(self, **options: Any) -> Once:
        kind: Any = AsyncRedisStore if self.is_async else RedisStore
        names = ("lease_seconds", "retention_hours", "prefix")
        store = kind(self.client, **{name: options.pop(name) for name in names if name in options})
        return once(store, **{"group": "g", "name": "h", "busy_pause_ms": 7, **options})

    def handler(self, guard: Once, work: Any) -> Any:
        if not self.is_async:
            return guard(work)

        async def handle(given: Any) -> Any:
            return await result(work(given))

        return guard(handle)

    async def all(self) -> list[str]:
        return [name.decode() for name in await result(self.client.keys("*"))]


async def result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@pytest.fixture(params=["plain", "async"])
async def harness(request: pytest.FixtureRequest, server: RedisServer) -> AsyncIterator[Harness]:
    if request.param == "plain":
        client = server.client()
        client.flushall()
        yield Harness(client, False)
        client.close()
    else:
        asynchronous = redis.asyncio.Redis(port=server.port)
        await asynchronous.flushall()
        yield Harness(asynchronous, True)
        await asynchronous.aclose()


def order(number: int, body: bytes = b"body", **properties: str) -> ReceivedMessage:
    return received(number, body, **{"UNIQ_KEY": f"ID{number}", **properties})


async def test_a_duplicate_is_suppressed_and_gets_the_kept_reply(harness: Harness) -> None:
    seen, guard = list[Any](), harness.guard(keep_result=True)

    def work(message: ReceivedMessage) -> Reply:
        seen.append(message)
        return Reply(b"\xff1")

    handler = harness.handler(guard, work)
    assert (await result(handler(order(1)))).body == (await result(handler(order(1)))).body == b"\xff1"
    assert len(seen) == 1
    with pytest.raises(KeyConflict):
        await result(handler(order(1, b"other")))
    assert guard.counts[Event.DUPLICATE] == 1


@pytest.mark.parametrize("failure", [ValueError("no"), Retry(2)], ids=["error", "retry"])
async def test_a_failure_releases_the_key(harness: Harness, failure: Exception) -> None:
    failures = [failure]

    def work(message: ReceivedMessage) -> None:
        if failures:
            raise failures.pop()

    handler = harness.handler(harness.guard(), work)
    if isinstance(failure, ValueError):
        with pytest.raises(ValueError, match="no"):
            await result(handler(order(1)))
    else:
        assert await result(handler(order(1))) == Retry(2)
    assert await harness.all() == []
    assert await result(handler(order(1))) is None


async def test_a_lease_holds_others_back_and_ends_by_itself_for_a_process_that_died(harness: Harness) -> None:
    guard = harness.guard(lease_seconds=30)
    inner = harness.handler(guard, lambda message: None)
    seen = list[Any]()

    async def nested(message: ReceivedMessage) -> None:
        seen.append(await result(inner(message)))

    def plain(message: ReceivedMessage) -> None:
        seen.append(inner(message))

    assert await result(harness.handler(guard, nested if harness.is_async else plain)(order(1))) is None
    assert seen == [HoldBack(7)]
    [name] = await harness.all()
    left_ms = await result(harness.client.pttl(name))
    assert 167 * 3_600_000 < left_ms <= 168 * 3_600_000
    # As a process leaves it that died in its handler.
    value = (await result(harness.client.get(name))).replace(b"consumed", b"consuming")
    await result(harness.client.set(name, value, px=30_000))
    assert await result(inner(order(1))) == HoldBack(7)
    await result(harness.client.pexpire(name, 0))
    assert await result(inner(order(1))) is None


async def test_a_handler_that_takes_longer_than_its_lease_is_an_error(harness: Harness) -> None:
    guard = harness.guard(lease_seconds=30)
    handler = harness.handler(guard, lambda message: None)

    async def ends_lease(message: ReceivedMessage) -> None:
        await harness.client.flushall()

    def plain_ends_lease(message: ReceivedMessage) -> None:
        harness.client.flushall()

    slow = harness.handler(guard, ends_lease if harness.is_async else plain_ends_lease)
    with pytest.raises(LeaseLost, match="ended after 30 s, before its handler"):
        await result(slow(order(1)))
    assert await harness.all() == []
    assert await result(handler(order(1))) is None


async def test_a_batch_releases_what_comes_again(harness: Harness) -> None:
    guard = harness.guard()
    batch = [order(1), order(2), order(3)]
    handler = harness.handler(
        guard, lambda messages: Retry(messages=[messages[1]]) if len(messages) == 3 else None
    )
    assert await result(handler(batch)) == Retry(messages=batch[1:2])
    assert len(await harness.all()) == 2
    assert await result(handler(batch)) is None
    assert (guard.counts[Event.HANDLED], guard.counts[Event.DUPLICATE]) == (3, 2)


async def test_a_redis_that_is_away_holds_messages_back(harness: Harness, server: RedisServer) -> None:
    guard = harness.guard()
    handler = harness.handler(guard, lambda message: None)
    server.stop()
    try:
        with pytest.raises(HoldBack) as raised:
            await result(handler(order(1)))
        assert isinstance(raised.value.__cause__, StoreUnavailable)
        assert guard.counts[Event.UNAVAILABLE] == 1
    finally:
        server.start()
    assert await result(handler(order(1))) is None


async def test_a_foreign_value_under_the_prefix_is_an_error_and_not_overwritten(harness: Harness) -> None:
    guard = harness.guard(prefix="mine:")
    handler = harness.handler(guard, lambda message: None)
    assert await result(handler(order(1))) is None
    [name] = await harness.all()
    assert name.startswith("mine:")
    await result(harness.client.set(name, b"\xff something"))
    with pytest.raises(IdempotenceError, match="choose another prefix="):
        await result(handler(order(1)))
    assert await result(harness.client.get(name)) == b"\xff something"


def test_arguments() -> None:
    client: Any = redis.Redis()
    for wrong, text in (
        (lambda: RedisStore("redis://"), "client has to be a redis.Redis"),  # type: ignore[arg-type]
        (lambda: AsyncRedisStore(client), "client has to be a redis.asyncio.Redis"),
        (lambda: RedisStore(client, lease_seconds=0), "lease_seconds has to be a number from 0.001"),
        (lambda: RedisStore(client, retention_hours=0), "retention_hours has to be a number from"),
        (lambda: RedisStore(client, prefix=""), "prefix has to be a text"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            wrong()
