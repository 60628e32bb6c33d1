"""Elections of real controllers over etcd, and access control of Apache's broker, in a real browser."""

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
from orbitmq.testing import LocalCluster
from tests.console.conftest import browser, keeps_nobody_out, open_page, picture  # noqa: F401 (fixtures)
from tests.kit.running_console import RunningConsole
from tests.needs import need
from tests.peers.apache import Apache
from tests.peers.conftest import GUARDED

pytestmark = pytest.mark.timeout(600)
PATIENCE_MS = 60_000


def test_an_election_of_real_controllers_is_told(
    browser: Browser,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    need("etcd")
    with (
        LocalCluster(masters=1, slaves=1, failover=True) as cluster,
        RunningConsole(tmp_path_factory.mktemp("elections"), bank=cluster.namesrv) as running,
    ):
        for page in open_page(browser, running.url):
            page.set_default_timeout(PATIENCE_MS)
            page.goto("/bank/cluster?tab=elections")
            controllers = page.get_by_role("table", name="Controllers")
            expect(controllers).to_contain_text("leads", timeout=PATIENCE_MS)
            elections = page.get_by_role("table", name="Elections")
            expect(elections).to_contain_text("broker-a", timeout=PATIENCE_MS)
            before = elections.get_by_role("row").count()
            master = cluster.master()
            assert master is not None
            cluster.kill(master.name)
            expect(elections.get_by_role("row")).to_have_count(before + 1, timeout=PATIENCE_MS)
            newest = elections.get_by_role("row").nth(1)
            expect(newest).to_contain_text("broker-a")
            expect(newest).not_to_contain_text("none")
            picture(page, "elections")
            keeps_nobody_out(page, "/bank/cluster?tab=elections", "Cluster")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console over Apache's broker with access control, a user ann, and rules of hers."""
    need("java", "mvn")

    async def fill(namesrv: str) -> None:
        async with Admin(namesrv, access_key="judge", secret_key="judge12345678") as admin:
            [broker] = await admin.masters()
            await create_user(admin, broker.address, "ann", "ann-secret-1")
            await put_rules(admin, broker.address, "ann", ["Topic:orders*"], ["Pub", "Sub"])
            await put_rules(admin, broker.address, "ann", ["Topic:orders-secret"], ["All"], "Deny")

    apache = Apache.start(tmp_path_factory.mktemp("bank") / "store", GUARDED)
    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, fill(apache.namesrv)).result()
        access = Access(Credentials("judge", "judge12345678"))
        folder = tmp_path_factory.mktemp("bank-console")
        with RunningConsole(folder, access=access, bank=apache.namesrv) as running:
            yield running
    finally:
        apache.stop()


@pytest.fixture
def page(browser: Browser, bank: RunningConsole) -> Iterator[Page]:  # noqa: F811
    for page in open_page(browser, bank.url):
        page.set_default_timeout(PATIENCE_MS)
        login = {"user": "judge", "password": "judge12345678"}  # the console's own: it has no users
        assert page.context.request.post("/api/login", data=login).ok
        yield page


@pytest.mark.nightly
def test_a_user_of_apaches_broker_from_creation_to_deletion(page: Page) -> None:
    page.goto("/bank/access")
    users = page.get_by_role("table", name="Users")
    expect(users.get_by_role("row", name=re.compile("^ann "))).to_contain_text("Normal", timeout=PATIENCE_MS)
    page.get_by_role("button", name="Create user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("bob")
    dialog.get_by_label("Password").fill("secret-of-bob-1")
    dialog.get_by_role("button", name="Create").click()
    row = users.get_by_role("row", name=re.compile("^bob "))
    expect(row).to_contain_text("enabled", timeout=PATIENCE_MS)
    row.get_by_role("button", name="Delete bob").click()
    dialog.get_by_label("Type the name of the user to confirm").fill("bob")
    dialog.get_by_role("button", name="Delete for good").click()
    expect(row).to_have_count(0, timeout=PATIENCE_MS)


@pytest.mark.nightly
def test_a_rule_of_apaches_broker_is_made_and_a_refusal_explained(page: Page) -> None:
    page.goto("/bank/access?tab=rules")
    rules = page.get_by_role("table", name="Rules")
    expect(rules.get_by_role("row")).to_have_count(3, timeout=PATIENCE_MS)
    page.get_by_role("button", name="Create rule").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User").fill("ann")
    dialog.get_by_label("Resource").fill("Topic:payments")
    dialog.get_by_role("button", name="Set").click()
    expect(rules.get_by_role("row", name=re.compile("payments"))).to_contain_text("Pub", timeout=PATIENCE_MS)
    page.goto("/bank/access?tab=explain&user=ann&resource=Topic:orders-secret&action=Pub")
    denied = page.get_by_text("“Deny All on Topic:orders-secret” denies Pub on Topic:orders-secret.")
    expect(denied).to_be_visible(timeout=PATIENCE_MS)
