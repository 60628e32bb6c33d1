"""Consumer groups from creation to deletion, and the offset of one queue."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from orbitmq import Admin, MessageQueue
from orbitmq.testing import LocalBroker

GROUPS = "/api/clusters/here/groups"
STRICT = {"maxRetries": 3, "retryQueues": 2, "enabled": False, "broadcast": False, "orderly": True}


def test_a_group_lives_from_creation_to_deletion(api: httpx.Client, console_broker: LocalBroker) -> None:
    path = f"{GROUPS}/lasting"
    assert api.get(f"{path}/settings").status_code == 404
    assert api.put(f"{path}/settings", json={**STRICT, "create": True}).json() == {"brokers": ["broker-a"]}
    again = api.put(f"{path}/settings", json={"create": True})
    assert (again.status_code, again.json()["code"]) == (409, "GROUP_EXISTS")
    assert api.get(f"{path}/settings").json() == STRICT
    assert api.put(f"{path}/settings", json={"maxRetries": 5}).status_code == 200
    assert api.get(f"{path}/settings").json() == {
        "maxRetries": 5, "retryQueues": 1, "enabled": True, "broadcast": True, "orderly": False,
    }  # fmt: skip
    assert api.request("DELETE", path, json={"confirm": "other"}).json()["code"] == "NOT_CONFIRMED"
    assert api.request("DELETE", path, json={"confirm": "lasting"}).json() == {"brokers": ["broker-a"]}
    assert api.get(f"{path}/settings").status_code == 404
    entry = api.get("/api/audit").json()["entries"][0]
    assert (entry["action"], entry["target"], entry["before"]["maxRetries"]) == (
        "delete_group",
        "here/lasting",
        5,
    )


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("bad name", {}, "ILLEGAL_NAME"),
        ("TOOLS_CONSUMER", {}, "SYSTEM_GROUP"),
        ("g", {"maxRetries": -2}, "INVALID"),
        ("g", {"maxRetries": "many"}, "INVALID"),
    ],
)
def test_groups_that_cannot_be_are_refused(
    api: httpx.Client, name: str, body: dict[str, object], code: str
) -> None:
    answer = api.put(f"{GROUPS}/{name}/settings", json=body)
    assert answer.json()["code"] == code
    assert answer.json()["advice"]


def test_the_offset_of_one_queue_is_set_and_no_other(api: httpx.Client, console_broker: LocalBroker) -> None:
    console_broker.create_topic("placed", 2)
    for _ in range(6):
        api.post("/api/clusters/here/topics/placed/messages", json={"text": "x"})
    api.put(f"{GROUPS}/placing/settings", json={"create": True})

    async def offsets() -> list[int]:
        async with Admin(console_broker.namesrv) as admin:
            for number in range(2):
                await admin.set_offset("placing", MessageQueue("placed", "broker-a", number), 1)
            place = {"topic": "placed", "broker": "broker-a", "queueId": 1}
            beyond = await asyncio.to_thread(api.put, f"{GROUPS}/placing/offset", json={**place, "offset": 9})
            assert (beyond.status_code, beyond.json()["code"]) == (422, "OFFSET")
            answer = await asyncio.to_thread(api.put, f"{GROUPS}/placing/offset", json={**place, "offset": 0})
            assert answer.json() == {**place, "offset": 0}
            progress = (await admin.group_progress("placing", "placed")).queues
            return [one.consumer_offset for _, one in sorted(progress.items())]

    assert asyncio.run(offsets()) == [1, 0]
