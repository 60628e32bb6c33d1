import asyncio
import json
from typing import Any

import httpx
import pytest

from orbitmq.testing import LocalBroker
from tests.kit.waiting_messages import plant_waiting

CLUSTER = "/api/clusters/here"


@pytest.fixture(scope="module", autouse=True)
def timers(console_broker: LocalBroker) -> list[str]:
    console_broker.create_topic("waits", 1)
    return asyncio.run(plant_waiting(console_broker.namesrv, "waits"))


def last_event(api: httpx.Client, path: str) -> Any:
    lines = [line for line in api.get(path).text.splitlines() if line.startswith("data: ")]
    return json.loads(lines[-1].removeprefix("data: "))


def test_levels_and_timers_are_summed_over_brokers(api: httpx.Client) -> None:
    delays = api.get(f"{CLUSTER}/delays").json()
    [hour] = [one for one in delays["levels"] if one["level"] == 17]
    assert (hour["delayMs"], hour["pending"], hour["brokers"]) == (3_600_000, 2, {"broker-a": 2})
    assert sum(one["count"] for one in delays["levelSlots"]) == sum(
        one["pending"] for one in delays["levels"]
    )
    assert delays["errors"] == []
    assert delays["mayRecall"] is False


def test_a_recall_is_refused_by_the_broker_and_stands_in_the_audit_log(
    api: httpx.Client, timers: list[str]
) -> None:
    event = last_event(api, f"{CLUSTER}/timers?topic=waits")
    assert [one["uniqueId"] for one in event["timers"]] == timers
    assert (event["done"], event["complete"], event["pending"]) == (True, True, 2)
    [first, _] = event["timers"]
    recall = {name: first[name] for name in ("broker", "topic", "dueMs", "uniqueId")}
    answer = api.post(f"{CLUSTER}/timers/recall", json=recall)
    assert (answer.status_code, answer.json()["code"]) == (403, "BROKER_NO_PERMISSION")
    entry = api.get("/api/audit").json()["entries"][0]
    assert (entry["action"], entry["outcome"], entry["after"]) == (
        "recall_timer",
        "BROKER_NO_PERMISSION",
        recall,
    )
    recall["uniqueId"] = ""
    assert api.post(f"{CLUSTER}/timers/recall", json=recall).json()["field"] == "uniqueId"


def test_half_messages_without_a_decision_are_listed(api: httpx.Client) -> None:
    found = api.get(f"{CLUSTER}/transactions").json()
    assert (found["openCount"], found["complete"], found["givenUp"]) == (2, True, [])
    assert {(one["topic"], one["group"]) for one in found["open"]} == {("waits", "deciders")}
    check = {"broker": "broker-a", "messageId": found["open"][0]["message"]["id"]}
    assert api.post(f"{CLUSTER}/transactions/check", json=check).status_code == 200
    check["messageId"] = "00" * 16
    assert api.post(f"{CLUSTER}/transactions/check", json=check).status_code == 502
