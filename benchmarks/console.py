"""The console under load: `python -m benchmarks.console` prints figures of docs/operate/console.md.

A cluster of 20 brokers and 5,000 topics on the loopback, the console as a process, pages in Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright

from orbitmq import Admin, Message, Producer
from orbitmq.admin.topics import create_topic
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalCluster

PATIENCE_MS = 120_000
TAILED = "topic-0000"


async def fill(namesrv: str, topics: int) -> None:
    """Spreads topics over the brokers, one broker each."""
    async with Admin(namesrv, timeout_ms=60_000) as admin:
        masters = await admin.masters()

        async def create(number: int) -> None:
            at = masters[number % len(masters)]
            await create_topic(admin, at.address, TopicConfig(f"topic-{number:04}", 4, 4))

        await admin.each(range(topics), create)


async def produce(namesrv: str, seconds: float, rate: float) -> int:
    """Messages of 200 bytes to the topic that is tailed; gives their number."""
    count = 0
    async with Producer("figures", namesrv) as producer:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await producer.send(Message(TAILED, b"x" * 200, keys=str(time.time_ns())))
            count += 1
            await asyncio.sleep(1 / rate)
    return count


@contextlib.contextmanager
def console(namesrv: str, folder: Path) -> Iterator[tuple[str, int]]:
    """`orbitmq console` as a process: its address and process id."""
    words = ["console", "--namesrv", namesrv, "--port", str(free_ports()), "--data-dir", str(folder)]
    command = [sys.executable, "-m", "orbitmq", *words, "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1].rstrip("/"), process.pid
    finally:
        process.terminate()
        process.wait(20)


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def opened(browser: Browser, url: str, path: str, label: str) -> tuple[Page, float]:
    """A new window, and the seconds until a table of the page is there."""
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE_MS)
    began = time.monotonic()
    page.goto(url + path)
    expect(page.get_by_role("table", name=label).get_by_role("row").nth(1)).to_be_visible(timeout=PATIENCE_MS)
    return page, time.monotonic() - began


def heap_mib(inspector: CDPSession) -> float:
    """Memory that the scripts of a page hold, without garbage."""
    inspector.send("HeapProfiler.collectGarbage")
    return float(inspector.send("Runtime.getHeapUsage")["usedSize"]) / (1 << 20)


def measure_pages(browser: Browser, url: str, brokers: list[int]) -> None:
    """Prints the speed of the first page and of the longest list, and the cost for brokers."""
    page, _ = opened(browser, url, "/default/overview", "Brokers")
    page.close()  # the first look at the cluster was taken meanwhile
    for path, label in (("/", "Brokers"), ("/default/topics", "Topics")):
        times = []
        for _ in range(7):
            page, seconds = opened(browser, url, path, label)
            times.append(seconds)
            page.close()
        print(f"{path}: median {sorted(times)[3]:.2f} s, of {min(times):.2f} to {max(times):.2f}", flush=True)
    print(f"a broker with the console, no page: {cost(brokers):.2f} % of a core", flush=True)
    page, _ = opened(browser, url, f"/default/topics/{TAILED}", "Queues")
    print(f"and with a topic's page open: {cost(brokers):.2f} % of a core", flush=True)
    page.close()


def measure_tails(browser: Browser, url: str, pid: int, namesrv: str, minutes: float) -> None:
    """Prints the memory of the console and of a page, with ten pages open and messages that come in."""
    for path in ("overview", "topics", f"topics/{TAILED}", "groups", "cluster"):
        browser.new_page().goto(f"{url}/default/{path}")
    tails = [browser.new_page() for _ in range(5)]
    for page in tails:
        page.goto(f"{url}/default/topics/{TAILED}?tab=tail")
        expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible(timeout=PATIENCE_MS)
    inspector = tails[0].context.new_cdp_session(tails[0])
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(asyncio.run, produce(namesrv, 60 * minutes, 50))
        began = time.monotonic()
        while not sending.done():
            time.sleep(min(30, 15 * minutes))
            print(
                f"ten pages, 5 of them live tails, {(time.monotonic() - began) / 60:.1f} min: console "
                f"{rss_mib(pid):.1f} MiB, scripts of a tail {heap_mib(inspector):.1f} MiB",
                flush=True,
            )
        sent = sending.result()
    for page in tails:
        state = page.get_by_role("status").filter(has_text="Live")
        expect(state).to_contain_text(f"Live: {sent:,} came in", timeout=PATIENCE_MS)
        print(f"{sent} messages were sent; a live tail says: {state.inner_text()}", flush=True)


def cost(pids: list[int], seconds: float = 60) -> float:
    """Share of a core that one process takes, on the average."""
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(seconds)
    return 100 * (sum(cpu_seconds(pid) for pid in pids) - sum(before)) / seconds / len(pids)


def measure(brokers: int, topics: int, minutes: float, parts: tuple[str, ...]) -> None:
    """Prints each figure when it is known."""
    with (
        LocalCluster(masters=brokers, timeout_seconds=600) as cluster,
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(1) as thread,
        sync_playwright() as playwright,
    ):
        began = time.monotonic()
        thread.submit(asyncio.run, fill(cluster.namesrv, topics)).result()
        print(f"{brokers} brokers, {topics} topics, made in {time.monotonic() - began:.0f} s", flush=True)
        pids = [cluster.pid(node.name) for node in cluster.nodes if node.name.startswith("broker-")]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        if "pages" in parts:
            print(f"a broker without console: {cost(pids):.2f} % of a core", flush=True)
        with console(cluster.namesrv, Path(folder)) as (url, pid):
            print(f"console without pages: {rss_mib(pid):.0f} MiB", flush=True)
            if "pages" in parts:
                measure_pages(browser, url, pids)
            if "tails" in parts:
                measure_tails(browser, url, pid, cluster.namesrv, minutes)
            browser.close()


PARTS = ("pages", "tails")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--topics", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=60, help="Time with ten pages open.")
    parser.add_argument("--part", action="append", choices=PARTS, help="Only this. Repeatable.")
    given = parser.parse_args()
    measure(given.brokers, given.topics, given.minutes, tuple(given.part or PARTS))
