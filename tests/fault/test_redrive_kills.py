"""A console that is killed in the middle of a redrive, and a broker that is: none lost, none twice."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from orbitmq import Admin
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.testing import LocalBroker
from tests.kit.dead_letters import origin, plant
from tests.peers.machine import Process, free_port

LETTERS = int(os.environ.get("ORBITMQ_DEAD_LETTERS", "12000")) // 3
"""Dead letters of each of the three causes; 100,000 in all take minutes."""
PATIENCE_SECONDS = 120 + LETTERS // 20
CLUSTER = "/api/clusters/default"


class Console:
    """`orbitmq console` as a process."""

    def __init__(self, namesrv: str, folder: Path) -> None:
        port = free_port()
        ready = folder / "ready"
        words = ["console", "--namesrv", namesrv, "--data-dir", str(folder / "data"), "--port", str(port)]
        command = [sys.executable, "-m", "orbitmq", *words, "--ready-file", str(ready)]
        self.process = Process(command, folder / f"console-{port}.log")
        self.process.wait_until("the console is ready", ready.exists, 60)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self.client.headers["X-CSRF-Token"] = self.client.get("/api/session").json()["csrfToken"]

    def end(self, how: signal.Signals) -> None:
        self.client.close()
        self.process.end(how)

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{CLUSTER}/redrives/{run_id}").json()["run"]
        return found

    def wait(self, run_id: str, sent: int) -> dict[str, Any]:
        """Returns once so many dead letters are sent, or the run is over."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (run := self.run(run_id))["endedMs"] is None and run["counts"].get("sent", 0) < sent:
            assert time.monotonic() < deadline, (run, self.process.tail())
        return run


def audit_trail(folder: Path, length: int) -> list[dict[str, Any]]:
    """The audit trail, once it has so many lines: the end of a run is noted there after the run has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        lines = (folder / "data" / "audit.jsonl").read_text().splitlines()
        if len(lines) >= length or time.monotonic() > deadline:
            return [json.loads(line) for line in lines]
        time.sleep(0.02)


def keys(namesrv: str, topic: str) -> Counter[str]:
    """The keys of all messages of a topic."""

    async def read() -> Counter[str]:
        from orbitmq.admin.messages import pull

        found: Counter[str] = Counter()
        async with Admin(namesrv) as admin:
            [master] = await admin.masters()
            for queue, offsets in (await admin.topic_status(topic)).items():
                offset = 0
                while offset < offsets.max_offset:
                    reply = await pull(admin, master.address, queue, offset, 32)
                    messages, _ = decode_records(reply.body or b"")
                    found.update(key for one in messages for key in one.keys)
                    offset = reply.next_begin_offset
        return found

    return asyncio.run(read())


@pytest.mark.nightly
def test_kills_of_the_console_and_of_the_broker_lose_no_letter_and_send_none_twice(tmp_path: Path) -> None:
    causes = ("Timeout", "ValueError", "KeyError")
    with LocalBroker(own_process=True) as broker:
        broker.create_topic("again", 4)
        for number, cause in enumerate(causes):
            start = number * LETTERS
            asyncio.run(plant(broker.namesrv, "g", LETTERS, origin("again", exception=cause), b"{}", start))
        console = Console(broker.namesrv, tmp_path)
        place = {"broker": "broker-a", "queueId": 0, "queueOffset": 2 * LETTERS}
        edit = {"body": base64.b64encode(b"mended").decode(), "keys": "mended"}
        request = {"places": [place], "edit": edit}
        edited = console.client.post(f"{CLUSTER}/dead-letters/g/redrive", json=request).json()["id"]
        assert console.wait(edited, 2)["counts"] == {"sent": 1}
        body = {"cause": {"topic": "again", "exception": "ValueError"}, "rate": 1000}
        run_id = console.client.post(f"{CLUSTER}/dead-letters/g/redrive", json=body).json()["id"]
        # Early in the run: a machine that stands still for a second or two must not find it over.
        for part in (1, 2):
            run = console.wait(run_id, part * LETTERS // 16)
            assert run["state"] == "running"
            console.end(signal.SIGKILL)
            (tmp_path / "ready").unlink()
            console = Console(broker.namesrv, tmp_path)
        assert console.wait(run_id, 3 * LETTERS // 16)["state"] == "running"
        broker.kill()
        broker.start()
        run = console.wait(run_id, LETTERS + 1)
        assert (run["state"], run["counts"]) == ("done", {"sent": LETTERS}), run
        wanted = Counter(["mended", *(f"l-{number}" for number in range(LETTERS, 2 * LETTERS))])
        assert keys(broker.namesrv, "again") == wanted

        trail = audit_trail(tmp_path, 4)
        assert [one["action"] for one in trail] == ["redrive_letters", "redrive_ended"] * 2
        assert trail[3]["after"] == {"run": run_id, "sent": LETTERS}
        # The rest of the group: the dead letter that was edited has been sent, and stays.
        rest = console.client.post(f"{CLUSTER}/dead-letters/g/redrive", json={"rate": 10_000}).json()["id"]
        assert console.wait(rest, 3 * LETTERS)["counts"] == {"sent": 2 * LETTERS - 1, "skipped": LETTERS + 1}
        everything = Counter(["mended", *(f"l-{number}" for number in range(3 * LETTERS))])
        del everything[f"l-{2 * LETTERS}"]
        assert keys(broker.namesrv, "again") == everything
        console.end(signal.SIGTERM)
