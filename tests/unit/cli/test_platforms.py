"""Servers say where they do not run; everything else does not care."""

from __future__ import annotations

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
