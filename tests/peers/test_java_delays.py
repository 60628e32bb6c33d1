"""Java's clients as producers and consumers of the delay service: that of DDMQ's proxies, and today's."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from orbitmq.testing import LocalBroker
from tests.kit.class_archives import QUICK_START
from tests.kit.running_delay import RunningDelay
from tests.needs import java
from tests.peers.apache import OPENS
from tests.peers.machine import jars
from tests.peers.test_stopping import client_jars

HERE = Path(__file__).parent
OLD = (HERE / "judge" / "client-4.2" / "pom.xml", "client-4.2.0")
UUID = "c1a2b3d4-0000-11f0-8000-0123456789ab"
LIMIT_SECONDS = 240
AWAITED = 12
"""Messages that come: two to `plain`, eight to `ordered`, two to `due`."""


@pytest.fixture
def broker():
    with LocalBroker(autoCreateTopicEnable="false") as broker:
        for topic in ("plain", "ordered", "due", "inner"):
            broker.create_topic(topic, queues=2)
        yield broker


def lines_of(command: list[str], number: int) -> list[str]:
    """Lines of a program until there are `number`; then its input is closed, and it ends.

    Each message counts once, however often it is delivered.
    """
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        ender = threading.Timer(LIMIT_SECONDS, program.kill)
        ender.start()
        assert program.stdout is not None
        found: dict[str, str] = {}
        for line in program.stdout:
            if line.startswith(("sent ", "got ")):
                word, topic, *rest = line.rstrip("\n").split(" ", 3)
                found.setdefault(f"{topic} {rest[1]}" if rest else word, line.rstrip("\n"))
            if len(found) == number:
                break
        _, errors = program.communicate()
        ender.cancel()
    assert program.returncode == 0, errors[-3000:]
    return list(found.values())


@pytest.mark.needs("java", "mvn")
@pytest.mark.parametrize(
    "lib",
    [
        pytest.param(lambda: jars(*OLD), id="4.2.0"),
        pytest.param(client_jars, id="5", marks=pytest.mark.nightly),
    ],
)
def test_a_client_of_java_sends_consumes_and_delays(lib, broker, tmp_path):
    options = {"delaySources": "main/inner", "delayFormat": "ddmq"}
    with RunningDelay(tmp_path / "delay", f"main=rocketmq://{broker.namesrv}", **options) as delay:
        command = [
            *(java(), *OPENS, *QUICK_START, f"-Duser.home={tmp_path}", "-cp", f"{lib()}/*"),
            *(str(HERE / "java" / "Delays.java"), broker.namesrv, UUID),
        ]
        found = lines_of(command, AWAITED + 1)
        deadline = time.monotonic() + LIMIT_SECONDS
        while (stats := delay.client.stats())["orders"].get("cancelled") != 1 or stats["pending"]:
            assert time.monotonic() < deadline, stats
            time.sleep(0.05)
    (second,) = [int(line.split()[1]) for line in found if line.startswith("sent ")]
    came = [line.split(" ", 3)[1:] for line in found if line.startswith("got ")]
    assert [rest.split("|")[0] for topic, _, rest in came if topic == "ordered"] == [
        f"o{n}" for n in range(8)
    ]
    plain = {rest for topic, _, rest in came if topic == "plain"}
    assert plain == {"plain|key-1|tag|null|null", "level|null|null|null|null"}
    id = f"{second}-2-{second + 172_800}-0-0-0-0-{UUID}"
    due = sorted(rest for topic, _, rest in came if topic == "due")
    assert due == [f"ddmq|{id}|b|from_chronos|{UUID}", "named|key-2|a|null|java-1"]
    assert all(int(stored) >= second * 1000 for topic, stored, _ in came if topic == "due")
