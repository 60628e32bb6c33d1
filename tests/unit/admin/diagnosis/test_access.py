"""Explanations of decisions, each beside what the broker itself decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.acls import put_rules
from orbitmq.admin.diagnosis.access import BadQuestion, explain_access
from orbitmq.admin.users import create_user, update_user
from orbitmq.client import Message, Producer
from orbitmq.protocol.errors import NoPermission
from orbitmq.protocol.remoting.signing import Credentials
from tests.kit.running_standalone import Running, running

ROOT = Credentials("root", "root-secret")
CHECKED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path / "data", credentials=ROOT, **CHECKED) as started:
        yield started


@pytest.fixture
async def admin(here: Running) -> AsyncIterator[Admin]:
    namesrv = here.server.namesrv.address
    async with Admin(namesrv, access_key="root", secret_key="root-secret") as connected:
        yield connected


async def can_send(here: Running, topic: str) -> bool:
    """True if the broker takes a message of ann."""
    namesrv = here.server.namesrv.address
    async with Producer("p", namesrv, access_key="ann", secret_key="ann-secret") as producer:
        try:
            await producer.send(Message(topic, b"x"))
        except NoPermission:
            return False
        return True


async def test_explanations_are_what_the_broker_does(here: Running, admin: Admin) -> None:
    for topic in ("orders", "orders-secret", "elsewhere"):
        await admin.create_topic(topic, queues=1)
    await create_user(admin, here.address, "ann", "ann-secret")
    await put_rules(admin, here.address, "ann", ["Topic:orders*"], ["Pub"])
    await put_rules(admin, here.address, "ann", ["Topic:orders-secret"], ["All"], "Deny")
    await put_rules(admin, here.address, "ann", ["Topic:*"], ["Pub"], "Allow", ["10.0.0.0/8"])
    await put_rules(admin, here.address, "ann", ["Topic:elsewhere"], ["Sub"])
    found = {}
    for topic in ("orders", "orders-secret", "elsewhere"):
        [found[topic]] = await explain_access(admin, "ann", f"Topic:{topic}", "Pub", "127.0.0.1")
        assert found[topic].allowed is await can_send(here, topic)
    assert [found[topic].cause for topic in found] == ["RULE", "RULE", "NO_RULE"]
    assert [one.verdict for one in found["orders-secret"].rules] == ["decides", "resource", "later", "source"]
    assert {one.resource: one.verdict for one in found["elsewhere"].rules} == {
        "Topic:orders-secret": "resource",
        "Topic:elsewhere": "action",
        "Topic:orders*": "resource",
        "Topic:*": "source",
    }
    assert "acl create ann --resource Topic:elsewhere --action pub" in str(found["elsewhere"].advice)
    [inside] = await explain_access(admin, "ann", "Topic:elsewhere", "Pub", "10.1.1.1")
    assert inside.allowed


async def test_users_that_are_unknown_disabled_or_super_need_no_rule(here: Running, admin: Admin) -> None:
    async def cause(user: str) -> tuple[bool | None, str]:
        [one] = await explain_access(admin, user, "Group:billing", "Sub")
        return one.allowed, one.cause

    assert await cause("ann") == (False, "NO_USER")
    await create_user(admin, here.address, "ann", "ann-secret")
    assert await cause("ann") == (False, "NO_RULE")
    await update_user(admin, here.address, "ann", status="disable")
    assert await cause("ann") == (False, "DISABLED")
    assert await cause("root") == (True, "SUPER_USER")


async def test_a_broker_without_access_control_lets_everybody_in(tmp_path: Path) -> None:
    async with running(tmp_path / "open") as started, Admin(started.server.namesrv.address) as connected:
        [one] = await explain_access(connected, "anybody", "Topic:orders", "Delete")
    assert (one.allowed, one.cause) == (True, "OPEN")


@pytest.mark.parametrize(
    ("resource", "action", "source"),
    [
        ("orders", "Pub", ""),
        ("Topic:ord*", "Pub", ""),
        ("*", "Pub", ""),
        ("Topic:orders", "Fly", ""),
        ("Topic:orders", "Pub", "here"),
    ],
)
async def test_questions_that_make_no_sense_say_why(resource: str, action: str, source: str) -> None:
    async with Admin("127.0.0.1:1") as connected:
        with pytest.raises(BadQuestion):
            await asyncio.wait_for(explain_access(connected, "ann", resource, action, source), 60)
