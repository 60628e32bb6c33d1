"""The page of a delay service's messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from orbitmq.testing import LocalBroker
from tests.kit.running_console import RunningConsole
from tests.kit.running_delay import RunningDelay

CLUSTER = "/api/clusters/here"


@pytest.fixture(scope="module")
def delay(console_broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDelay]:
    folder = tmp_path_factory.mktemp("delay")
    (folder / "tokens").write_text("s3cret\nann a-token\n")
    options = {"delayTokenFile": str(folder / "tokens"), "delayQueues": "1"}
    with RunningDelay(folder / "d", f"main=rocketmq://{console_broker.namesrv}", **options) as running:
        yield running


@pytest.fixture(scope="module")
def api(
    console_broker: LocalBroker, delay: RunningDelay, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("console")
    services = {"here": delay.url, "away": "http://127.0.0.1:1"}
    clusters = dict.fromkeys((*services, "without"), console_broker.namesrv)
    with RunningConsole(folder, delay_services=services, delay_token="s3cret", **clusters) as running:
        yield running.client()


def test_a_calendar_a_search_moves_and_cancels(api: httpx.Client, delay: RunningDelay) -> None:
    ann = delay.client_with("a-token")
    far = ann.send_after("later", b"x", "26h", id="order-1").due_ms
    ann.repeat("later", b"y", "5h", id="order-2")
    ann.send_after("other", b"z", "5h", id="bill-1")
    found = api.get(f"{CLUSTER}/scheduled").json()
    assert (found["isThere"], found["role"]) == (True, "alone")
    assert found["topics"] == {"main/later": 2, "main/other": 1}
    assert {"atMs": far // 3_600_000 * 3_600_000, "count": 1} in found["slots"]
    assert sum(one["count"] for one in found["slots"]) == 3
    assert api.get(f"{CLUSTER}/scheduled?topic=other").json()["topics"] == {"main/other": 1}
    orders = api.get(f"{CLUSTER}/scheduled/messages?prefix=order-").json()
    assert [(one["id"], one["owner"], one["repeats"]) for one in orders["messages"]] == [
        ("order-1", "ann", False),
        ("order-2", "ann", True),
    ]
    hour = f"fromMs={far}&toMs={far + 1}"
    (one,) = api.get(f"{CLUSTER}/scheduled/messages?{hour}").json()["messages"]
    assert (one["id"], one["source"], one["dueMs"]) == ("order-1", "main", far)
    assert not api.get(f"{CLUSTER}/scheduled/messages?fromMs={far + 1}").json()["messages"]
    moved = {"source": "main", "id": "order-1", "dueMs": far + 5}
    assert api.post(f"{CLUSTER}/scheduled/move", json=moved).status_code == 200
    entry = api.get("/api/audit").json()["entries"][0]
    assert (entry["action"], entry["before"]["dueMs"], entry["after"]) == ("move_scheduled", far, moved)
    named = {"source": "main", "id": "order-1"}
    assert api.post(f"{CLUSTER}/scheduled/cancel", json=named).status_code == 200
    assert ann.get("order-1") is None
    again = api.post(f"{CLUSTER}/scheduled/cancel", json=named)
    assert (again.status_code, again.json()["code"]) == (404, "NOT_PENDING")
    assert api.get("/api/audit").json()["entries"][0]["outcome"] == "NOT_PENDING"


def test_a_cluster_without_a_service_and_one_that_does_not_answer(api: httpx.Client) -> None:
    without = "/api/clusters/without"
    assert api.get(f"{without}/scheduled").json()["isThere"] is False
    answer = api.get(f"{without}/scheduled/messages")
    assert (answer.status_code, answer.json()["code"]) == (404, "NO_DELAY_SERVICE")
    answer = api.get("/api/clusters/away/scheduled")
    assert (answer.status_code, answer.json()["code"]) == (502, "NO_DELAY_SERVICE")
