"""rocketmq-client-nodejs 1.0.8 through our proxy to OrbitMQ: one test per case."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from tests.needs import need
from tests.peers.conftest import CASES_WANT
from tests.peers.machine import cache
from tests.peers.orbitmq_process import OrbitMQ
from tests.peers.proxy_process import BehindProxy

FOLDER = Path(__file__).parent / "judge" / "node"
CASES = re.findall(r"async (node_\w+)\(", (FOLDER / "cases.js").read_text())
RUN = "Node"
TOPICS = {
    "Normal": "NORMAL",
    "Pushed": "NORMAL",
    "Retried": "NORMAL",
    "Fifo": "FIFO",
    "Delayed": "DELAY",
    "Half": "TRANSACTION",
}
pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]


def installed() -> Path:
    """The cases with the client, installed once."""
    lock_file = (FOLDER / "package-lock.json").read_bytes()
    folder = cache() / f"node-{hashlib.sha256(lock_file).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in FOLDER.iterdir():
            shutil.copy(file, folder)
        if not (folder / "done").exists():
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=folder, check=True)
            (folder / "done").touch()
    return folder


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the client's program says of each case."""
    need("node", "npm")
    folder = installed()
    broker = OrbitMQ.start(tmp_path_factory.mktemp("node") / "store", CASES_WANT)
    with BlockingConnection(broker.broker) as connection:
        for name, kind in TOPICS.items():
            topic = RUN + name
            connection.call(
                UpdateAndCreateTopic(
                    topic, AUTO_CREATE_TOPIC, 1, 1, 6, "SINGLE_TAG", False, attributes=f"+message.type={kind}"
                )
            )
            group = SubscriptionGroupConfig(topic, consume_message_orderly=kind == "FIFO")
            connection.call(UpdateAndCreateSubscriptiongroup(group))
    proxied = BehindProxy.start(broker)
    try:
        run = subprocess.run(
            ["node", "cases.js", proxied.proxy, RUN], cwd=folder, capture_output=True, text=True, timeout=300
        )
        found = re.findall(r"^(PASS|FAIL) (\w+)(.*)$", run.stdout, re.MULTILINE)
        yield {case: f"{word}{why}" for word, case, why in found}
    finally:
        proxied.stop()


@pytest.mark.parametrize("case", CASES)
def test_node_client(case: str, verdicts: dict[str, str]) -> None:
    assert verdicts.get(case) == "PASS"
