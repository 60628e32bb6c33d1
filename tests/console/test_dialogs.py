"""Every dialog in light and dark and on a phone: axe-core finds nothing, Tab stays inside, Escape closes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect


def by_button(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("button", name=name).first.click()


OPTION = "transactionCheckInterval"
DIALOGS = {
    "create a topic": ("topics", by_button("Create topic")),
    "change a topic": ("topics/payments", by_button("Change")),
    "delete a topic": ("topics/payments", by_button("Delete")),
    "clone a group": ("groups/billing", by_button("Clone")),
    "reset a group": ("groups/billing", by_button("Reset offsets")),
    "resend dead letters": ("dead-letters/refunds", by_button("Resend all")),
    "drain a broker": ("cluster", by_button("Drain")),
    "set an option": (
        "cluster?tab=options&filter=transactionCheckInterval",
        by_button("Set transactionCheckInterval"),
    ),
}


@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog_keeps_nobody_out(page: Page, name: str) -> None:
    path, open_it = DIALOGS[name]
    page.goto(f"/shop/{path}")
    open_it(page)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog.locator(".loading")).to_have_count(0)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        found = Axe().run(page).response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], scheme
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
