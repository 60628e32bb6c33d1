"""An operator's day with an install that holds nothing else, by the commands of the guides and no others.

A group is watched, loses its master, gets another one, and takes the old one back; a backlog is explained on
a narrow screen; offsets are reset after a look; a broker is copied while it runs.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Day:
    """One installation and one cluster below a folder."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.orbitmq = python.with_name("orbitmq")
        self.folder = folder
        self.environment: Mapping[str, str] = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "COLUMNS": "80",
        }

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints: its output, or its error if it is expected to fail."""
        done = subprocess.run(
            [str(self.orbitmq), *words], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == code, f"{words}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stderr if code else done.stdout

    def rows(self, *words: str) -> Any:
        """The same as JSON."""
        return json.loads(self.run(*words, "--json"))

    def on_a_screen(self, *words: str) -> list[str]:
        """The lines that a command prints on a terminal of 80 columns."""
        reader, writer = pty.openpty()
        with subprocess.Popen(
            [str(self.orbitmq), *words], cwd=self.folder, env=self.environment, stdout=writer, stderr=writer
        ) as process:
            os.close(writer)
            text = b""
            while True:
                try:
                    part = os.read(reader, 1 << 16)
                except OSError:  # Linux says this at the end
                    break
                if not part:
                    break
                text += part
        os.close(reader)
        assert process.returncode == 0, text
        return re.sub(r"\x1b\[[\d;]*m", "", text.decode()).splitlines()

    def roles(self) -> dict[str, tuple[str, int | None]]:
        """Role and bytes behind of each broker, by its address."""
        return {
            row["address"]: (row["role"], row["behindBytes"]) for row in self.rows("admin", "ha", "status")
        }


def try_out(python: Path, folder: Path) -> None:
    """The whole day; raises AssertionError where something is not as the guides say."""
    day = Day(python, folder)
    cluster = ("cluster", "./demo")
    try:
        nodes = {row["node"]: row for row in day.rows(*cluster, "--slaves", "1", "--mode", "sync-master")}
        first, second = (nodes[name]["address"] for name in ("broker-a-0", "broker-a-1"))
        day.environment = {**day.environment, "NAMESRV_ADDR": nodes["namesrv-0"]["address"]}
        _watch_and_replace(day, first, second)
        _explain_and_reset(day)
        _save(day)
    finally:
        day.run(*cluster, "stop")
    assert {row["state"] for row in day.rows(*cluster, "status")} == {"down"}


def _watch_and_replace(day: Day, first: str, second: str) -> None:
    day.run("admin", "topic", "create", "orders", "--queues", "2")
    day.run("produce", "--topic", "orders", "--body", "one")
    assert day.roles() == {first: ("master", None), second: ("slave", 0)}
    refused = day.run("admin", "broker", "promote", "broker-a", code=1)
    assert "is alive, and the master of broker-a: stop it, or give --fence" in refused
    day.run("cluster", "./demo", "kill", "broker-a-0")
    assert "is the master of broker-a" in day.run(
        "admin", "broker", "promote", "broker-a", "--role", "ASYNC_MASTER"
    )
    day.run("produce", "--topic", "orders", "--body", "two")
    assert day.rows("cluster", "./demo", "start", "broker-a-0")
    assert {address: role for address, (role, _) in day.roles().items()} == {first: "slave", second: "master"}
    day.run("cluster", "./demo", "start")  # waits until the old master follows


def _explain_and_reset(day: Day) -> None:
    got = day.run("consume", "--topic", "orders", "--group", "billing", "--from", "first", "--max", "2")
    assert sorted(got.split()) == ["one", "two"]
    day.run("produce", "--topic", "orders", "--body", "three")
    lines = day.on_a_screen("why", "billing")
    assert lines[0] == "1. No consumer of group billing is connected. [NO_CONSUMER]"
    assert all(len(line) <= 80 for line in lines), lines
    reset = ("admin", "group", "reset-offset", "billing", "orders")
    preview = day.rows(*reset, "--to", "yesterday", "--dry-run")
    assert sum(row["again"] for row in preview) == 2
    assert sum(row["skipped"] for row in day.rows(*reset, "--to", "latest", "--dry-run")) == 1
    assert day.rows("why", "billing")[0]["cause"] == "NO_CONSUMER", "nothing was changed"
    day.run(*reset, "--to", "latest", "--yes")
    assert day.rows("why", "billing")[0]["cause"] == "NOT_BEHIND"
    assert len(day.rows("admin", "message", "list", "orders", "--from", "yesterday")) == 3


def _save(day: Day) -> None:
    day.run("admin", "snapshot", "--data-dir", "demo/broker-a-1/data", "copy")
    assert (day.folder / "copy" / "commitlog").is_dir()
    refused = day.run("admin", "store", "backup", "decisions.json", code=2)
    assert "a controller needs a consensus store: --store" in refused
