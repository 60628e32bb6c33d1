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

from playwright.sync_api import Browser, Page, expect, sync_playwright

from orbitmq import Admin, Message, Producer
from orbitmq.admin.commands.topic_create import create_topic
from orbitmq.protocol.bodies.topic import TopicConfig
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
    words = ["console", "--namesrv", namesrv, "--port", "18080", "--data-dir", str(folder)]
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


def measure(brokers: int, topics: int, minutes: float) -> None:
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

        def cost(seconds: float) -> float:
            """Share of a core that one broker takes, on the average."""
            before = [cpu_seconds(pid) for pid in pids]
            time.sleep(seconds)
            used = sum(cpu_seconds(pid) for pid in pids) - sum(before)
            return 100 * used / seconds / len(pids)

        print(f"a broker without console: {cost(60):.2f} % of a core", flush=True)
        with console(cluster.namesrv, Path(folder)) as (url, pid):
            print(f"console without pages: {rss_mib(pid):.0f} MiB", flush=True)
            page, _ = opened(browser, url, "/default/overview", "Brokers")
            page.close()  # the first look at the cluster was taken meanwhile
            for path, label in (("/", "Brokers"), ("/default/topics", "Topics")):
                times = []
                for _ in range(7):
                    page, seconds = opened(browser, url, path, label)
                    times.append(seconds)
                    page.close()
                print(
                    f"{path}: median {sorted(times)[3]:.2f} s, of {min(times):.2f} to {max(times):.2f}",
                    flush=True,
                )
            print(f"a broker with the console, no page: {cost(60):.2f} % of a core", flush=True)
            page, _ = opened(browser, url, f"/default/topics/{TAILED}", "Queues")
            print(f"and with a topic's page open: {cost(60):.2f} % of a core", flush=True)
            page.close()
            sending = thread.submit(asyncio.run, produce(cluster.namesrv, 60 * minutes, 50))
            for path in ("overview", "topics", f"topics/{TAILED}", "groups", "cluster"):
                browser.new_page().goto(f"{url}/default/{path}")
            for _ in range(5):
                browser.new_page().goto(f"{url}/default/topics/{TAILED}?tab=tail")
            for number in range(int(minutes * 2)):
                time.sleep(30)
                print(
                    f"ten pages, 5 of them live tails, {number / 2 + 0.5} min: {rss_mib(pid):.1f} MiB",
                    flush=True,
                )
            shown = browser.contexts[-1].pages[0].locator(".message").count()
            print(f"{sending.result()} messages came in; a live tail shows the last {shown}", flush=True)
            browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--topics", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=60, help="Time with ten pages open.")
    given = parser.parse_args()
    measure(given.brokers, given.topics, given.minutes)
