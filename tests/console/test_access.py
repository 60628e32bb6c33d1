"""Users and rules of a broker with access control in a real browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, Page, expect

from orbitmq import Admin
from orbitmq.access import Access
from orbitmq.admin.acls import put_rules
from orbitmq.admin.users import create_user
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.testing import LocalBroker
from tests.console.conftest import keeps_nobody_out, open_page, picture
from tests.kit.running_console import RunningConsole

CHECKED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}


@pytest.fixture(scope="module")
def guarded_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console over a broker with access control, a user ann, and rules of hers."""

    async def fill(namesrv: str) -> None:
        async with Admin(namesrv, access_key="root", secret_key="root-secret") as admin:
            [broker] = await admin.masters()
            await create_user(admin, broker.address, "ann", "ann-secret")
            await put_rules(admin, broker.address, "ann", ["Topic:orders*"], ["Pub", "Sub"])
            await put_rules(admin, broker.address, "ann", ["Topic:orders-secret"], ["All"], "Deny")
            await put_rules(admin, broker.address, "ann", ["Group:*"], ["Sub"], source_ips=["10.0.0.0/8"])

    with LocalBroker(**CHECKED) as broker:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, fill(broker.namesrv)).result()
        access = Access(Credentials("root", "root-secret"))
        folder = tmp_path_factory.mktemp("guarded")
        with RunningConsole(folder, access=access, bank=broker.namesrv) as running:
            yield running


@pytest.fixture
def bank(browser: Browser, guarded_console: RunningConsole) -> Iterator[Page]:
    for page in open_page(browser, guarded_console.url):
        login = {"user": "root", "password": "root-secret"}  # the console's own: it has no users
        assert page.context.request.post("/api/login", data=login).ok
        yield page


def test_a_user_from_creation_to_deletion(bank: Page, guarded_console: RunningConsole) -> None:
    bank.goto("/bank/access")
    users = bank.get_by_role("table", name="Users")
    expect(users.get_by_role("row", name=re.compile("^ann "))).to_contain_text("Normal")
    bank.get_by_role("button", name="Create user").click()
    dialog = bank.get_by_role("dialog")
    dialog.get_by_label("Name").fill("bob")
    dialog.get_by_label("Password").fill("secret of bob")
    dialog.get_by_role("button", name="Create").click()
    row = users.get_by_role("row", name=re.compile("^bob "))
    expect(row).to_contain_text("enabled")
    picture(bank, "access")
    row.get_by_role("button", name="Change bob").click()
    dialog.get_by_label("May sign in").uncheck()
    dialog.get_by_role("button", name="Change").click()
    expect(row).to_contain_text("disabled")
    row.get_by_role("button", name="Delete bob").click()
    erase = dialog.get_by_role("button", name="Delete for good")
    expect(erase).to_be_disabled()
    dialog.get_by_label("Type the name of the user to confirm").fill("bob")
    erase.click()
    expect(row).to_have_count(0)
    changes = guarded_console.client().get("/api/audit").text
    assert "make_user" in changes
    assert "secret of bob" not in changes


def test_a_rule_is_made_changed_and_deleted(bank: Page) -> None:
    bank.goto("/bank/access?tab=rules")
    rules = bank.get_by_role("table", name="Rules")
    expect(rules.get_by_role("row")).to_have_count(4)
    bank.get_by_role("button", name="Create rule").click()
    dialog = bank.get_by_role("dialog")
    dialog.get_by_label("User").fill("ann")
    dialog.get_by_label("Resource").fill("Topic:pay*ments")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("alert")).to_contain_text("may only be its last character")
    dialog.get_by_label("Resource").fill("Topic:payments")
    dialog.get_by_role("button", name="Set").click()
    row = rules.get_by_role("row", name=re.compile("payments"))
    expect(row).to_contain_text("Pub")
    row.get_by_role("button", name="Change ann Topic:payments").click()
    dialog.get_by_label("Decision").select_option("Deny")
    dialog.get_by_role("button", name="Set").click()
    expect(row).to_contain_text("refused")
    row.get_by_role("button", name="Delete ann Topic:payments").click()
    dialog.get_by_role("button", name="Delete for good").click()
    expect(row).to_have_count(0)
    bank.get_by_role("searchbox").fill("secret")
    expect(rules.get_by_role("row")).to_have_count(2)


def test_a_refusal_is_explained_with_the_rule_that_decides(bank: Page) -> None:
    bank.goto("/bank/access")
    bank.get_by_role("link", name="What may ann do, and why?").click()
    expect(bank.get_by_label("User")).to_have_value("ann")

    def ask(action: str, resource: str, source: str = "") -> None:
        bank.get_by_label("Action").select_option(action)
        bank.get_by_label("Resource").fill(resource)
        bank.get_by_label("From address").fill(source)
        bank.get_by_role("button", name="Explain").click()

    ask("Pub", "Topic:orders-secret")
    expect(
        bank.get_by_text("“Deny All on Topic:orders-secret” denies Pub on Topic:orders-secret.")
    ).to_be_visible()
    table = bank.get_by_role("table", name=re.compile("Rules of ann on"))
    expect(table.get_by_role("row", name=re.compile("orders\\*"))).to_contain_text(
        "a more specific rule decides"
    )
    picture(bank, "explain")
    ask("Sub", "Group:billing")
    expect(bank.get_by_text("No rule of ann applies to Sub on Group:billing")).to_be_visible()
    expect(table).to_contain_text("is for other addresses")
    ask("Sub", "Group:billing", "10.1.2.3")
    expect(bank.get_by_text("allows Sub on Group:billing")).to_be_visible()
    expect(bank).to_have_url(re.compile("source=10.1.2.3"))
    ask("Sub", "billing")
    expect(bank.get_by_role("alert")).to_contain_text("names no resource")


@pytest.mark.nightly
def test_pages_of_access_keep_nobody_out(bank: Page) -> None:
    for tab in ("users", "rules", "explain&user=ann&resource=Topic:orders-secret&action=Pub"):
        keeps_nobody_out(bank, f"/bank/access?tab={tab}", "Access")


def test_a_cluster_without_access_control_says_so(page: Page) -> None:
    page.goto("/shop/access")
    expect(page.get_by_text("anybody may do everything: broker-a")).to_be_visible()
