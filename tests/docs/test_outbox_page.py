"""The page on the outbox: its commands run, and so do its programs."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine

from orbitmq.outbox import Outbox
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.kit.outbox import rows

PAGE = Path(__file__).parents[2] / "docs" / "develop" / "outbox.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
COMMANDS = re.findall(r"^\$ (.*)$", PAGE.read_text(), re.MULTILINE)


def block_with(text: str) -> str:
    return next(block for block in BLOCKS if text in block)


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_compiles_and_imports_what_there_is(text: str) -> None:
    compile(text, str(PAGE), "exec")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")


def test_the_programs_write_their_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first: dict[str, Any] = {}
    exec(block_with("create_tables(connection)"), first)
    first["engine"].dispose()
    api: dict[str, Any] = {}
    # FastAPI reads the annotations of a function in its module's names.
    exec(compile(block_with("FastAPI"), str(PAGE), "exec", dont_inherit=True), api)
    with TestClient(api["app"]) as client:
        answer = client.post("/orders/18")
        client.portal.call(api["engine"].dispose)  # type: ignore[union-attr]
    engine = create_engine("sqlite:///shop.db")
    found = rows(Outbox(), engine)
    engine.dispose()
    assert [row.aggregateid for row in found] == ["customer-4", "18"]
    assert answer.json() == found[1].id


def test_the_commands_run(tmp_path: Path, rocketmq: LocalBroker) -> None:
    environment = {**os.environ, "NAMESRV_ADDR": rocketmq.namesrv}
    run = []
    for line in COMMANDS:
        words = shlex.split(line.replace("9100", str(free_ports())))
        assert words[0] == "orbitmq"
        command = [sys.executable, "-m", "orbitmq", *words[1:]]
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if words[2] == "relay":
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready")
            process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, f"{line}: {out}"
        run.append(words[2])
    assert run == ["create-tables", "relay", "status", "parked", "release", "discard"]
