"""Every page of the console in a real browser against a real broker."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from orbitmq import Message, Producer
from orbitmq.console.security.roles import Role
from orbitmq.console.security.users import set_user
from orbitmq.testing import LocalBroker
from tests.console.conftest import keeps_nobody_out, open_page, picture
from tests.kit.order_schemas import avro_body, avro_schema
from tests.kit.running_console import RunningConsole

PAGES = {
    "overview": "Overview",
    "topics": "Topics",
    "topics/orders": "orders",
    "topics/orders?tab=publish": "orders",
    "topics/orders?tab=tail": "orders",
    "topics/orders?tab=messages&key=o-5": "orders",
    "topics/orders?tab=groups": "orders",
    "groups": "Groups",
    "groups/billing": "billing",
    "groups/billing?tab=why": "billing",
    "messages?by=key&topic=orders&key=o-3": "Messages",
    "messages?by=text&topic=orders&text=c3&from=2020-01-01T00:00:00&budget=32": "Messages",
    "dead-letters": "Dead letters",
    "dead-letters/refunds": "refunds",
    "audit": "Audit log",
}

DARK = ("overview", "groups/billing", "topics/orders?tab=messages&key=o-5", "dead-letters/refunds")
"""Pages whose colours are all that there are."""


def test_the_first_page_leads_to_the_overview_which_stays_fresh(page: Page, shop: LocalBroker) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert page.url.endswith("/shop/overview")
    brokers = page.get_by_role("table", name="Brokers")
    expect(brokers).to_contain_text(shop.broker)
    expect(brokers).to_contain_text("active")
    expect(page.get_by_role("img", name=re.compile("^Lag, messages"))).to_be_visible()
    page.get_by_role("button", name="15 min").click()
    expect(page).to_have_url(re.compile("minutes=15"))
    picture(page, "overview")


def test_a_topic_from_creation_to_deletion(page: Page) -> None:
    page.goto("/shop/topics")
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("bad name")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("ILLEGAL_NAME")
    dialog.get_by_label("Name", exact=True).fill("returns")
    dialog.get_by_label("Write queues per broker").fill("3")
    dialog.get_by_label("Message type").select_option("NORMAL")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="returns")).to_be_visible()
    expect(page.get_by_role("table", name="Queues").get_by_role("row")).to_have_count(4)

    page.get_by_role("link", name="Publish").click()
    page.get_by_label("Body").fill("<b>not bold</b>")
    page.get_by_label("Tag").fill("broken")
    page.get_by_label("Properties: name 1").fill("reason")
    page.get_by_label("Properties: value 1").fill("torn")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status").filter(has_text="SEND_OK")).to_be_visible()
    picture(page, "publish")

    page.get_by_role("button", name="Change").click()
    page.get_by_role("dialog").get_by_label("Permission").select_option("4")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    expect(page.get_by_text("Topic returns is changed")).to_be_visible()
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("permission", re.IGNORECASE))

    page.get_by_role("button", name="Delete").click()
    delete = page.get_by_role("dialog").get_by_role("button", name="Delete for good")
    expect(delete).to_be_disabled()
    page.get_by_role("dialog").get_by_label("Type the name of the topic to confirm").fill("returns")
    delete.click()
    expect(page).to_have_url(re.compile("/shop/topics$"))
    expect(page.get_by_role("table", name="Topics")).to_contain_text("orders")
    expect(page.get_by_role("table", name="Topics")).not_to_contain_text("returns")

    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("table", name="Audit log")).to_contain_text("delete_topic")


def test_the_filter_is_in_the_address_and_reached_by_a_key(page: Page) -> None:
    page.goto("/shop/topics")
    table = page.get_by_role("table", name="Topics")
    expect(table).to_contain_text("payments")
    page.keyboard.press("/")
    page.keyboard.type("ship")
    expect(table).not_to_contain_text("payments")
    expect(page).to_have_url(re.compile("filter=ship"))
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("ship")
    expect(table.get_by_role("link")).to_have_text(["shipments"])
    picture(page, "topics")
    table.get_by_role("link").click()
    expect(page.get_by_role("heading", name="shipments")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("ship")


def test_a_group_is_cloned_and_the_copy_skips_its_backlog(page: Page) -> None:
    page.goto("/shop/groups/billing")
    page.get_by_role("button", name="Clone").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the new group").fill("billing")
    dialog.get_by_role("button", name="Clone").click()
    expect(dialog.get_by_role("alert")).to_contain_text("CANNOT_CLONE")
    dialog.get_by_label("Name of the new group").fill("billing-copy")
    dialog.get_by_role("button", name="Clone").click()
    expect(page.get_by_role("heading", name="billing-copy")).to_be_visible()
    expect(page.get_by_role("table", name="Queues").get_by_role("row")).to_have_count(9)
    page.get_by_role("button", name="Skip backlog").click()
    expect(dialog.get_by_role("status")).to_contain_text("0 messages are delivered again, 240 are skipped.")
    dialog.get_by_role("button", name="Reset").click()
    expect(page.get_by_text("Offsets of billing-copy are set")).to_be_visible()


def test_a_group_tells_why_it_is_behind_and_skips_its_backlog(page: Page) -> None:
    page.goto("/shop/groups")
    row = page.get_by_role("row", name=re.compile("^billing "))
    expect(row).to_contain_text("240")
    row.get_by_role("link", name="Why is billing behind?").click()
    expect(page.get_by_text("No consumer of group billing is connected.")).to_be_visible()
    picture(page, "why")
    page.get_by_role("link", name="Queues").click()
    expect(page.get_by_role("table", name="Queues").get_by_role("row")).to_have_count(9)

    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Go on").select_option("earliest")
    expect(dialog.get_by_role("status")).to_contain_text("80 messages are delivered again, 0 are skipped.")
    dialog.get_by_label("Go on").select_option("latest")
    expect(dialog.get_by_role("status")).to_contain_text("0 messages are delivered again, 240 are skipped.")
    picture(page, "reset")
    dialog.get_by_role("button", name="Reset").click()
    expect(page.get_by_text("Offsets of billing are set")).to_be_visible()
    page.get_by_role("link", name="Why is it behind?").click()
    expect(page.get_by_text("Group billing is not behind.")).to_be_visible()


def test_messages_are_found_and_shown_as_what_they_are(page: Page) -> None:
    page.goto("/shop/messages")
    page.get_by_label("Topic").fill("orders")
    page.get_by_label("Key", exact=True).fill("o-3")
    page.get_by_role("button", name="Look up").click()
    body = page.get_by_label("Body")
    expect(body).to_contain_text('"customer": "c3"')
    page.get_by_role("button", name="Hex").click()
    expect(body).to_contain_text("7b 22 6f 72 64 65 72 22")
    expect(page).to_have_url(re.compile("key=o-3"))
    picture(page, "message")
    page.get_by_role("button", name="Time").click()
    page.get_by_label("Stored from").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_text("Messages: 32")).to_be_visible()
    page.get_by_role("button", name="Key").click()
    page.get_by_label("Key", exact=True).fill("nothing")
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_role("alert")).to_contain_text("NO_MESSAGE")


def test_a_topic_lists_its_newest_messages_and_goes_back(page: Page) -> None:
    page.goto("/shop/topics/payments?tab=messages")
    messages = page.locator(".message")
    expect(messages).to_have_count(32)
    expect(messages.first).to_contain_text('{"order": 159, "customer": "c5"}')
    newer, older = (page.get_by_role("button", name=name) for name in ("Newer", "Older"))
    expect(newer).to_be_disabled()
    for beginning in (127, 95, 63):
        older.click()
        expect(messages.first).to_contain_text(f'{{"order": {beginning},')
    page.reload()
    expect(messages.first).to_contain_text('{"order": 63,')
    older.click()
    expect(messages.first).to_contain_text('{"order": 31,')
    expect(messages.last).to_contain_text('{"order": 0,')
    expect(older).to_be_disabled()
    newer.click()
    expect(messages.first).to_contain_text('{"order": 63,')
    expect(newer).to_be_enabled()
    page.get_by_label("Text in body or properties").fill('CUSTOMER": "C5')
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status").filter(has_text="found among")).to_contain_text("23 found among 160")
    expect(messages.first).to_contain_text('{"order": 159,')
    page.get_by_label("Key", exact=True).fill("o-5")
    page.get_by_role("button", name="Show").click()
    expect(messages).to_have_count(1)
    page.reload()
    expect(messages).to_have_count(1)
    expect(page.get_by_label("Key", exact=True)).to_have_value("o-5")
    page.get_by_label("Stored before").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No messages")).to_be_visible()
    expect(page).to_have_url(re.compile("before=2020.*key=o-5|key=o-5.*before=2020"))
    page.get_by_role("button", name="Newest of all").click()
    expect(messages).to_have_count(32)


def test_a_topic_with_a_hundred_thousand_queues_is_paged_by_the_server(
    page: Page, shop: LocalBroker, console: RunningConsole
) -> None:
    shop.create_topic("wide", 100_000)
    with page.expect_response(re.compile("/topics/wide/queues")) as answered:
        page.goto("/shop/topics/wide")
    assert len(answered.value.body()) < 20_000
    rows = page.get_by_role("table", name="Queues").get_by_role("row")
    expect(page.get_by_text("1 to 100 of 100,000 queues")).to_be_visible()
    page.get_by_label("First queue of the page").fill("99950")
    page.get_by_role("button", name="Go to").click()
    expect(page.get_by_text("99,951 to 100,000 of 100,000 queues")).to_be_visible()
    expect(rows.last).to_contain_text("99999")
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="Previous").click()
    expect(rows.nth(1)).to_contain_text("99850")
    erased = console.client().request("DELETE", "/api/clusters/shop/topics/wide", json={"confirm": "wide"})
    assert erased.status_code == 200


def test_charts_end_their_line_where_nothing_was_known_and_repeat_no_label(page: Page) -> None:
    page.goto("/shop/overview")
    expect(page.get_by_text(re.compile("as of .*[0-9]"))).to_be_visible()
    drawn = page.evaluate(
        """async () => {
          const { labels, rangeOf, withGaps } = await import("/static/ui/chart.js");
          const gaps = withGaps([0, 10, 20, 80, 180, 190], [1, 1, 1, 2, 2, 2]);
          const ranges = [rangeOf([900], 3600), rangeOf([0, 900], 3600), rangeOf([0, 9000], 3600)];
          return [gaps, labels([1000, 1050, 1100], "en"), labels([0, 0.5], "en"), ...ranges];
        }"""
    )
    gaps = [[0, 10, 20, 80, 90, 180, 190], [1, 1, 1, 2, None, 2, 2]]
    ranges = [[600, 900], [0, 900], [5400, 9000]]
    assert drawn == [gaps, ["1K", "1.05K", "1.1K"], ["0", "0.5"], *ranges]


def test_a_text_is_searched_for_with_a_budget(page: Page) -> None:
    page.goto("/shop/messages")
    page.get_by_role("button", name="Text").click()
    page.get_by_label("Topic").fill("orders")
    page.get_by_label("Text in body or properties").fill('CUSTOMER": "c5')
    page.get_by_label("Stored from").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Look up").click()
    state = page.get_by_role("status").filter(has_text="messages read")
    expect(state).to_contain_text("45 found, 320 of 320 messages read. All was read.")
    expect(page.locator(".message")).to_have_count(45)
    picture(page, "search")
    page.get_by_label("Messages to read at most").fill("100")
    page.get_by_role("button", name="Look up").click()
    expect(state).to_contain_text("100 of 320 messages read. The budget is used up")
    page.get_by_label("Topic").fill("nothing")
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_role("alert")).to_contain_text("TOPIC_NOT_EXIST")


def test_a_hostile_body_is_text_and_runs_nowhere(page: Page) -> None:
    script = "<script>document.title='owned'</script>\u202e\u001b[31m"
    hostile = f"<img src=x onerror=\"document.title='owned'\">{script}"
    page.goto("/shop/topics/inventory?tab=publish")
    page.get_by_label("Body").fill(hostile)
    page.get_by_label("Keys").fill("hostile")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status").filter(has_text="SEND_OK")).to_be_visible()
    page.goto("/shop/messages?by=key&topic=inventory&key=hostile")
    expect(page.get_by_label("Body")).to_contain_text(
        "<script>document.title='owned'</script>\\u202e\\u001b[31m"
    )
    assert "owned" not in page.title()
    assert page.locator("img[src=x]").count() == 0


def test_messages_are_followed_as_they_come_filtered_and_paused(page: Page) -> None:
    page.goto("/shop/topics/shipments?tab=tail")
    state = page.get_by_role("status").filter(has_text=re.compile("Live|Paused|Connecting"))
    expect(state).to_contain_text("Live: 0 came in")
    publish = page.context.new_page()
    publish.goto("/shop/topics/shipments?tab=publish")

    def send(body: str, tag: str) -> None:
        publish.get_by_label("Body").fill(body)
        publish.get_by_label("Tag").fill(tag)
        with publish.expect_response(re.compile("/messages$")):
            publish.get_by_role("button", name="Publish").click()

    send("<script>document.title='owned'</script>", "hot")
    messages = page.locator(".message")
    expect(messages).to_have_count(1)
    expect(state).to_contain_text("Live: 1 came in, 1 shown, 0 left out")
    messages.first.locator("summary").click()
    expect(messages.first.get_by_label("Body")).to_contain_text("<script>document.title='owned'</script>")
    picture(page, "tail")

    page.get_by_label("SQL92 filter").fill("price >")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("FILTER")
    page.get_by_label("SQL92 filter").fill("TAGS = 'cold'")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("sql=TAGS"))
    expect(state).to_contain_text("Live: 0 came in")
    send("one", "hot")
    send("two", "cold")
    expect(state).to_contain_text("Live: 2 came in, 1 shown")
    page.get_by_role("button", name="Pause").click()
    expect(state).to_contain_text("Paused")
    send("three", "cold")
    expect(messages).to_have_count(1)
    assert "owned" not in page.title()


def test_a_live_tail_that_stays_open_keeps_the_newest_messages_only(page: Page, shop: LocalBroker) -> None:
    page.goto("/shop/topics/shipments?tab=tail&rate=100")
    state = page.get_by_role("status").filter(has_text=re.compile("Live|Connecting"))
    expect(state).to_contain_text("Live: 0 came in")

    async def send(first: int) -> None:
        async with Producer("stayer", shop.namesrv) as producer:
            for number in range(first, first + 60):
                await producer.send(Message("shipments", f"stays {number}"))

    for came_in in range(0, 300, 60):
        with ThreadPoolExecutor(1) as thread:  # Playwright has an event loop of its own in this one
            thread.submit(asyncio.run, send(came_in)).result()
        expect(state).to_contain_text(f"Live: {came_in + 60} came in")
    expect(state).to_contain_text("200 shown, 0 left out")
    expect(page.locator(".message")).to_have_count(200)


def test_dead_letters_are_looked_at_edited_and_sent_again(page: Page) -> None:
    page.goto("/shop/dead-letters")
    page.get_by_role("table", name="Dead letters").get_by_role("link", name="refunds").click()
    causes = page.get_by_role("table", name="Causes")
    expect(causes.get_by_role("row")).to_have_count(3)
    expect(causes).to_contain_text("no such customer")
    picture(page, "dead-letters")

    causes.get_by_role("link", name="KeyError").click()
    letters = page.locator(".message")
    expect(letters).to_have_count(3)
    letters.first.locator("summary").click()
    expect(letters.first.get_by_label("Body")).to_contain_text("<script>document.title='owned'</script>")
    letters.first.get_by_role("button", name="Edit and resend").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("New body").fill('{"order": 1}')
    dialog.get_by_label("Keys").fill("mended")
    dialog.get_by_label("Properties: value 1").fill("")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("empty value")
    dialog.get_by_label("Properties: value 1").fill("blue")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 of 1 dead letters would be sent.")
    expect(dialog.get_by_role("status")).to_contain_text("its filter is not known")
    picture(page, "redrive")
    dialog.get_by_role("button", name="Resend 1").click()
    runs = page.get_by_role("table", name="Resends")
    expect(runs.get_by_role("row").nth(1)).to_contain_text("sent: 1")

    page.get_by_role("checkbox").nth(1).check()
    page.get_by_role("button", name="Resend selected (1)").click()
    dialog.get_by_role("button", name="Dry run").click()
    dialog.get_by_role("button", name="Resend 1").click()
    expect(runs.get_by_role("row")).to_have_count(3)

    causes.get_by_role("row", name=re.compile("KeyError")).get_by_role("button", name="Resend all").click()
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 of 3 dead letters would be sent.")
    expect(dialog.get_by_role("status")).to_contain_text("has sent it")
    dialog.get_by_role("button", name="Resend 1").click()
    expect(runs.get_by_role("row").nth(1)).to_contain_text("sent: 1 · skipped: 2")
    runs.get_by_role("row").nth(1).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Resend ")
    trail = page.get_by_role("table", name="Dead letters")
    expect(trail.get_by_role("row")).to_have_count(4)
    picture(page, "resend")
    page.goto("/shop/messages?by=key&topic=inventory&key=mended")
    expect(page.get_by_label("Body")).to_contain_text('"order": 1')
    assert "owned" not in page.title()


def test_a_resend_is_stopped_on_the_page(page: Page) -> None:
    page.goto("/shop/dead-letters/refunds")
    causes = page.get_by_role("table", name="Causes")
    causes.get_by_role("row", name=re.compile("ValueError")).get_by_role("button", name="Resend all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Messages a second").fill("0.5")
    dialog.get_by_role("button", name="Dry run").click()
    dialog.get_by_role("button", name="Resend 40").click()
    row = page.get_by_role("table", name="Resends").get_by_role("row").nth(1)
    row.get_by_role("button", name="Stop").click()
    expect(row).to_contain_text("stopped:")
    expect(row.get_by_role("button", name="Stop")).to_have_count(0)


def test_an_error_of_the_cluster_is_shown_with_advice(page: Page) -> None:
    page.goto("/shop/topics/nothing")
    expect(page.get_by_role("alert")).to_contain_text("TOPIC_NOT_EXIST")
    page.goto("/elsewhere/topics")
    expect(page.get_by_role("heading", name="No such cluster")).to_be_visible()


def test_the_pages_speak_chinese(page: Page) -> None:
    page.goto("/shop/topics")
    page.get_by_label("Language").select_option("zh")
    expect(page.get_by_role("heading", name="主题")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="主题")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"


@pytest.mark.parametrize("paths", [DARK, pytest.param(tuple(PAGES), marks=pytest.mark.nightly)], ids=len)
def test_nothing_keeps_readers_out_and_everything_fits_a_phone(page: Page, paths: tuple[str, ...]) -> None:
    for path in paths:
        keeps_nobody_out(page, f"/shop/{path}", PAGES[path], dark=path in DARK)
    for name, path, size, scheme in (
        ("phone", "groups/billing", {"width": 390, "height": 844}, "light"),
        ("dark", "overview", {"width": 1280, "height": 900}, "dark"),
    ):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.set_viewport_size({"width": size["width"], "height": size["height"]})
        page.goto(f"/shop/{path}")
        expect(page.locator(".loading")).to_have_count(0)
        picture(page, name)


@pytest.fixture
def guarded(browser: Browser, shop: LocalBroker, tmp_path: Path) -> Iterator[Page]:
    set_user(tmp_path / "users", "vera", Role.VIEWER, "password of vera", reads_bodies=False)
    with RunningConsole(tmp_path, shop=shop.namesrv) as running:
        yield from open_page(browser, running.url)


def test_a_viewer_logs_in_and_sees_no_button_for_changes(guarded: Page) -> None:
    guarded.goto("/shop/topics")
    guarded.get_by_label("User").fill("vera")
    guarded.get_by_label("Password").fill("a wrong password")
    guarded.get_by_role("button", name="Log in").click()
    expect(guarded.get_by_role("alert")).to_contain_text("WRONG_LOGIN")
    guarded.get_by_label("Password").fill("password of vera")
    guarded.get_by_role("button", name="Log in").click()
    expect(guarded.get_by_role("heading", name="Topics")).to_be_visible()
    expect(guarded.get_by_role("button", name="Create topic")).to_have_count(0)
    expect(guarded.get_by_role("link", name="Audit log")).to_have_count(0)
    guarded.goto("/shop/topics/payments?tab=messages")
    expect(guarded.get_by_label("Text in properties")).to_be_visible()
    expect(guarded.locator(".message").first).to_contain_text("you may not read bodies")
    expect(guarded.locator(".message").first).not_to_contain_text("customer")
    guarded.get_by_role("button", name="Log out").click()
    expect(guarded.get_by_label("Password")).to_be_visible()


def test_a_message_of_four_mebibytes_and_one_of_thousands_of_properties_are_shown(
    page: Page, shop: LocalBroker
) -> None:
    large = Message("inventory", b"x" * (4 * 1024 * 1024 - 2048), keys="large")
    many = {f"p{number}": "<b>" for number in range(3000)}
    hostile = {**many, "p\u202e\u001b": "\u001b[31m"}

    async def send() -> None:
        async with Producer("large", shop.namesrv) as producer:
            await producer.send(large)
            await producer.send(Message("inventory", b"{}", keys="many", properties=hostile))

    with ThreadPoolExecutor(1) as thread:  # Playwright has an event loop of its own in this one
        thread.submit(asyncio.run, send()).result()
    page.goto("/shop/messages?by=key&topic=inventory&key=large")
    expect(page.get_by_text("The first 256 KiB of 4.0 MiB.")).to_be_visible()
    page.get_by_role("button", name="Hex").click()
    expect(page.get_by_label("Body")).to_contain_text("000ff0  78 78")
    page.goto("/shop/messages?by=key&topic=inventory&key=many")
    expect(page.get_by_text(re.compile("The first 500 of 3,0"))).to_be_visible()
    assert page.locator("dd b").count() == 0


def test_bodies_in_avro_are_shown_by_the_schema_of_their_topic(page: Page, console: RunningConsole) -> None:
    api = console.client()
    api.put("/api/clusters/shop/topics/coded", json={"queues": 1, "create": True})
    message = {"base64": base64.b64encode(avro_body()).decode(), "keys": ["avro-1"]}
    assert api.post("/api/clusters/shop/topics/coded/messages", json=message).status_code == 200
    page.goto("/shop/topics/coded?tab=schema")
    page.get_by_label("Avro schema (JSON)").fill('{"type": "record",')
    page.get_by_role("button", name="Set schema").click()
    expect(page.get_by_role("alert")).to_contain_text("line 1, column 19")
    page.get_by_label("Avro schema (JSON)").fill(avro_schema()["text"])
    page.get_by_role("button", name="Set schema").click()
    expect(page.get_by_text("The schema is set")).to_be_visible()
    page.goto("/shop/messages?by=key&topic=coded&key=avro-1")
    expect(page.get_by_label("Body")).to_contain_text('"customer": "Ann 安"')
    expect(page.get_by_role("button", name="Avro")).to_have_attribute("aria-pressed", "true")
    picture(page, "avro")
    page.get_by_role("button", name="Hex").click()
    expect(page.get_by_label("Body")).to_contain_text("0e 02")
    keeps_nobody_out(page, "/shop/topics/coded?tab=schema", "coded")


def test_the_life_of_a_message_is_told(page: Page) -> None:
    page.goto("/shop/messages?by=key&topic=orders&key=o-3")
    page.get_by_role("link", name="Life of this message").click()
    life = page.locator(".life")
    expect(life).to_contain_text("Stored in queue 3 of orders at offset 0")
    expect(life).to_contain_text("Group billing")
    expect(page.get_by_label("Unique id")).not_to_have_value("")
    expect(page.get_by_text("no client traced it")).to_be_visible()
    picture(page, "life")
    keeps_nobody_out(page, page.url.removeprefix(page.url.split("/shop/")[0]), "Messages")
