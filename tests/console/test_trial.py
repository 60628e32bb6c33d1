"""A day of the console's user in one browser: groups, topics, messages and servers, from page to page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, Page, expect

from orbitmq import Admin, Message, MessageQueue, Producer
from orbitmq.testing import LocalBroker
from tests.console.conftest import fits_a_phone, open_page, picture
from tests.kit.running_console import RunningConsole


@pytest.fixture(scope="module")
def day(browser: Browser, console: RunningConsole, shop: LocalBroker) -> Iterator[Page]:
    """One window for the whole day, and a group that is behind on a topic of 8 queues."""
    shop.create_topic("daily", 8)

    async def fill() -> None:
        async with Admin(shop.namesrv) as admin, Producer("daily", shop.namesrv) as producer:
            await admin.create_group("evening")
            [master] = await admin.masters()
            for number in range(320):
                body = f'{{"order": {number}, "customer": "c{number % 7}"}}'
                queue = MessageQueue("daily", master.name, number % 8)
                await producer.send(Message("daily", body, tags="new", keys=f"o-{number}"), queue=queue)
            for number in range(8):
                await admin.set_offset("evening", MessageQueue("daily", master.name, number), 10)

    with ThreadPoolExecutor(1) as thread:  # Playwright has an event loop of its own in this one
        thread.submit(asyncio.run, fill()).result()
    yield from open_page(browser, console.url)


def said(page: Page, text: str) -> None:
    expect(page.locator(".notice").filter(has_text=text)).to_be_visible()


def test_a_group_is_made_changed_and_set_back_in_one_queue(day: Page) -> None:
    day.goto("/shop/groups")
    day.get_by_role("button", name="Create group").click()
    dialog = day.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("trial")
    dialog.get_by_label("Retries before a dead letter").fill("2")
    dialog.get_by_role("button", name="Create").click()
    expect(day.get_by_role("heading", name="trial")).to_be_visible()
    day.get_by_role("button", name="Settings").click()
    expect(dialog.get_by_label("Retries before a dead letter")).to_have_value("2")
    dialog.get_by_label("Members may broadcast").uncheck()
    dialog.get_by_role("button", name="Change").click()
    said(day, "Group trial is changed")

    day.goto("/shop/groups/evening")
    day.get_by_role("button", name=re.compile("^Set the offset of queue 3,")).click()
    dialog.get_by_label("Consumer offset").fill("4")
    expect(dialog.get_by_role("status")).to_contain_text("6 messages are delivered again, 0 are skipped.")
    dialog.get_by_role("button", name="Set").click()
    said(day, "The offset is set")
    expect(day.get_by_role("table", name="Queues").get_by_role("row").nth(4)).to_contain_text("36")
    day.get_by_role("button", name=re.compile("^Set the offset of queue 3,")).click()
    dialog.get_by_label("Consumer offset").fill("10")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog).to_have_count(0)
    fits_a_phone(day, "groups/evening")
    day.set_viewport_size({"width": 1280, "height": 900})

    day.goto("/shop/groups/trial")
    day.get_by_role("button", name="Delete").click()
    dialog.get_by_label("Type the name of the group to confirm").fill("trial")
    dialog.get_by_role("button", name="Delete for good").click()
    said(day, "Group trial is deleted")


def test_a_topic_leads_to_its_groups_and_is_cloned(day: Page) -> None:
    day.goto("/shop/topics/daily?tab=groups")
    groups = day.get_by_role("table", name="Groups")
    expect(groups.get_by_role("row", name=re.compile("evening"))).to_contain_text("240")
    day.get_by_role("link", name="Clone").click()
    dialog = day.get_by_role("dialog")
    expect(dialog.get_by_label("Write queues per broker")).to_have_value("8")
    dialog.get_by_label("Name", exact=True).fill("daily-copy")
    dialog.get_by_role("button", name="Create").click()
    expect(day.get_by_role("heading", name="daily-copy")).to_be_visible()
    expect(day.get_by_role("table", name="Queues").get_by_role("row")).to_have_count(9)


def test_a_message_is_linked_copied_and_published_again(day: Page) -> None:
    day.context.grant_permissions(["clipboard-read", "clipboard-write"])
    day.goto("/shop/topics/daily?tab=messages&key=o-5")
    message = day.locator(".message")
    message.locator("summary").click()
    message.get_by_role("button", name="Copy body").click()
    said(day, "The body is copied")
    assert '"order": 5' in day.evaluate("navigator.clipboard.readText()")
    message.get_by_role("button", name="Copy link").click()
    said(day, "The link is copied")
    link = day.evaluate("navigator.clipboard.readText()")
    message.get_by_role("link", name="Publish a copy").click()
    expect(day.get_by_label("Keys")).to_have_value("o-5")
    expect(day.get_by_label("Body", exact=True)).to_have_value('{"order": 5, "customer": "c5"}')
    day.get_by_label("Keys").fill("again-5")
    day.get_by_label("Delay").select_option("at")
    day.get_by_label("Deliver at").fill("2020-01-01T00:00:00")
    day.get_by_role("button", name="Publish", exact=True).click()
    expect(day.get_by_role("status").filter(has_text="SEND_OK")).to_be_visible()
    day.get_by_label("Encoding").select_option("base64")
    day.get_by_label("Body", exact=True).fill("not base64!")
    day.get_by_role("button", name="Publish", exact=True).click()
    expect(day.get_by_role("alert")).to_contain_text("Encode the bytes anew.")
    day.goto(link)
    expect(day.get_by_label("Body", exact=True)).to_contain_text('"order": 5')


def test_large_bodies_are_listed_by_their_beginnings(day: Page, console: RunningConsole) -> None:
    api = console.client()
    api.put("/api/clusters/shop/topics/large", json={"queues": 4, "create": True})
    for number in range(40):
        body = f'{{"number": {number}, "padding": "{"x" * 100_000}"}}'
        assert api.post("/api/clusters/shop/topics/large/messages", json={"text": body}).status_code == 200
    with day.expect_response(re.compile("/topics/large/messages")) as answered:
        day.goto("/shop/topics/large?tab=messages")
    assert len(answered.value.body()) < 250_000
    messages = day.locator(".message")
    expect(messages).to_have_count(32)
    assert len(day.content()) < 100_000, "nothing but the beginnings is drawn"
    messages.first.locator("summary").click()
    messages.first.get_by_role("button", name="Load all of it").click()
    expect(messages.first.get_by_role("button", name="JSON")).to_have_attribute("aria-pressed", "true")
    expect(messages.first.get_by_label("Body", exact=True)).to_contain_text('"number": 39')


def test_brokers_tell_their_figures_and_producers_are_looked_for(day: Page) -> None:
    day.goto("/shop/cluster")
    day.get_by_role("button", name=re.compile("^Figures of")).click()
    dialog = day.get_by_role("dialog")
    dialog.get_by_role("searchbox").fill("putTps")
    expect(dialog.locator("dd").first).to_be_visible()
    picture(day, "figures")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    day.goto("/shop/cluster?tab=producers")
    expect(day.get_by_role("status").filter(has_text="in all")).to_be_visible()
