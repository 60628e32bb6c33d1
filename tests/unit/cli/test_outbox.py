"""`orbitmq outbox`, from the tables to the relay's end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine

from orbitmq import Message, Producer
from orbitmq.cli.app import app, run
from orbitmq.outbox import Outbox, Relay
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from orbitmq.testing.local_broker import Isolated
from tests.certificates import Authority

YEAR_MS = 365 * 86_400_000


def invoke(*words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["outbox", *words], env=env)


def write(url: str, *messages: Message) -> list[str]:
    engine = create_engine(url)
    with engine.begin() as connection:
        ids = Outbox().add_all(connection, messages)
    engine.dispose()
    return ids


@contextlib.contextmanager
def relay_process(url: str, namesrv: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """`orbitmq outbox relay`, which is killed in the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "orbitmq", "outbox", "relay", "--namesrv", namesrv, *map(str, words)],
        env={**os.environ, "ORBITMQ_OUTBOX_DATABASE": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as relay:
        try:
            yield relay
        finally:
            relay.kill()


def test_from_the_tables_to_the_end(tmp_path: Path, rocketmq_isolated: Isolated) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    topic = rocketmq_isolated.topic()
    assert "are there" in invoke("create-tables", "-d", url).output
    write(url, Message(topic, b"x"))
    [refused] = write(url, Message(topic, b"late", delay_ms=YEAR_MS, sharding_key="k"))
    write(url, Message(topic, b"y", sharding_key="k"))
    assert json.loads(invoke("status", "-d", url, "--json").output)["pending"] == 3
    port = free_ports()
    ready = tmp_path / "ready"
    options = ("--park-blocks-key", "--metrics-port", port, "--ready-file", ready)
    with relay_process(url, rocketmq_isolated.namesrv, *options) as relay:
        assert relay.stdout is not None
        assert relay.stdout.readline().startswith("ready: relay of outbox orbitmq_outbox")
        assert ready.exists()
        while True:
            found = json.loads(invoke("status", "-d", url, "--json").output)
            if not found["pending"]:
                break
        assert (found["held"], found["parked"]) == (1, 1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert "orbitmq_outbox_parked_total" in answer.read().decode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
            assert answer.read() == b"healthy\n"
        relay.send_signal(signal.SIGTERM)
        out, err = relay.communicate(timeout=60)
    assert relay.returncode == 0, err
    assert out.strip() == "stopped: 1 message sent, 1 parked"
    assert not ready.exists()
    [listed] = json.loads(invoke("parked", "-d", url, "--json").output)
    assert (listed["id"], listed["topic"], listed["key"], listed["blocksKey"]) == (refused, topic, "k", True)
    assert "MESSAGE_ILLEGAL" in listed["reason"]
    assert refused in invoke("parked", "-d", url, "--topic", topic).output
    assert invoke("release", "-d", url, refused).output == "1 message released\n"
    assert json.loads(invoke("status", "-d", url, "--json").output)["pending"] == 2
    assert invoke("discard", "-d", url, "--all", "--yes", "--json").exit_code == 0


def test_every_option_of_the_relay_reaches_it(
    tmp_path: Path, rocketmq_isolated: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests of `Relay` show what each does; here a real one stops at once."""
    seen: dict[str, object] = {}

    class Asked(Relay):
        def __init__(self, box: Outbox, database: Any, producer: Producer, **given: Any) -> None:
            seen.update(given, table=box.name, group=producer.group)
            super().__init__(box, database, producer, **given)

        async def start(self) -> Self:
            started = await super().start()
            os.kill(os.getpid(), signal.SIGTERM)
            return started

    class Signing(Producer):
        def __init__(self, group: str, namesrv: str, **given: Any) -> None:
            seen.update(given, tls=given["tls"] and given["tls"].verify_mode)
            super().__init__(group, namesrv, **given)

    monkeypatch.setattr("orbitmq.outbox.Relay", Asked)
    monkeypatch.setattr("orbitmq.cli.outbox.Producer", Signing)
    monkeypatch.setattr("orbitmq.cli.flags.set_up", lambda *logs: seen.update(logs=logs))
    url, port, ready = f"sqlite:///{tmp_path / 'shop.db'}", free_ports(), tmp_path / "ready"
    secret = tmp_path / "secret"
    secret.write_text("c-secret\n")
    table = ["-d", url, "--table", "letters", "--schema", "main"]
    assert invoke("create-tables", *table).exit_code == 0
    flags = {
        "--workers": 3,
        "--batch-size": 7,
        "--poll-interval": 0.25,
        "--send-timeout": 2.5,
        "--max-pause": 1.5,
        "--park-after": 60,
        "--retention": 3600,
        "--group": "letters",
        "--namesrv": rocketmq_isolated.namesrv,
        "--access-key": "clerk",
        "--secret-file": secret,
        "--metrics-port": port,
        "--metrics-listen": "127.0.0.1",
        "--ready-file": ready,
        "--log-level": "debug",
        "--log-format": "json",
    }
    words = [str(word) for flag in flags.items() for word in flag]
    done = invoke("relay", *table, *words, "--park-blocks-key", "--tls-insecure")
    assert done.exit_code == 0, done.output
    assert seen == {
        "table": "main.letters",
        "group": "letters",
        "access_key": "clerk",
        "secret_key": "c-secret",
        "security_token": None,
        "tls": ssl.CERT_NONE,
        "logs": ("debug", "json"),
        "workers": 3,
        "batch_size": 7,
        "poll_interval_ms": 250,
        "send_timeout_ms": 2500,
        "max_pause_ms": 1500,
        "park_after_ms": 60_000,
        "park_blocks_key": True,
        "retention_ms": 3_600_000,
    }
    assert f"http://127.0.0.1:{port}/metrics" in done.output


@pytest.mark.needs("openssl")
def test_a_relay_and_a_broker_show_each_other_their_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    server, clerk = authority.issue("server"), authority.issue("clerk")
    guarded = {
        "tls.server.mode": "enforcing",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": authority.cert,
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": authority.cert,
    }
    for side in ("server", "client"):
        guarded |= {f"tls.{side}.certPath": server.cert, f"tls.{side}.keyPath": server.key}
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    assert invoke("create-tables", "-d", url).exit_code == 0
    write(url, Message("letters", b"sealed"))
    trust = ["--tls-ca", authority.cert]
    with LocalBroker(own_process=True, **guarded) as broker:
        with relay_process(url, broker.namesrv, *trust) as relay:
            assert relay.stderr is not None
            assert "NoNameServer" in next(line for line in relay.stderr if "letters" in line)
        assert json.loads(invoke("status", "-d", url, "--json").output)["pending"] == 1
        shown = ["--tls-cert", clerk.cert, "--tls-key", clerk.key]
        with relay_process(url, broker.namesrv, *trust, *shown) as relay:
            while json.loads(invoke("status", "-d", url, "--json").output)["pending"]:
                assert relay.poll() is None
            relay.terminate()
            out, err = relay.communicate(timeout=60)
    assert out.splitlines()[-1:] == ["stopped: 1 message sent, 0 parked"], err


def test_no_more_parked_messages_are_listed_than_asked_for(tmp_path: Path) -> None:
    url, box = f"sqlite:///{tmp_path / 'shop.db'}", Outbox()
    assert invoke("create-tables", "-d", url).exit_code == 0
    ids = write(url, *[Message("T", b"x") for _ in range(3)])
    with create_engine(url).begin() as connection:
        connection.execute(box.messages.update().values(state="parked", reason="no"))
    for limit in (1, 2, 10):
        listed = json.loads(invoke("parked", "-d", url, "--json", "--limit", str(limit)).output)
        assert [one["id"] for one in listed] == ids[:limit]


def test_tables_as_statements_without_a_database() -> None:
    text = invoke("create-tables", "-d", "postgresql+psycopg://app@nowhere/shop", "--sql").output
    assert "CREATE TABLE orbitmq_outbox (" in text
    assert text.count(";") == 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["status", "-d", "postgresql+psycopg://app:secret@db/shop"], "ORBITMQ_OUTBOX_DATABASE"),
        (["release", "-d", "sqlite://"], "give ids, --topic or --all"),
        (["release", "-d", "sqlite://", "--all", "--topic", "t"], "give ids, --topic or --all"),
        (["status"], "--database"),
    ],
)
def test_wrong_usage(words: list[str], told: str) -> None:
    done = invoke(*words)
    assert done.exit_code == 2
    assert told in done.output
    assert "secret" not in done.output


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "not a URL"),
        ("nosuch://x/y", "not a URL"),
        ("oracle+oracledb://x/y", "is not installed"),
        ("postgresql+psycopg://app@127.0.0.1:1/shop", "the database cannot be used"),
        ("sqlite://", "the database has no table orbitmq_outbox"),
        ("sqlite:////nowhere/at/all.db", "the database cannot be used"),
    ],
)
def test_errors_are_one_line(url: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["outbox", "status", "-d", url]) == 1
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_an_unknown_id_and_a_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    assert run(["outbox", "create-tables", "-d", url]) == 0
    assert run(["outbox", "release", "-d", url, "0198a5a0-0000-7000-8000-000000000001"]) == 1
    assert "is not parked" in capsys.readouterr().err
    refused = CliRunner().invoke(app, ["outbox", "discard", "-d", url, "--all"], input="n\n")
    assert refused.exit_code == 1
