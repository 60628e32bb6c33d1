"""Users and rules that were acknowledged are there after kill -9, and wrong ones do not come back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import stat
from pathlib import Path

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.acls import list_rules, put_rules
from orbitmq.admin.users import create_user, delete_user, list_users
from orbitmq.net.errors import NetError
from orbitmq.testing import LocalBroker

GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}
KEYS = {"access_key": "root", "secret_key": "root-secret"}
ENOUGH = 60


class Load:
    """Makes users with a rule each, and removes every third, until the broker is gone."""

    def __init__(self, admin: Admin, address: str, prefix: str) -> None:
        self._admin = admin
        self._address = address
        self._prefix = prefix
        self.made: set[str] = set()
        self.gone: set[str] = set()
        """Changes that were acknowledged."""
        self.enough = asyncio.Event()

    async def work(self, number: int) -> None:
        admin, address = self._admin, self._address
        with contextlib.suppress(NetError):
            for turn in itertools.count():
                name = f"{self._prefix}-{number}-{turn}"
                await create_user(admin, address, name, f"{name}-secret")
                await put_rules(admin, address, name, [f"Topic:{name}"], ["Pub"])
                if turn % 3 == 2:
                    await delete_user(admin, address, name)
                    self.gone.add(name)
                else:
                    self.made.add(name)
                if len(self.made) >= ENOUGH:
                    self.enough.set()


async def test_acknowledged_users_and_rules_outlive_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    made: set[str] = set()
    gone: set[str] = set()
    for number in range(3):
        broker = LocalBroker(folder, own_process=True, **GUARDED)
        await asyncio.to_thread(broker.start)
        async with Admin(broker.namesrv, **KEYS) as admin:
            load = Load(admin, broker.broker, f"u{number}")
            workers = [asyncio.create_task(load.work(number)) for number in range(8)]
            async with asyncio.timeout(120):
                await load.enough.wait()
            await asyncio.to_thread(broker.kill)
            await asyncio.gather(*workers)
        made |= load.made
        gone |= load.gone
        broker = LocalBroker(folder, own_process=True, **GUARDED)
        await asyncio.to_thread(broker.start)
        async with Admin(broker.namesrv, **KEYS) as admin:
            users = {user.username for user in await list_users(admin, broker.broker)}
            rules = {acl.subject for acl in await list_rules(admin, broker.broker)}
        await asyncio.to_thread(broker.kill)
        assert made <= users
        assert {f"User:{name}" for name in made} <= rules
        assert not gone & users
        assert len(made) >= ENOUGH
    for name in ("auth.json", "auth.json.bak", "auth.key"):
        assert stat.S_IMODE((folder / "config" / name).stat().st_mode) == 0o600


async def test_a_torn_file_is_refused_or_its_backup_taken(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with LocalBroker(folder, own_process=True, **GUARDED) as broker:
        async with Admin(broker.namesrv, **KEYS) as admin:
            await create_user(admin, broker.broker, "ann", "ann-secret")
            await create_user(admin, broker.broker, "bob", "bob-secret")
    file = folder / "config" / "auth.json"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with LocalBroker(folder, own_process=True, **GUARDED) as broker:
        async with Admin(broker.namesrv, **KEYS) as admin:
            assert "ann" in {user.username for user in await list_users(admin, broker.broker)}
    for path in (file, file.with_name("auth.json.bak")):
        path.write_bytes(whole[: len(whole) // 2])
    # Not an empty table: every user would be locked out, or a first user let in anew.
    with pytest.raises(Exception, match=r"auth\.json and its \.bak cannot be read"):
        LocalBroker(folder, own_process=True, **GUARDED).start()
