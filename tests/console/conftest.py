"""A console over a broker with traffic, and a headless Chromium: any error of a page fails its test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from orbitmq import Admin, Message, Producer
from orbitmq.admin.groups import create_group
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.testing import LocalBroker
from tests.kit.dead_letters import origin, plant
from tests.kit.running_console import RunningConsole
from tests.kit.waiting_messages import RECALLING, plant_waiting
from tests.needs import chromium, need

PATIENCE_MS = 60_000
"""Time that a page may take, on a machine that does other work as well."""
expect.set_options(timeout=PATIENCE_MS)

SCREENSHOTS = "ORBITMQ_SCREENSHOTS"
"""Folder for the pictures of docs/operate/console.md; without it none are written."""


@pytest.fixture(scope="session")
def shop() -> Iterator[LocalBroker]:
    """A broker with topics, messages and a group that is behind."""
    with LocalBroker(**RECALLING) as broker:
        # Playwright has an event loop of its own in this thread.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _fill(broker.namesrv)).result()
        yield broker


async def _fill(namesrv: str) -> None:
    async with Admin(namesrv) as admin, Producer("shop", namesrv) as producer:
        [master] = await admin.masters()
        await create_group(admin, master.address, SubscriptionGroupConfig("billing"))
        for topic, queues in (("orders", 8), ("payments", 4), ("shipments", 4), ("inventory", 2)):
            await admin.create_topic(topic, queues=queues)
            for number in range(queues * 40):
                body = f'{{"order": {number}, "customer": "c{number % 7}"}}'
                await producer.send(
                    Message(topic, body, tags="new", keys=f"o-{number}"),
                    queue=MessageQueue(topic, master.name, number % queues),
                )
        for number in range(8):
            await admin.set_offset("billing", MessageQueue("orders", master.name, number), 10)
        await admin.create_topic("reminders", queues=2)
    await plant_waiting(namesrv, "reminders")
    bad = origin("inventory", exception="ValueError", exceptionText="no such customer", exceptionAttempt="1")
    await plant(namesrv, "refunds", 40, bad, b'{"customer": 7}')
    odd = origin("inventory", exception="KeyError", exceptionAttempt="1", colour="red")
    await plant(namesrv, "refunds", 3, odd, b"<script>document.title='owned'</script>", 40)


@pytest.fixture(scope="session")
def console(shop: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """The console over that broker."""
    with RunningConsole(tmp_path_factory.mktemp("console"), shop=shop.namesrv) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module: as long as it is there, no test of this process can run an event loop."""
    need("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, console: RunningConsole) -> Iterator[Page]:
    """A new browser window on the console."""
    yield from open_page(browser, console.url)


def open_page(browser: Browser, url: str) -> Iterator[Page]:
    """A window that remembers errors of its pages; there must be none at the end."""
    context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 900}, locale="en-GB")
    context.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on(
        "request", lambda request: errors.append(request.url) if not request.url.startswith(url) else None
    )
    yield page
    context.close()
    # Chromium reports every answer of 4xx as an error: tests provoke those.
    assert [one for one in errors if "the server responded with a status of 4" not in one] == []


REACHED = """() => {
  const wrong = [];
  const seen = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".unseen, .skip");
  for (const one of document.querySelectorAll("button, a, input, select, textarea, summary")) {
    const box = one.getBoundingClientRect();
    if (!seen(one) || !box.width) continue;
    if (box.left < -0.5 || box.right > innerWidth + 0.5) wrong.push(["outside", one.outerHTML.slice(0, 120)]);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!seen(node.parentElement) || node.parentElement.closest("pre, code, .mono, h1")) continue;
    for (const word of node.data.matchAll(/\\p{L}{2,14}/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) wrong.push(["broken", word[0]]);
    }
  }
  return wrong;
}"""
"""Controls beyond the window's width, and words that are broken inside."""


def fits_a_phone(page: Page, path: str) -> None:
    """Fails for a page that is wider than a phone, for controls out of reach and for words broken inside."""
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("button", name="Menu").click()
    for folded in (False, True):
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert page.evaluate(REACHED) == [], path
        if not folded:
            expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
            page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()


def keeps_nobody_out(page: Page, path: str, heading: str, *, dark: bool = True) -> None:
    """Fails for what axe-core finds on a page, in light and dark, and for what does not fit a phone."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto(path)
    expect(page.get_by_role("heading", name=heading, level=1, exact=True)).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
    lets_all_in(page, path, dark=dark)
    fits_a_phone(page, path)
    page.set_viewport_size({"width": 1280, "height": 900})


def lets_all_in(page: Page, path: str, *, dark: bool = True) -> None:
    """Fails for what axe-core finds in light, and for colours that it finds in the dark."""
    for scheme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]}))[: 1 + dark]:
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        found = Axe().run(page, options=options).response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], (path, scheme)
    page.emulate_media(color_scheme="light")


def picture(page: Page, name: str) -> None:
    """Keeps a picture for the documents, where they are asked for."""
    if folder := os.environ.get(SCREENSHOTS):
        page.screenshot(path=str(Path(folder) / f"console-{name}.png"))
