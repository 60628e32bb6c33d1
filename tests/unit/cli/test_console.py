"""`orbitmq console` as its users start it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from orbitmq.cli.app import run
from orbitmq.server.turn.listener import free_ports
from tests.peers.machine import free_port


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The process and its readiness line."""
    command = [sys.executable, "-m", "orbitmq", *arguments, "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline()


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=100)
    return process.returncode


def test_the_console_serves_without_a_cluster_that_answers_and_stops_in_order(tmp_path: Path) -> None:
    port, ready = free_port(), tmp_path / "ready"
    process, line = start(
        *("console", "--cluster", "east=127.0.0.1:1", "--cluster", "west=127.0.0.1:2", "--port", str(port)),
        *("--data-dir", str(tmp_path / "console"), "--ready-file", str(ready)),
        *("--mask", "card", "--mask", "iban"),
    )
    assert line == f"ready: console http://127.0.0.1:{port}/\n"
    assert ready.read_text() == line
    session = httpx.get(f"http://127.0.0.1:{port}/api/session").json()
    assert session["clusters"] == ["east", "west"]
    assert session["maskedFields"] == ["card", "iban"]
    assert stop(process) == 0
    assert not ready.exists()
    assert not (tmp_path / "console").exists(), "a console that changed nothing leaves no files"


def test_standalone_serves_a_console_beside_its_broker(tmp_path: Path) -> None:
    broker = free_ports(-2, 1, 2, 3)
    namesrv, port = broker + 2, broker + 3
    process, line = start(
        *(
            "standalone",
            "--data-dir",
            str(tmp_path),
            "--namesrv-port",
            str(namesrv),
            "--broker-port",
            str(broker),
        ),
        *("--console", "--console-port", str(port), "--console-mask", "card"),
    )
    assert line.endswith(f", console http://127.0.0.1:{port}/\n")
    assert httpx.get(f"http://127.0.0.1:{port}/api/session").json()["maskedFields"] == ["card"]
    overview = httpx.get(f"http://127.0.0.1:{port}/api/clusters/standalone/overview", timeout=60).json()
    assert [one["state"] for one in overview["brokers"]] == ["active"]
    assert stop(process) == 0


def test_a_port_that_is_taken_is_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    process, _ = start("console", "--port", str(port), "--data-dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq", "console", "--port", str(port), "--data-dir", str(tmp_path)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 3
    assert f"cannot listen on 127.0.0.1:{port}: the port is taken" in done.stderr
    assert stop(process) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cluster", "east"], "expected NAME=HOST:PORT"),
        (["--cluster", "a=x:1", "--cluster", "a=y:1"], "given twice"),
        (["--listen", "0.0.0.0"], "needs users: orbitmq console set-user"),
        (["--https-cert", "nothing.pem"], "is no file"),
        (["set-user", "ann"], "--role"),
        (["--oidc-issuer", "https://login.example"], "needs --oidc-client-id and --oidc-secret-file"),
        (["--oidc-client-id", "mq"], "need --oidc-issuer"),
        (["--oidc-bodies", "readers"], "need --oidc-issuer"),
        (["--oidc-role", "admins"], "expected VALUE=ROLE"),
        (["--oidc-role", "admins=root"], "viewer, operator or admin"),
        (
            [
                *("--oidc-issuer", "http://login.example", "--oidc-client-id", "mq"),
                "--oidc-secret-file",
                __file__,
            ],
            "has to be https",
        ),
    ],
)
def test_starts_that_are_refused_say_what_to_do(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["console", "--data-dir", str(tmp_path), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_history_that_is_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("no database at all\n" * 100)
    arguments = ["--port", str(free_port()), "--data-dir", str(tmp_path), "--history", str(other)]
    assert run(["console", *arguments]) == 1
    assert f"the history {other} cannot be used: file is not a database" in capsys.readouterr().err
    assert other.read_text() == "no database at all\n" * 100


def test_users_are_added_with_a_password_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    arguments = ["console", "set-user", "ann", "--role", "operator", "--data-dir", str(tmp_path)]
    secret.write_text("short\n")
    assert run([*arguments, "--password-file", str(secret)]) == 2
    assert "10 to 256 characters" in capsys.readouterr().err
    secret.write_text("long enough\n")
    assert run([*arguments, "--password-file", str(secret)]) == 0
    assert "added user ann, operator" in capsys.readouterr().out
    assert (tmp_path / "users").read_text().startswith("ann:operator:scrypt$")
    assert run([*arguments, "--password-file", str(secret), "--no-bodies"]) == 0
    assert "changed user ann, operator, who may not read bodies" in capsys.readouterr().out
    assert (tmp_path / "users").read_text().startswith("ann:operator,no-bodies:scrypt$")


def test_without_the_extra_the_command_names_it(tmp_path: Path) -> None:
    (tmp_path / "starlette.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'starlette'\", name='starlette')"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq", "console", "--data-dir", str(tmp_path / "console")],
        capture_output=True, text=True, timeout=100, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 1
    assert "pip install 'orbitmq[console]'" in done.stderr
