"""Users' secrets in their file: sealed, whatever was there before, and refused where they do not open."""

from __future__ import annotations

import contextlib
import json
import logging
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from orbitmq.broker.auth.encryption import SEALED
from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.failpoints import armed_point
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.options import Layer
from orbitmq.server.errors import StartError
from orbitmq.server.lifecycle.auth_file import load_auth
from orbitmq.server.tasks.table_writer import TableFile
from orbitmq.store.config_files import write_text

SECRETS = {"root": "root-Secret", "ann": "ann-Secret \u00e4"}


class Killed(BaseException):
    """An exception that nobody catches."""


def started(folder: Path, **properties: object) -> tuple[AuthTable, TableFile]:
    """The table of a broker that starts, its files in `folder`."""
    values = {"authenticationEnabled": True, **properties}
    table = AuthTable(DirtyTables())
    return table, load_auth(BROKER_TABLE.load([Layer("the test", values)]), folder, table)


def filled(folder: Path, **properties: object) -> TableFile:
    """A folder with two users, and a file for each of the two last changes."""
    table, file = started(folder, **properties)
    for name, secret in SECRETS.items():
        table.ensure_super_user(name, secret)
        save(file)
    return file


def save(file: TableFile) -> None:
    write_text(file.path, file.snapshot()(), file.mode)


def secrets_of(table: AuthTable) -> dict[str | None, str | None]:
    return {user.username: user.password for user in table.users()}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_nothing_in_clear(folder: Path) -> None:
    for name, content in contents(folder).items():
        assert b"Secr" not in content, name


@pytest.fixture
def without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)


def test_secrets_are_sealed_in_the_file_and_open_in_memory(tmp_path: Path) -> None:
    filled(tmp_path)
    assert_nothing_in_clear(tmp_path)
    assert sorted(contents(tmp_path)) == ["auth.json", "auth.json.bak", "auth.key"]
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    saved = json.loads((tmp_path / "auth.json").read_text())
    assert all(user["password"].startswith(SEALED) for user in saved["users"].values())
    table, _ = started(tmp_path)
    assert secrets_of(table) == SECRETS


def test_a_broker_without_users_and_access_control_makes_no_key(tmp_path: Path) -> None:
    table, file = started(tmp_path, authenticationEnabled=False)
    assert contents(tmp_path) == {}
    table.ensure_super_user("root", SECRETS["root"])
    save(file)
    assert_nothing_in_clear(tmp_path)


def test_the_key_may_be_elsewhere(tmp_path: Path) -> None:
    config, key = tmp_path / "config", tmp_path / "credentials" / "orbitmq.key"
    filled(config, authKeyPath=key)
    assert sorted(contents(config)) == ["auth.json", "auth.json.bak"]
    assert secrets_of(started(config, authKeyPath=key)[0]) == SECRETS
    with pytest.raises(
        StartError, match=r"auth\.json are sealed and their key .*auth\.key is missing; put it"
    ):
        started(config)
    assert not (config / "auth.key").exists(), "never a new one where something was sealed with another"


def test_a_key_that_is_there_is_used_and_stays(tmp_path: Path) -> None:
    key = Fernet.generate_key()
    (tmp_path / "auth.key").write_bytes(key)
    filled(tmp_path)
    assert (tmp_path / "auth.key").read_bytes() == key
    sealed = json.loads((tmp_path / "auth.json").read_text())["users"]["root"]["password"]
    assert Fernet(key).decrypt(sealed.removeprefix(SEALED)).decode() == SECRETS["root"]


@pytest.mark.parametrize("kill_after", [None, 0, 1, 2, 3, 4, 5])
def test_what_was_in_clear_is_sealed_at_the_start_whenever_that_is_killed(
    tmp_path: Path, kill_after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "cryptography.fernet", None)
        filled(tmp_path)
    assert SECRETS["root"].encode() in contents(tmp_path)["auth.json"]
    assert SECRETS["root"].encode() in contents(tmp_path)["auth.json.bak"]
    if kill_after is not None:
        # Two points in each of three writes: of the key, and twice of the table.
        left = iter([False] * kill_after)

        def die_in_turn() -> None:
            if next(left, True):
                raise Killed

        with (
            armed_point("config.before_rename", die_in_turn),
            armed_point("config.between_renames", die_in_turn),
            contextlib.suppress(Killed),
        ):
            started(tmp_path)
    table, _ = started(tmp_path)
    assert secrets_of(table) == SECRETS
    assert_nothing_in_clear(tmp_path)


