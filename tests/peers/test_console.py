"""The console's main paths in a real browser, over Apache's broker beside a cluster that is gone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from orbitmq import Admin, Message, Producer
from orbitmq.admin.groups import create_group
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.queue import MessageQueue
from tests.console.conftest import browser, open_page  # noqa: F401 (a fixture)
from tests.kit.dead_letters import origin, plant
from tests.kit.running_console import RunningConsole

pytestmark = pytest.mark.timeout(600)
PATIENCE_MS = 60_000
"""Apache's figures follow what happened by seconds."""


@pytest.fixture(scope="module")
def both(apache: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console over two clusters: Apache's broker, with a backlog and dead letters, and one that is gone."""

    async def fill(namesrv: str) -> None:
        async with Admin(namesrv) as admin, Producer("console-shop", namesrv) as producer:
            [master] = await admin.masters()
            await admin.create_topic("console-orders", queues=2)
            await create_group(admin, master.address, SubscriptionGroupConfig("console-billing"))
            for number in range(20):
                await producer.send(
                    Message("console-orders", f'{{"order": {number}}}', keys=f"o-{number}"),
                    queue=MessageQueue("console-orders", master.name, number % 2),
                )
            await producer.send(Message("console-orders", b"later", delay_level=18))
            for queue in range(2):
                await admin.set_offset(
                    "console-billing", MessageQueue("console-orders", master.name, queue), 3
                )
        await plant(namesrv, "console-refunds", 5, origin("console-orders"), b'{"customer": 7}')

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, fill(apache.namesrv)).result()
    folder = tmp_path_factory.mktemp("both")
    with RunningConsole(folder, apache=apache.namesrv, gone="127.0.0.1:1") as running:
        yield running


@pytest.fixture
def page(browser: Browser, both: RunningConsole) -> Iterator[Page]:  # noqa: F811
    for page in open_page(browser, both.url):
        page.set_default_timeout(PATIENCE_MS)
        yield page


def test_the_overview_of_apaches_broker_and_of_a_cluster_that_is_gone(page: Page) -> None:
    page.goto("/")
    brokers = page.get_by_role("table", name="Brokers")
    expect(brokers).to_contain_text("V5_4_0", timeout=PATIENCE_MS)
    expect(brokers).to_contain_text("active", timeout=PATIENCE_MS)
    page.get_by_label("Cluster", exact=True).select_option("gone")
    expect(page).to_have_url(re.compile("/gone/overview"))
    expect(page.get_by_role("alert")).to_contain_text(
        "Not everything could be found out", timeout=PATIENCE_MS
    )
    page.get_by_label("Cluster", exact=True).select_option("apache")
    expect(brokers).to_contain_text("broker-a", timeout=PATIENCE_MS)


@pytest.mark.nightly
def test_a_topic_of_apaches_from_creation_to_a_message(page: Page) -> None:
    page.goto("/apache/topics")
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("console-returns")
    dialog.get_by_label("Write queues per broker").fill("3")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="console-returns")).to_be_visible(timeout=PATIENCE_MS)
    queues = page.get_by_role("table", name="Queues")
    expect(queues.get_by_role("row")).to_have_count(4, timeout=PATIENCE_MS)
    page.get_by_role("link", name="Publish").click()
    page.get_by_label("Body").fill("<b>not bold</b>")
    page.get_by_label("Keys").fill("console-key")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status").filter(has_text="SEND_OK")).to_be_visible(timeout=PATIENCE_MS)
    page.goto("/apache/messages?by=time&topic=console-returns&from=2020-01-01T00:00:00")
    expect(page.get_by_label("Body")).to_contain_text("<b>not bold</b>", timeout=PATIENCE_MS)


def test_a_group_of_apaches_tells_its_backlog_and_why(page: Page) -> None:
    page.goto("/apache/groups")
    row = page.get_by_role("row", name=re.compile("^console-billing "))
    expect(row).to_contain_text("14", timeout=PATIENCE_MS)
    row.get_by_role("link", name="Why is console-billing behind?").click()
    cause = page.get_by_text("No consumer of group console-billing is connected.")
    expect(cause).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.nightly
def test_messages_of_apaches_are_found_by_key_and_by_text(page: Page) -> None:
    page.goto("/apache/messages?by=key&topic=console-orders&key=o-3")
    expect(page.get_by_label("Body")).to_contain_text('"order": 3', timeout=PATIENCE_MS)
    page.goto("/apache/messages?by=text&topic=console-orders&text=order&from=2020-01-01T00:00:00&budget=1000")
    state = page.get_by_role("status").filter(has_text="messages read")
    expect(state).to_contain_text("20 found, 20 of 20 messages read. All was read.", timeout=PATIENCE_MS)


def test_dead_letters_of_apaches_are_sent_again(page: Page) -> None:
    page.goto("/apache/dead-letters/console-refunds")
    causes = page.get_by_role("table", name="Causes")
    expect(causes).to_contain_text("customer", timeout=PATIENCE_MS)
    causes.get_by_role("button", name="Resend all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("status")).to_contain_text(
        "5 of 5 dead letters would be sent.", timeout=PATIENCE_MS
    )
    dialog.get_by_role("button", name="Resend 5").click()
    runs = page.get_by_role("table", name="Resends")
    expect(runs.get_by_role("row").nth(1)).to_contain_text("sent: 5", timeout=PATIENCE_MS)


@pytest.mark.nightly
def test_what_waits_and_the_options_of_apaches_broker_are_shown(page: Page) -> None:
    page.goto("/apache/waiting")
    levels = page.get_by_role("table", name="Delay levels")
    expect(levels).to_contain_text("2 h", timeout=PATIENCE_MS)
    page.goto("/apache/cluster?tab=options&filter=flushDiskType")
    options = page.get_by_role("table", name="Options")
    expect(options).to_contain_text("ASYNC_FLUSH", timeout=PATIENCE_MS)
