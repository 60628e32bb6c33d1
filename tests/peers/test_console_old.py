"""The console over Apache's broker 4.9.7: all it has is shown and changed, and what it lacks is said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.admin.groups import create_group
from orbitmq.admin.resets import MembersOnline
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from tests.console.conftest import browser, open_page  # noqa: F401 (a fixture)
from tests.kit.dead_letters import origin, plant
from tests.kit.running_console import RunningConsole
from tests.needs import need
from tests.peers.apache import OldApache

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]
PATIENCE_MS = 60_000
OLD = "/api/clusters/old"


async def _until_it_tells_of_itself(admin: Admin, address: str) -> None:
    """A broker of 4.9 refuses to, until its counts are there."""
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.call(address, GetBrokerRuntimeInfo())
                return
            except BrokerRefused:
                await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldApache]:
    """Orders with a backlog of a group without members, and dead letters."""
    need("java", "mvn")

    async def fill(namesrv: str) -> None:
        async with Admin(namesrv) as admin, Producer("old-shop", namesrv) as producer:
            [master] = await admin.masters()
            await _until_it_tells_of_itself(admin, master.address)
            await admin.create_topic("orders", queues=2)
            for number in range(20):
                body = f'{{"order": {number}}}'
                queue = MessageQueue("orders", master.name, number % 2)
                await producer.send(Message("orders", body, keys=f"o-{number}"), queue=queue)
            await create_group(admin, master.address, SubscriptionGroupConfig("billing"))
            for number in range(2):
                await admin.set_offset("billing", MessageQueue("orders", master.name, number), 3)
        await plant(namesrv, "refunds", 5, origin("orders"), b'{"customer": 7}')

    started = OldApache.start(tmp_path_factory.mktemp("old") / "store")
    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, fill(started.namesrv)).result()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def console(broker: OldApache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path_factory.mktemp("old-console"), old=broker.namesrv) as running:
        yield running


@pytest.fixture
def api(console: RunningConsole) -> httpx.Client:
    return console.client()


def waited(api: httpx.Client, path: str, name: str) -> dict[str, Any]:
    """The row of a group, once a look at the cluster has it."""
    for _ in range(600):
        for row in api.get(f"{OLD}/{path}").json()["groups"]:
            if row["group"] == name:
                return dict(row)
    raise AssertionError(api.get(f"{OLD}/{path}").text)


def test_the_broker_is_active_and_its_groups_and_letters_are_listed(api: httpx.Client) -> None:
    [broker] = api.get(f"{OLD}/overview").json()["brokers"]
    assert (broker["version"], broker["state"], broker["unflushedBytes"]) == ("V4_9_7", "active", None)
    assert waited(api, "groups", "billing")["lag"] == 14
    assert waited(api, "dead-letters", "refunds")["count"] == 5
    queue = api.get(f"{OLD}/groups/billing").json()["queues"][0]
    assert (queue["consumerOffset"], queue["lag"]) == (3, 7)
    assert queue["oldestMs"] > 0
    assert api.get(f"{OLD}/groups/billing/why").json()["causes"][0]["cause"] == "NO_CONSUMER"
    [message] = api.get(f"{OLD}/messages?topic=orders&key=o-3").json()["messages"]
    assert message["queueOffset"] == 1


def test_what_the_version_lacks_is_said(api: httpx.Client) -> None:
    assert api.get(f"{OLD}/delays").json()["withoutTimers"] == ["broker-a"]
    assert "not supported" in api.get(f"{OLD}/access").json()["brokers"][0]["error"]
    recall = {"broker": "broker-a", "topic": "orders", "dueMs": 1, "uniqueId": "x"}
    answer = api.post(f"{OLD}/timers/recall", json=recall).json()
    assert (answer["code"], "of a version that does not have this" in answer["advice"]) == (
        "NOT_SUPPORTED",
        True,
    )
    user = api.post(f"{OLD}/access/users", json={"name": "bob", "password": "secret of bob"}).json()
    assert user["code"] == "NOT_SUPPORTED"


def test_offsets_of_a_group_without_members_are_reset_as_the_preview_said(api: httpx.Client) -> None:
    group = f"{OLD}/groups/billing"
    preview = api.get(f"{group}/reset-preview?topic=orders&to=earliest").json()
    assert (preview["again"], preview["skipped"]) == (6, 0)
    assert api.post(f"{group}/reset", json={"topic": "orders", "to": "earliest"}).json() == preview
    assert api.get(group).json()["lag"] == 20
    assert api.post(f"{group}/reset", json={"topic": "orders", "to": "latest"}).status_code == 200
    assert api.get(group).json()["lag"] == 0


def test_one_queue_is_not_set_while_members_are_online_as_the_broker_would_set_all(
    broker: OldApache, api: httpx.Client
) -> None:
    async def work() -> None:
        handled = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            handled.set()

        async with Admin(broker.namesrv) as admin:
            consumer = PushConsumer("online", broker.namesrv, consume_from_where=FIRST_OFFSET)
            consumer.subscribe("orders", "*", handle)
            async with consumer:
                await asyncio.wait_for(handled.wait(), 60)
                with pytest.raises(MembersOnline, match="stop them first"):
                    await admin.set_offset("online", MessageQueue("orders", "broker-a", 0), 2)
            await admin.set_offset("online", MessageQueue("orders", "broker-a", 0), 2)
        queues = (await asyncio.to_thread(api.get, f"{OLD}/groups/online")).json()["queues"]
        offsets = {one["queueId"]: one["consumerOffset"] for one in queues if one["topic"] == "orders"}
        assert offsets == {0: 2, 1: 10}

    asyncio.run(work())


def test_letters_are_sent_again_and_a_topic_lives_from_creation_to_deletion(api: httpx.Client) -> None:
    run = api.post(f"{OLD}/dead-letters/refunds/redrive", json={"rate": 1000}).json()["id"]
    for _ in range(2000):
        found = api.get(f"{OLD}/redrives/{run}").json()["run"]
        if found["endedMs"] is not None:
            break
    assert (found["state"], found["counts"]) == ("done", {"sent": 5})
    assert api.put(f"{OLD}/topics/new", json={"queues": 2, "create": True}).status_code == 200
    published = api.post(f"{OLD}/topics/new/messages", json={"text": "x"})
    assert published.status_code == 200, published.text
    assert api.request("DELETE", f"{OLD}/topics/new", json={"confirm": "new"}).status_code == 200


@pytest.fixture
def page(browser: Browser, console: RunningConsole) -> Iterator[Page]:  # noqa: F811
    for page in open_page(browser, console.url):
        page.set_default_timeout(PATIENCE_MS)
        yield page


def test_the_pages_say_so_in_a_browser(page: Page) -> None:
    page.goto("/old/overview")
    brokers = page.get_by_role("table", name="Brokers")
    expect(brokers).to_contain_text("V4_9_7", timeout=PATIENCE_MS)
    expect(brokers).to_contain_text("active")
    page.goto("/old/waiting")
    expect(page.get_by_text(re.compile("broker-a")).first).to_be_visible(timeout=PATIENCE_MS)
    page.goto("/old/access")
    expect(page.get_by_text(re.compile("not supported")).first).to_be_visible(timeout=PATIENCE_MS)
    page.goto("/old/groups/billing")
    expect(page.get_by_role("table", name="Queues")).to_contain_text("orders", timeout=PATIENCE_MS)
