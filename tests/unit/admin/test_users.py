"""Users and rules through `Admin` and the command line, asked of a broker that checks who asks."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.acls import copy_rules, delete_rules, list_rules, put_rules, rules_of
from orbitmq.admin.users import NoSecret, NoSuchUser, copy_users, list_users
from orbitmq.cli.app import run
from orbitmq.protocol.bodies.auth import PolicyEntryInfo
from orbitmq.protocol.errors import BrokerRefused
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


class Commands:
    """`orbitmq ...` as root, in a thread beside the broker's loop."""

    def __init__(self, here: Running, capfd: pytest.CaptureFixture[str]) -> None:
        self._namesrv = here.server.namesrv.address
        self._capfd = capfd

    async def __call__(self, *arguments: str, code: int = 0) -> Any:
        self._capfd.readouterr()
        command = [*arguments, "--namesrv", self._namesrv]
        ended = await asyncio.to_thread(run, command)
        captured = self._capfd.readouterr()
        assert ended == code, captured.err
        assert "-secret" not in (captured.out + captured.err).replace("--secret-file", "")
        return captured

    async def json(self, *arguments: str) -> Any:
        return json.loads((await self("admin", *arguments, "--json")).out)


@pytest.fixture
def orbitmq(here: Running, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("ORBITMQ_ACCESS_KEY", "root")
    monkeypatch.setenv("ORBITMQ_SECRET_KEY", "root-secret")
    return Commands(here, capfd)


async def test_the_life_of_a_user(orbitmq: Commands, here: Running, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("ann-secret\nmore\n")
    table = here.broker.broker.auth
    await orbitmq("admin", "user", "create", "ann", "--password-file", str(file))
    assert await orbitmq.json("user", "get", "ann") == [
        {"broker": "broker-a", "user": "ann", "type": "Normal", "status": "enable"}
    ]
    assert [row["user"] for row in await orbitmq.json("user", "list")] == ["ann", "root"]
    assert [row["user"] for row in await orbitmq.json("user", "list", "--filter", "oo")] == ["root"]
    await orbitmq("admin", "user", "update", "ann", "--disable", "--type", "super")
    assert (await orbitmq.json("user", "get", "ann"))[0]["status"] == "disable"
    file.write_text("new-secret")
    await orbitmq("admin", "user", "update", "ann", "--enable", "--password-file", str(file))
    user = table.user("ann")
    assert user is not None
    assert (user.password, user.user_type, user.user_status) == ("new-secret", 1, 1)
    await orbitmq("admin", "user", "delete", "ann", "--yes")
    assert table.user("ann") is None
    assert "there is no user ann" in (await orbitmq("admin", "user", "get", "ann", code=1)).err


async def test_the_life_of_rules(orbitmq: Commands, here: Running, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("ann-secret")
    await orbitmq("admin", "user", "create", "ann", "--password-file", str(file))
    flags = ["--resource", "Topic:orders*", "--resource", "Group:g", "--action", "pub", "--action", "sub"]
    await orbitmq("admin", "acl", "create", "ann", *flags, "--source-ip", "10.0.0.0/8")
    await orbitmq(
        "admin", "acl", "create", "User:ann", "--resource", "*", "--action", "all", "--deny", "--default"
    )
    rows = await orbitmq.json("acl", "get", "ann")
    row = {"broker": "broker-a", "subject": "User:ann", "policy": "Custom", "decision": "Allow"}
    row |= {"actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.0/8"]}
    everything = {"policy": "Default", "resource": "*", "actions": ["All"], "sourceIps": None}
    assert rows == [
        {**row, "resource": "Topic:orders*"},
        {**row, "resource": "Group:g"},
        {**row, **everything, "decision": "Deny"},
    ]
    assert len(await orbitmq.json("acl", "list", "--subject", "ann", "--resource", "Group")) == 1
    await orbitmq("admin", "acl", "delete", "ann", "--resource", "Group:g", "--yes")
    await orbitmq("admin", "acl", "delete", "ann", "--resource", "*", "--default", "--yes")
    assert [row["resource"] for row in await orbitmq.json("acl", "list")] == ["Topic:orders*"]
    await orbitmq("admin", "acl", "delete", "ann", "--yes")
    assert await orbitmq.json("acl", "get", "ann") == []
    assert (
        "is not exist"
        in (await orbitmq("admin", "acl", "create", "bob", "--resource", "*", "--action", "all", code=1)).err
    )


async def test_without_or_with_wrong_credentials(
    orbitmq: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORBITMQ_SECRET_KEY", "wrong")
    assert "check signature failed." in (await orbitmq("admin", "user", "list", code=1)).err
    monkeypatch.delenv("ORBITMQ_SECRET_KEY")
    assert "ORBITMQ_SECRET_KEY" in (await orbitmq("admin", "user", "list", code=2)).err
    right = tmp_path / "root.secret"
    right.write_text("root-secret\n")
    await orbitmq("admin", "user", "list", "--secret-file", str(right))
    missing = str(tmp_path / "missing")
    assert "No such file" in (await orbitmq("admin", "user", "list", "--secret-file", missing, code=2)).err
    monkeypatch.delenv("ORBITMQ_ACCESS_KEY")
    assert "username cannot be null." in (await orbitmq("admin", "user", "list", code=1)).err


async def test_all_commands_sign(orbitmq: Commands, here: Running, tmp_path: Path) -> None:
    await orbitmq("admin", "topic", "create", "signed")
    assert "SEND_OK" in (await orbitmq("produce", "--topic", "signed", "--body", "hello")).out
    reading = ["--topic", "signed", "--from", "first", "--max", "1"]
    assert (await orbitmq("consume", *reading)).out == "hello\n"
    assert "is healthy" in (await orbitmq("ping", "--broker", here.address)).out


async def test_copying(tmp_path: Path) -> None:
    keys = {"access_key": "root", "secret_key": "root-secret"}
    async with running(tmp_path / "a", **CHECKED) as a, running(tmp_path / "b", **CHECKED) as b:
        admin = Admin(a.server.namesrv.address, **keys)
        source, target = a.address, b.address
        a_users, b_users = a.broker.broker.auth, b.broker.broker.auth
        for name in ("ann", "bob"):
            a_users.ensure_super_user(name, f"{name}-secret")
            await put_rules(admin, source, name, ["Topic:x"], ["Pub"])
        with pytest.raises(BrokerRefused, match="User:ann is not exist"):
            await copy_rules(admin, source, target)
        assert await copy_users(admin, source, target, ["ann"]) == ["ann"]
        a_users.ensure_super_user("cleo", "cleo-secret")
        assert await copy_users(admin, source, target) == ["ann", "bob", "cleo", "root"]
        assert b_users.users() == a_users.users()
        assert await copy_rules(admin, source, target, ["ann"]) == ["User:ann"]
        assert b_users.acl("bob") is None
        assert await copy_rules(admin, source, target) == ["User:ann", "User:bob"]
        assert await list_rules(admin, target) == await list_rules(admin, source)
        await delete_rules(admin, target, "bob", "Topic:x")
        assert await rules_of(admin, target, "bob") is None
        found = await rules_of(admin, target, "User:ann")
        assert found is not None
        assert found.policies[0].entries == [PolicyEntryInfo("Topic:x", ["Pub"], None, "Allow")]
        with pytest.raises(NoSuchUser, match="no user nobody"):
            await copy_users(admin, source, target, ["nobody"])
        await admin.close()


async def test_users_cannot_be_copied_from_where_secrets_are_not_told(tmp_path: Path) -> None:
    options = {**CHECKED, "authSecretsShownTo": "nobody"}
    async with running(tmp_path, **options) as here:
        admin = Admin(here.server.namesrv.address, access_key="root", secret_key="root-secret")
        assert [user.password for user in await list_users(admin, here.address)] == [None]
        with pytest.raises(NoSecret, match="root"):
            await copy_users(admin, here.address, here.address)
        await admin.close()
