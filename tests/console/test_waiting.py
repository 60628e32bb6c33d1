"""Delayed messages, timers and transactions in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from orbitmq.testing import LocalBroker
from tests.console.conftest import keeps_nobody_out, open_page, picture
from tests.kit.running_console import RunningConsole
from tests.kit.running_delay import RunningDelay


def test_what_is_due_stands_in_a_calendar_which_chooses_an_hour(page: Page) -> None:
    page.goto("/shop/waiting")
    levels = page.get_by_role("table", name="Delay levels")
    expect(levels.get_by_role("row", name=re.compile("17 1 h "))).to_contain_text("2")
    expect(page.get_by_text("a message of a delay level is delivered in any case")).to_be_visible()
    timers = page.get_by_role("table", name="Timers")
    expect(timers.get_by_role("row")).to_have_count(3)
    expect(timers).to_contain_text("timer-26")
    calendar = page.get_by_role("table", name="Messages due by hour")
    picture(page, "waiting")
    calendar.get_by_role("button").last.click()
    expect(page).to_have_url(re.compile(r"hour=\d+"))
    expect(timers.get_by_role("row")).to_have_count(2)
    expect(timers).to_contain_text("timer-26")
    page.reload()
    expect(timers.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name=re.compile("show all")).click()
    expect(timers.get_by_role("row")).to_have_count(3)
    page.get_by_label("Topic").fill("elsewhere")
    expect(page.get_by_text("No timer is pending")).to_be_visible()


def test_a_timer_is_recalled_after_a_question_and_stands_in_the_audit_log(
    page: Page, console: RunningConsole
) -> None:
    api = console.client()
    body = {"text": "take me back", "delayMs": 7_200_000, "keys": ["recall-me"]}
    api.put("/api/clusters/shop/topics/returned", json={"queues": 1, "create": True})
    assert api.post("/api/clusters/shop/topics/returned/messages", json=body).status_code == 200
    page.goto("/shop/waiting?topic=returned")
    timers = page.get_by_role("table", name="Timers")
    row = timers.get_by_role("row", name=re.compile("recall-me"))
    row.get_by_role("button", name="Recall").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("is never delivered")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row).to_be_visible()
    row.get_by_role("button", name="Recall").click()
    dialog.get_by_role("button", name="Recall for good").click()
    expect(page.get_by_text("No timer is pending")).to_be_visible()
    page.goto("/shop/audit")
    expect(page.get_by_role("table", name="Audit log").get_by_role("row").nth(1)).to_contain_text(
        "recall_timer"
    )


def test_half_messages_are_listed_with_age_and_checks_and_asked_about_again(page: Page) -> None:
    page.goto("/shop/waiting?tab=transactions")
    table = page.get_by_role("table", name="Open half messages")
    expect(table.get_by_role("row")).to_have_count(3)
    row = table.get_by_role("row", name=re.compile("half-1"))
    expect(row).to_contain_text("deciders")
    picture(page, "transactions")
    row.get_by_role("button", name=re.compile("^Show")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Body")).to_contain_text("half 1")
    dialog.get_by_role("button", name="Close").click()
    row.get_by_role("button", name=re.compile("^Check from the start")).click()
    expect(page.get_by_text("The producers are asked again")).to_be_visible()
    expect(table.get_by_role("row")).to_have_count(3)


def test_lists_of_what_waits_are_files_for_tables_and_programs(page: Page, console: RunningConsole) -> None:
    page.goto("/shop/waiting")
    expect(page.get_by_role("table", name="Timers")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("group", name="Download").last.get_by_role("link", name="CSV").click()
    assert saved.value.suggested_filename == "shop-timers.csv"
    lines = saved.value.path().read_text().splitlines()
    assert lines[0].startswith("broker,queueOffset,topic,uniqueId,dueMs")
    assert len(lines) == 3
    halves = httpx.get(f"{console.url}/api/clusters/shop/transactions?format=ndjson").text.splitlines()
    assert len(halves) == 2
    assert {json.loads(line)["text"] for line in halves} == {"half 1", "half 2"}


@pytest.mark.nightly
def test_pages_of_what_waits_keep_nobody_out(page: Page) -> None:
    keeps_nobody_out(page, "/shop/waiting", "Waiting")
    keeps_nobody_out(page, "/shop/waiting?tab=transactions", "Waiting")


@pytest.fixture(scope="module")
def with_delays(shop: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console over the same broker, with a delay service beside it."""
    folder = tmp_path_factory.mktemp("delays")
    with RunningDelay(folder / "store", f"main=rocketmq://{shop.namesrv}", delayQueues="1") as delay:
        for number in range(3):
            delay.client.send_after("reminders", b"x", f"{26 + number}h", id=f"order-{number}")
        url = {"shop": delay.url}
        with RunningConsole(folder / "console", delay_services=url, shop=shop.namesrv) as running:
            yield running


def test_a_delay_service_has_a_calendar_and_its_messages_are_moved_and_cancelled(
    browser: Browser, with_delays: RunningConsole
) -> None:
    for page in open_page(browser, with_delays.url):
        page.goto("/shop/waiting?tab=scheduled")
        messages = page.get_by_role("table", name="Messages of the delay service")
        expect(messages.get_by_role("row")).to_have_count(4)
        calendar = page.get_by_role("table", name="Messages due by hour")
        calendar.get_by_role("button").first.click()
        expect(messages).not_to_contain_text("order-2")
        page.get_by_role("button", name=re.compile("show all")).click()
        page.get_by_label("Beginning of the name").fill("order-2")
        expect(messages.get_by_role("row")).to_have_count(2)
        page.get_by_role("button", name="Move order-2").click()
        page.get_by_label("New time").fill("2031-05-01T12:00:00")
        page.get_by_role("dialog").get_by_role("button", name="Move").click()
        expect(messages).to_contain_text("2031")
        page.get_by_role("button", name="Cancel for good order-2").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel for good").click()
        expect(page.get_by_text("No message waits here")).to_be_visible()
        keeps_nobody_out(page, "/shop/waiting?tab=scheduled", "Waiting")
    entries = with_delays.client().get("/api/audit").json()["entries"]
    assert [one["action"] for one in entries[:2]] == ["cancel_scheduled", "move_scheduled"]
