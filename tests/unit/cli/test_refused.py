"""Commands at a broker with access control: one line that says what to do, and an end."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.cli.app import run
from orbitmq.testing.local_broker import LocalBroker


def orbitmq(*arguments: str) -> str:
    """The one line on standard error of a command that fails, in a process of its own with its own log."""
    command = [sys.executable, "-m", "orbitmq", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=os.environ)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    return line


ADVICE = "the broker has access control: give --access-key USER"


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalBroker]:
    options = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps({"username": "root", "password": "hush"}),
    }
    with LocalBroker(**options) as broker:
        yield broker


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, guarded: LocalBroker) -> list[str]:
    monkeypatch.setenv("NAMESRV_ADDR", guarded.namesrv)
    monkeypatch.setenv("ORBITMQ_SECRET_KEY", "hush")
    return ["--access-key", "root"]


@pytest.fixture
def ann(root: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """A user who may do nothing."""
    secret = tmp_path / "ann.secret"
    secret.write_text("s3cret\n")
    run(["admin", "user", "create", "ann", "--password-file", str(secret), *root])
    assert run(["produce", "--topic", "orders", "--body", "x", *root]) == 0
    capsys.readouterr()
    return ["--access-key", "ann", "--secret-file", str(secret)]


@pytest.mark.parametrize(
    "command",
    [
        ["produce", "--topic", "orders", "--body", "x"],
        ["consume", "--topic", "orders"],
        ["admin", "group", "list"],
    ],
    ids=lambda command: command[0],
)
def test_without_a_key_there_is_one_line_with_a_hint(ann: list[str], command: list[str]) -> None:
    line = orbitmq(*command)
    assert line.count("username cannot be null") == 1, "one try, for no other would do better"
    assert ADVICE in line


@pytest.mark.parametrize(
    "command", [["produce", "--topic", "orders", "--body", "x"], ["consume", "--topic", "orders"]]
)
def test_a_user_who_may_not_gets_one_line(ann: list[str], command: list[str]) -> None:
    line = orbitmq(*command, *ann)
    assert line.count("User:ann has no permission") == 1
    assert "--access-key" not in line


def test_a_wrong_secret_is_named(ann: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBITMQ_SECRET_KEY", "wrong")
    line = orbitmq("produce", "--topic", "orders", "--body", "x", "--access-key", "root")
    assert line.endswith("the secret does not belong to the user of --access-key")
