"""Every dialog in light and dark and on a phone: axe-core finds nothing, Tab stays inside, Escape closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import lets_all_in, open_page
from tests.kit.brokers import others_at_night
from tests.kit.running_console import RunningConsole


def by_button(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("button", name=name).first.click()


OPTION = "transactionCheckInterval"
DIALOGS = {
    "create a topic": ("topics", by_button("Create topic")),
    "change a topic": ("topics/payments", by_button("Change")),
    "delete a topic": ("topics/payments", by_button("Delete")),
    "clone a topic": ("topics?like=payments", lambda page: None),
    "create a group": ("groups", by_button("Create group")),
    "settings of a group": ("groups/billing", by_button("Settings")),
    "delete a group": ("groups/billing", by_button("Delete")),
    "offset of a queue": ("groups/billing", by_button("Set the offset of queue 0")),
    "figures of a broker": ("cluster", by_button("Figures of")),
    "clone a group": ("groups/billing", by_button("Clone")),
    "reset a group": ("groups/billing", by_button("Reset offsets")),
    "resend dead letters": ("dead-letters/refunds", by_button("Resend all")),
    "drain a broker": ("cluster", by_button("Drain")),
    "set an option": (
        "cluster?tab=options&filter=transactionCheckInterval",
        by_button("Set transactionCheckInterval"),
    ),
}

ALWAYS = ("create a topic", "reset a group", "resend dead letters", "set an option")


@pytest.fixture(scope="module")
def window(browser: Browser, console: RunningConsole) -> Iterator[Page]:
    """One window for all of them."""
    yield from open_page(browser, console.url)


@pytest.mark.parametrize("name", others_at_night(DIALOGS, ALWAYS))
def test_a_dialog_keeps_nobody_out(window: Page, name: str) -> None:
    path, open_it = DIALOGS[name]
    page = window
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"/shop/{path}")
    open_it(page)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog.locator(".loading")).to_have_count(0)
    lets_all_in(page, path)
    page.set_viewport_size({"width": 360, "height": 740})
    box = dialog.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    for _ in range(12):
        page.keyboard.press("Tab")
        inside = "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        assert page.evaluate(inside), page.evaluate("document.activeElement.outerHTML")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
