"""Held calls of a user whose right is withdrawn: refused at once, and never answered with messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.auth.policies import PolicyType
from orbitmq.broker.auth.table import AuthTable
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.auth import Policy, User
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.pop import Notification, PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.schema.declare import Request
from tests.kit.access import entry
from tests.kit.running_standalone import Running, running

ROOT, ANN, BOB = (Credentials(name, f"{name}-secret") for name in ("root", "ann", "bob"))
GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}
HELD = 2 | 4
"""The system flag of a pull that may be held and brings its subscription."""

CALLS: list[Request[Any]] = [
    PullMessage("G", "T", 0, 0, 32, HELD, 0, 20_000, 0, "*", expression_type="TAG"),
    PopMessage("G", "T", -1, 32, 60_000, 20_000, 0, 0, exp_type="TAG", exp="*"),
    Notification("G", "T", -1, 20_000, 0),
]


def deny(auth: AuthTable) -> None:
    auth.merge_acl("ann", [Policy(PolicyType.CUSTOM, [entry("Topic:T", "Sub", "Deny")])])


def disable(auth: AuthTable) -> None:
    auth.put_user(User("ann", "ann-secret", user_type=2, user_status=2))


def change_secret(auth: AuthTable) -> None:
    auth.put_user(User("ann", "another", user_type=2, user_status=1))


WITHDRAWALS: list[Callable[[AuthTable], None]] = [
    deny,
    disable,
    change_secret,
    lambda auth: auth.delete_user("ann"),
    lambda auth: auth.delete_acl("ann", PolicyType.CUSTOM, None),
]


def allow(server: Running) -> AuthTable:
    auth = server.broker.broker.auth
    for who in (ANN, BOB):
        auth.put_user(User(who.access_key, who.secret_key, user_type=2, user_status=1))
        auth.merge_acl(
            who.access_key,
            [Policy(PolicyType.CUSTOM, [entry("Topic:T", "Pub|Sub"), entry("Group:G", "Sub")])],
        )
    return auth


async def held(server: Running, pool: ConnectionPool, request: Request[Any]) -> asyncio.Task[Any]:
    """The call, once the broker holds it."""
    before = server.broker.turns.waits.polls
    task = asyncio.create_task(pool.call(server.address, request, 30_000))
    while server.broker.turns.waits.polls == before:
        assert not task.done(), task.result()
        await asyncio.sleep(0.005)
    return task


@pytest.mark.parametrize("request_", CALLS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("withdraw", WITHDRAWALS, ids=["rule", "status", "secret", "user", "rules"])
async def test_a_held_call_ends_as_the_right_to_it_is_withdrawn(
    tmp_path: Path, request_: Request[Any], withdraw: Callable[[AuthTable], None]
) -> None:
    async with running(tmp_path, credentials=ROOT, **GUARDED) as server:
        server.broker.broker.topics.put(TopicConfig("T", 1, 1, 6), 0)
        auth = allow(server)
        anns, bobs = ConnectionPool(credentials=ANN), ConnectionPool(credentials=BOB)
        try:
            lost, kept = await held(server, anns, request_), await held(server, bobs, request_)
            withdraw(auth)
            await server.send("T", b"for those who may")
            with pytest.raises(BrokerRefused) as refused:
                await asyncio.wait_for(lost, 120)
            assert refused.value.code == ResponseCode.NO_PERMISSION
            reply = await asyncio.wait_for(kept, 120)
            assert reply.code == ResponseCode.SUCCESS
            assert server.broker.broker.held_pops.count == server.broker.broker.held_notices.count == 0
        finally:
            await anns.close()
            await bobs.close()


@pytest.mark.parametrize("request_", CALLS, ids=lambda one: type(one).__name__)
async def test_a_held_call_is_refused_before_any_message_comes(
    tmp_path: Path, request_: Request[Any]
) -> None:
    async with running(tmp_path, credentials=ROOT, **GUARDED) as server:
        server.broker.broker.topics.put(TopicConfig("T", 1, 1, 6), 0)
        auth = allow(server)
        anns = ConnectionPool(credentials=ANN)
        try:
            lost = await held(server, anns, request_)
            auth.delete_user("ann")
            server.run_task("sample statistics", server.now())
            with pytest.raises(BrokerRefused) as refused:
                await asyncio.wait_for(lost, 120)
            assert refused.value.code == ResponseCode.NO_PERMISSION
        finally:
            await anns.close()


async def test_a_change_that_leaves_the_right_leaves_the_held_call(tmp_path: Path) -> None:
    async with running(tmp_path, credentials=ROOT, **GUARDED) as server:
        server.broker.broker.topics.put(TopicConfig("T", 1, 1, 6), 0)
        auth = allow(server)
        anns = ConnectionPool(credentials=ANN)
        try:
            kept = await held(server, anns, CALLS[0])
            auth.delete_user("bob")
            await server.send("T", b"for ann")
            assert b"for ann" in bytes((await asyncio.wait_for(kept, 120)).body)
        finally:
            await anns.close()
