"""Servers say where they do not run; everything else does not care."""

from __future__ import annotations

import subprocess
import sys

import pytest

from orbitmq.cli.app import run


@pytest.mark.parametrize("command", ["standalone", "namesrv", "broker"])
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_servers_are_for_linux_and_say_so(
    command: str, platform: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert run([command, "--help"]) != 0
    assert "runs on Linux only" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["sync", "cli.admin.app", "cli.ping", "cli.produce", "cli.consume"])
def test_clients_and_tools_need_nothing_of_linux_and_no_server(module: str) -> None:
    code = f"""
import sys
sys.modules.update(dict.fromkeys(["fcntl", "pwd", "grp", "resource", "termios", "uvloop"]))
import orbitmq.{module}
rooms = ("orbitmq.store", "orbitmq.server", "orbitmq.broker")
print([name for name in sys.modules if name.startswith(rooms)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
