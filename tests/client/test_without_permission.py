"""Clients at a broker with access control: without a key, and with a user who may not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from orbitmq import Message, NoPermission, Producer, PushConsumer
from orbitmq.testing import LocalBroker

ROOT = {"access_key": "root", "secret_key": "root-secret"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalBroker]:
    with LocalBroker(
        authenticationEnabled=True,
        authorizationEnabled=True,
        initAuthenticationUser='{"username":"root","password":"root-secret"}',
    ) as broker:
        yield broker


async def test_a_send_without_a_key_says_what_is_missing(guarded: LocalBroker) -> None:
    async with Producer("g", guarded.namesrv) as producer:
        with pytest.raises(NoPermission, match="access_key="):
            await producer.send(Message("orders", b"x"))
    async with Producer("g", guarded.namesrv, **ROOT) as producer:
        await producer.send(Message("orders", b"x"))


async def test_consuming_without_a_key_or_right_ends(guarded: LocalBroker) -> None:
    async with Producer("g", guarded.namesrv, **ROOT) as producer:
        await producer.send(Message("orders", b"x"))
    for keys in ({}, {"access_key": "nobody", "secret_key": "12345678"}):
        consumer = PushConsumer("readers", guarded.namesrv, **keys)
        consumer.subscribe("orders")
        with pytest.raises(NoPermission):
            await asyncio.wait_for(consumer.start(), 60)
    allowed = PushConsumer("readers", guarded.namesrv, **ROOT)
    allowed.subscribe("orders")
    async with allowed:
        assert allowed.healthy