def test_a_backup_in_clear_is_sealed_too(tmp_path: Path) -> None:
    filled(tmp_path)
    user = {"username": "eve", "password": "eve-Secret", "userType": 1, "userStatus": 1}
    (tmp_path / "auth.json.bak").write_text(json.dumps({"users": {"eve": user}, "acls": {}}))
    assert secrets_of(started(tmp_path)[0]) == SECRETS
    assert_nothing_in_clear(tmp_path)


def test_a_start_on_sealed_files_writes_nothing(tmp_path: Path) -> None:
    filled(tmp_path)
    before = contents(tmp_path)
    started(tmp_path)
    assert contents(tmp_path) == before


def test_a_start_that_cannot_write_says_what_stays_in_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "cryptography.fernet", None)
        filled(tmp_path)
    (tmp_path / "auth.key").write_bytes(Fernet.generate_key())
    (tmp_path / "auth.json.tmp").mkdir()
    assert secrets_of(started(tmp_path)[0]) == SECRETS
    assert "still hold secrets in clear" in caplog.text


@pytest.mark.usefixtures("without_cryptography")
def test_without_the_package_secrets_stay_as_they_are_and_a_line_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        filled(tmp_path, authenticationEnabled=False)
        assert not caplog.messages
        assert secrets_of(started(tmp_path)[0]) == SECRETS
    (line,) = caplog.messages
    assert "auth.json" in line
    assert line.endswith("pip install 'orbitmq[auth]'")
    assert sorted(contents(tmp_path)) == ["auth.json", "auth.json.bak"]


def test_sealed_secrets_without_the_package_end_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path)
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
    with pytest.raises(StartError, match=r"auth\.json are sealed .*auth\.key.*: pip install .*\[auth\]'$"):
        started(tmp_path)


def _missing(folder: Path) -> None:
    (folder / "auth.key").unlink()


def _another(folder: Path) -> None:
    (folder / "auth.key").write_bytes(Fernet.generate_key())


def _damaged_secret(folder: Path) -> None:
    path = folder / "auth.json"
    path.write_bytes(path.read_bytes().replace(SEALED.encode() + b"g", SEALED.encode() + b"\xff", 1))


@pytest.mark.parametrize("defect", [_missing, _another, _damaged_secret])
def test_what_does_not_open_ends_the_start_and_no_backup_hides_it(
    tmp_path: Path, defect: Callable[[Path], None]
) -> None:
    filled(tmp_path)
    # It would do, were it asked.
    clear = {"username": "old", "password": "old-password", "userType": 1, "userStatus": 1}
    (tmp_path / "auth.json.bak").write_text(json.dumps({"users": {"old": clear}, "acls": {}}))
    defect(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(StartError) as refused:
        started(tmp_path)
    (line,) = str(refused.value).splitlines()
    assert str(tmp_path / "auth.json") in line
    assert str(tmp_path / "auth.key") in line
    assert "; put" in line
    assert contents(tmp_path) == before


def test_brokers_that_begin_together_share_the_key_of_the_first(tmp_path: Path) -> None:
    key = tmp_path / "shared.key"
    (one, one_file), (other, other_file) = (
        started(tmp_path / name, authKeyPath=key, authenticationEnabled=False) for name in ("a", "b")
    )
    for table, file in ((one, one_file), (other, other_file)):
        table.ensure_super_user("root", SECRETS["root"])
        save(file)
    for name in ("a", "b"):
        assert secrets_of(started(tmp_path / name, authKeyPath=key)[0]) == {"root": SECRETS["root"]}
