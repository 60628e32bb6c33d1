import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PushConsumer, ReceivedMessage, Retry
from orbitmq.admin.groups import create_group
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.testing import LocalBroker

GROUP = "/api/clusters/here/groups/behind"


@pytest.fixture(scope="module", autouse=True)
def behind(console_broker: LocalBroker) -> None:
    """A group that has read 3 of 10 messages of one queue."""

    async def make() -> None:
        console_broker.create_topic("backlog", 1)
        async with Admin(console_broker.namesrv) as admin, Producer("p", console_broker.namesrv) as producer:
            await producer.send_all([Message("backlog", b"x") for _ in range(10)])
            await create_group(admin, console_broker.broker, SubscriptionGroupConfig("behind"))
            await admin.set_offset("behind", MessageQueue("backlog", "broker-a", 0), 3)

    asyncio.run(make())


def test_the_list_and_the_group_agree_with_the_broker(api: httpx.Client) -> None:
    listed = None
    while listed is None or not listed["lag"]:  # until the next look at the cluster
        groups = api.get("/api/clusters/here/groups").json()["groups"]
        listed = next((one for one in groups if one["group"] == "behind"), None)
    detail = api.get(GROUP).json()
    assert detail["lag"] == listed["lag"] == 7
    assert [(one["consumerOffset"], one["brokerOffset"], one["owner"]) for one in detail["queues"]] == [
        (3, 10, None)
    ]
    assert detail["members"] == []
    [queue] = detail["queues"]
    assert 0 < queue["oldestMs"] <= detail["atMs"]
    assert (queue["handlerMs"], queue["lastError"]) == (None, None)


def test_a_queue_tells_its_handler_time_and_last_error(
    api: httpx.Client, console_broker: LocalBroker
) -> None:
    topic, group = "billed", "bills"
    console_broker.create_topic(topic, 1)
    handled = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"bad":
            raise Retry(delay_level=-1) from ValueError("no such customer")
        handled.set()

    async def told() -> dict[str, Any]:
        while True:
            queues = (await asyncio.to_thread(api.get, f"/api/clusters/here/groups/{group}")).json()["queues"]
            own = [one for one in queues if one["topic"] == topic and one["lastError"]]
            if own and own[0]["handlerMs"] is not None:
                return dict(own[0])

    async def fail_and_look() -> dict[str, Any]:
        namesrv = console_broker.namesrv
        async with PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET) as consumer:
            consumer.subscribe(topic, "*", handle)
            async with Producer("p", namesrv) as producer:
                await producer.send_all([Message(topic, b"good"), Message(topic, b"bad")])
            await asyncio.wait_for(handled.wait(), 60)
            return await asyncio.wait_for(told(), 60)

    queue = asyncio.run(fail_and_look())
    assert queue["handlerMs"] >= 0
    error = queue["lastError"]
    assert (error["exception"], error["text"]) == ("ValueError", "no such customer")
    assert (error["deadLetter"], error["attempts"]) == (True, 1)


def test_members_with_different_filters_are_named(api: httpx.Client, console_broker: LocalBroker) -> None:
    console_broker.create_topic("chosen", 2)

    async def look() -> tuple[dict[str, str], dict[str, Any]]:
        members = {
            tag: PushConsumer("choosers", console_broker.namesrv, instance_name=tag)
            for tag in ("good", "stray")
        }
        async with AsyncExitStack() as stack:
            for tag, one in members.items():
                one.subscribe("chosen", tag, print)
                await stack.enter_async_context(one)
            ids = {tag: one.client_id for tag, one in members.items()}
            return ids, (await asyncio.to_thread(api.get, "/api/clusters/here/groups/choosers")).json()

    ids, group = asyncio.run(look())
    assert group["filters"] == [
        {"topic": "chosen", "filter": f"`{tag}`", "members": [ids[tag]]} for tag in ("good", "stray")
    ]
    shown = {one["clientId"]: one["subscriptions"]["chosen"] for one in group["members"]}
    assert shown == {ids[tag]: tag for tag in ids}
    assert api.get(GROUP).json()["filters"] == []


def test_the_cause_of_its_backlog_is_told(api: httpx.Client) -> None:
    causes = api.get(f"{GROUP}/why").json()
    assert (causes["lag"], causes["causes"][0]["cause"]) == (7, "NO_CONSUMER")


def test_a_reset_does_what_its_preview_said(api: httpx.Client) -> None:
    preview = api.get(f"{GROUP}/reset-preview?topic=backlog&to=earliest").json()
    assert (preview["again"], preview["skipped"]) == (3, 0)
    assert api.post(f"{GROUP}/reset", json={"topic": "backlog", "to": "earliest"}).json() == preview
    assert api.get(GROUP).json()["lag"] == 10
    skip = api.get(f"{GROUP}/reset-preview?topic=backlog&to=latest").json()
    assert (skip["again"], skip["skipped"]) == (0, 10)
    assert api.post(f"{GROUP}/reset", json={"topic": "backlog", "to": "latest"}).json() == skip
    assert api.get(GROUP).json()["lag"] == 0
    entry = api.get("/api/audit").json()["entries"][0]
    assert (entry["before"], entry["after"]) == ({"broker-a/0": 0}, {"broker-a/0": 10})
    assert api.post(f"{GROUP}/reset", json={"topic": "backlog", "to": 1}).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [({"topic": "backlog", "to": "yesterday"}, 422), ({"topic": "nothing", "to": "latest"}, 404), ({}, 422)],
)
def test_resets_that_make_no_sense_are_refused(api: httpx.Client, body: dict[str, str], status: int) -> None:
    assert api.post(f"{GROUP}/reset", json=body).status_code == status


def test_an_unknown_group_is_a_404(api: httpx.Client) -> None:
    assert api.get("/api/clusters/here/groups/nothing").json()["code"] == "GROUP_NOT_EXIST"


def test_a_group_is_cloned_once_and_bad_names_are_refused(api: httpx.Client) -> None:
    made = api.post(f"{GROUP}/clone", json={"name": "behind-copy"}).json()
    assert made == {"group": "behind-copy", "topics": ["backlog"]}
    entry = api.get("/api/audit").json()["entries"][0]
    assert (entry["action"], entry["target"], entry["after"]) == ("copy_group", "here/behind", made)
    offsets = [one["consumerOffset"] for one in api.get(f"{GROUP}-copy").json()["queues"]]
    assert offsets == [one["consumerOffset"] for one in api.get(GROUP).json()["queues"]]
    for name, code in (("behind-copy", "CANNOT_CLONE"), ("a b", "ILLEGAL_NAME"), ("", "ILLEGAL_NAME")):
        answer = api.post(f"{GROUP}/clone", json={"name": name})
        assert (answer.status_code, answer.json()["code"]) == (422, code)
