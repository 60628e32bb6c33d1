"""The README's examples, run one after the other as it shows them, against both brokers."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest

from orbitmq.testing import LocalBroker
from tests.needs import need
from tests.peers.machine import Process

EXAMPLES = Path(__file__).parents[2] / "examples"


class Cluster(Protocol):
    namesrv: str


def command(name: str) -> list[str]:
    return [sys.executable, "-u", str(EXAMPLES / f"{name}.py")]


def run(name: str, cluster: Cluster) -> str:
    environment = {**os.environ, "NAMESRV_ADDR": cluster.namesrv}
    done = subprocess.run(command(name), capture_output=True, text=True, env=environment, timeout=550)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_produce_then_consume(cluster: Cluster, tmp_path: Path) -> None:
    sent = run("produce", cluster).splitlines()
    assert [line.split(" is ")[0] for line in sent] == [f"order {number}" for number in range(10)]
    wanted = {f"order-{number} order {number}" for number in range(10)}
    # A run in the background ignores Ctrl-C, and so would all that it starts.
    heeding = ["env", "--default-signal=INT", *command("consume")]
    consumer = Process(heeding, tmp_path / "consumed", {"NAMESRV_ADDR": cluster.namesrv})
    try:
        consumer.wait_until(
            "all orders came", lambda: wanted <= set(consumer.log.read_text().splitlines()), 300
        )
    finally:
        consumer.end(signal.SIGINT)


def test_orders_in_order_with_one_that_fails(orbitmq_server: Cluster, tmp_path: Path) -> None:
    environment = {**os.environ, "NAMESRV_ADDR": orbitmq_server.namesrv}
    subprocess.run([*command("order_service"), "publish"], env=environment, check=True, timeout=300)
    heeding = ["env", "--default-signal=INT", *command("order_service")]
    service = Process(heeding, tmp_path / "orders", {"NAMESRV_ADDR": orbitmq_server.namesrv})
    try:
        service.wait_until("all is shipped", lambda: service.log.read_text().count("shipped") == 3, 300)
    finally:
        service.end(signal.SIGINT)
    lines = [line for line in service.log.read_text().splitlines() if line.startswith("order ")]
    for order in "ABC":
        mine = [line.split()[-1] for line in lines if line.startswith(f"order {order} ")]
        assert mine == ["created", "paid", "shipped"]
    assert lines[-2:] == ["order B is paid", "order B is shipped"]  # the others did not wait for it


def test_choose_by_properties(cluster: Cluster) -> None:
    assert run("choose", cluster) == "piano rose\n"


def test_ask_and_answer(cluster: Cluster) -> None:
    assert run("request_reply", cluster) == "a teapot costs 12.50\n"


def test_sessions_of_agents_in_lite_topics() -> None:
    with LocalBroker(own_process=True, enableLmq="true", enableMultiDispatch="true") as broker:
        lines = run("agents", broker).splitlines()
    assert [line for line in lines if line.startswith("session-anna")] == [
        "session-anna: hello",
        "session-anna: a table for two",
        "session-anna: at eight",
    ]
    assert [line for line in lines if line.startswith("session-bert")] == [
        "session-bert: hi",
        "session-bert: the bill",
    ]


def test_a_payment_and_its_message(cluster: Cluster, tmp_path: Path) -> None:
    environment = {**os.environ, "NAMESRV_ADDR": cluster.namesrv}
    done = subprocess.run(
        command("transaction"), capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300
    )
    assert done.stdout == "order 17: COMMIT, published\n", done.stderr
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        assert database.execute("SELECT count(*) FROM payment").fetchone() == (1,)


def test_a_test_of_the_reader_s(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "test_orders.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.nightly  # a Spark of its own; the data guide and the demo read topics with every change
@pytest.mark.timeout(600)
def test_read_with_spark(orbitmq_server: Cluster) -> None:
    need("spark")
    run("produce", orbitmq_server)
    rows = re.findall(r"\| *(order-\d)\| *(order \d)\|", run("read_topic", orbitmq_server))
    assert dict(rows) == {f"order-{n}": f"order {n}" for n in range(10)}
