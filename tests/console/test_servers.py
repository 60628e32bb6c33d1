"""Name servers, options, elections and maintenance in a real browser, over two brokers of one cluster."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from orbitmq.testing import LocalCluster
from tests.console.conftest import keeps_nobody_out, open_page, picture
from tests.kit.running_console import RunningConsole

PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def two() -> Iterator[LocalCluster]:
    """Two masters."""
    with LocalCluster(masters=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def pair(two: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console over two masters."""
    with RunningConsole(tmp_path_factory.mktemp("pair"), pair=two.namesrv) as running:
        yield running


@pytest.fixture
def servers(browser: Browser, pair: RunningConsole) -> Iterator[Page]:
    yield from open_page(browser, pair.url)


def test_a_broker_is_drained_and_put_back(servers: Page) -> None:
    servers.goto("/pair/cluster")
    expect(servers.get_by_role("table", name="Name servers")).to_contain_text("active")
    brokers = servers.get_by_role("table", name="Brokers")
    master = brokers.get_by_role("row", name=re.compile("^broker-a"))
    master.get_by_role("button", name=re.compile("^Drain")).click()
    dialog = servers.get_by_role("dialog")
    drain = dialog.get_by_role("button", name="Drain")
    expect(drain).to_be_disabled()
    name = re.sub("^Drain ", "", dialog.get_by_role("heading").inner_text())
    dialog.get_by_label("Type the name of the broker to confirm").fill(name)
    drain.click()
    expect(master).to_contain_text("drained")
    expect(servers.get_by_role("table", name="Name servers")).to_contain_text(name)
    picture(servers, "cluster")
    master.get_by_role("button", name=re.compile("^Put back")).click()
    expect(master).not_to_contain_text("drained")
    servers.goto("/pair/audit")
    audit = servers.get_by_role("table", name="Audit log")
    expect(audit).to_contain_text("drain_broker")
    expect(audit).to_contain_text("undrain_broker")


def test_options_are_compared_explained_and_set(servers: Page) -> None:
    servers.goto("/pair/cluster?tab=options&filter=transactionCheckInterval")
    options = servers.get_by_role("table", name="Options")
    row = options.get_by_role("row", name=re.compile("transactionCheckInterval"))
    expect(row).not_to_contain_text("differs")
    row.get_by_role("button", name="Set transactionCheckInterval").click()
    dialog = servers.get_by_role("dialog")
    dialog.get_by_label("Value").fill("many")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("alert")).to_contain_text("transactionCheckInterval")
    dialog.get_by_label("Value").fill("321")
    dialog.get_by_label("Broker").select_option(index=1)
    dialog.get_by_role("button", name="Set").click()
    expect(row).to_contain_text("differs")
    expect(row).to_contain_text("321")
    servers.get_by_role("searchbox").fill("")
    servers.get_by_label("Only differences between brokers").check()
    expect(servers).to_have_url(re.compile("only=different"))
    expect(row).to_be_visible()
    picture(servers, "options")
    servers.get_by_role("searchbox").fill("nothing of this name")
    expect(servers.get_by_text("All brokers agree")).to_be_visible()


def test_a_cluster_without_controllers_says_so(servers: Page) -> None:
    servers.goto("/pair/cluster?tab=elections")
    expect(servers.get_by_text("No broker of this cluster has a controller")).to_be_visible()
    expect(servers.get_by_text("No election is known")).to_be_visible()


@pytest.mark.nightly
def test_pages_of_the_cluster_keep_nobody_out(servers: Page) -> None:
    for tab in ("servers", "options&filter=flushDisk", "producers", "elections"):
        keeps_nobody_out(servers, f"/pair/cluster?tab={tab}", "Cluster", dark=tab == "servers")


def test_a_broker_that_hangs_turns_grey_and_the_pages_go_on_without_it(
    servers: Page, two: LocalCluster
) -> None:
    servers.goto("/pair/topics")
    servers.get_by_role("button", name="Create topic").click()
    dialog = servers.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("both")
    dialog.get_by_role("button", name="Create").click()
    expect(servers.get_by_role("table", name="Queues").get_by_role("row")).to_have_count(17)
    paused = two.pid("broker-b-0")
    assert paused > 0
    os.kill(paused, signal.SIGSTOP)
    try:
        servers.goto("/pair/overview")
        row = servers.get_by_role("table", name="Brokers").get_by_role("row", name=re.compile("^broker-b"))
        expect(row).to_contain_text("down", timeout=PATIENCE_MS)
        expect(row).to_have_class(re.compile("gone"))
        servers.goto("/pair/topics/both")
        left_out = servers.get_by_role("status").filter(has_text="do not answer, and are left out")
        expect(left_out).to_be_visible(timeout=PATIENCE_MS)
        expect(servers.get_by_role("table", name="Queues").get_by_role("row")).to_have_count(9)
        picture(servers, "gone")
    finally:
        os.kill(paused, signal.SIGCONT)
    expect(left_out).to_have_count(0, timeout=PATIENCE_MS)
    expect(servers.get_by_role("table", name="Queues").get_by_role("row")).to_have_count(17)
