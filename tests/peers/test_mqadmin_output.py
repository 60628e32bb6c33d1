"""The output of `mqadmin` 5.4.0 against OrbitMQ is the same as against Apache, command by command.

Both servers are given the same topics, groups, messages and clients; times, ids, addresses and paths are
taken out of the outputs, and where an output is about load, its figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.needs import need
from tests.peers.apache import Apache
from tests.peers.mqadmin_rows import LEFT_OUT, ROWS
from tests.peers.mqadmin_shell import Printed, Shell, plain
from tests.peers.orbitmq_process import OrbitMQ

# With every change, `test_mqadmin` has one verdict for each subject.
pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

TOPIC, GROUP, GONE, PRODUCER = "cmp_topic", "cmp_group", "cmp_gone", "cmp_producer"
TOPICS = [
    {"topicName": f"cmp_list_{n}", "readQueueNums": n, "writeQueueNums": n, "perm": 6, "order": False}
    for n in (1, 2)
]
GROUPS = [{"groupName": "cmp_list_group", "retryMaxTimes": 7, "consumeBroadcastEnable": False}]
SAMPLED_WITHIN_S = 30
"""When both have sampled for certain, and what left a window in one of them has left it in the other."""


@dataclass
class Side:
    """One server with the data that both have, and what its own names are."""

    server: OrbitMQ | Apache
    shell: Shell
    names: Mapping[str, str]

    def run(self, line: str, own: str) -> Printed:
        """Runs a line of a row."""
        return self.shell.run(line.format(**self.names, own=own))


def fill(server: OrbitMQ | Apache, home: Path, stack: ExitStack) -> Side:
    """Makes the data: a topic of ten messages, a group that has read them, one that has and left."""
    shell = Shell(server.namesrv, home)
    stack.callback(shell.close)
    (home / "topics.json").write_text(json.dumps(TOPICS))
    (home / "groups.json").write_text(json.dumps(GROUPS))
    shell.done(f"updateTopic -c DefaultCluster -t {TOPIC} -r 2 -w 2")
    shell.done("updateTopic -c DefaultCluster -t cmp_rt -r 1 -w 1")
    for group in (GROUP, GONE):
        shell.done(f"updateSubGroup -c DefaultCluster -g {group}")
    sent = shell.done(f"@send {PRODUCER} {TOPIC} 10").splitlines()
    unique_id, offset_id = sent[0].split(" ")
    shell.done(f"@consume {GONE} {TOPIC} * 10")
    shell.done(f"@leave {GONE}")
    shell.done(f"@consume {GROUP} {TOPIC} * 10")
    connections = shell.done(f"consumerConnection -g {GROUP}")
    client = re.search(r"[\d.]+@\d+#\d+", connections)
    assert client, connections
    traced = shell.done("sendMessage -t cmp_rt -p traced -m true")
    traced_id = re.search(r"[0-9A-F]{32,}", traced)
    assert traced_id, traced
    names = {
        "topic": TOPIC,
        "rt_topic": "cmp_rt",
        "group": GROUP,
        "gone": GONE,
        "producer": PRODUCER,
        "broker": server.broker,
        "id": unique_id,
        "offset_id": offset_id,
        "far_offset_id": offset_id[:-8] + "0FFFFFFF",
        "traced_id": traced_id[0],
        "client": client[0],
        "files": str(home),
        "out": str(home / "out"),
    }
    return Side(server, shell, names)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """OrbitMQ and Apache, each fresh, with the same data."""
    need("java", "mvn")
    settings = {"traceTopicEnable": "true"}
    with ExitStack() as stack:
        made = []
        for kind in (OrbitMQ, Apache):
            home = tmp_path_factory.mktemp(kind.name)
            server = kind.start(home / "store", settings)
            stack.callback(server.kill)
            made.append((server, home / "shell", stack))
        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.map(lambda args: fill(*args), made)
        yield ours, theirs


@pytest.mark.parametrize("command", ROWS)
def test_prints_what_it_prints_against_apache(command: str, sides: tuple[Side, Side]) -> None:
    for line in ROWS[command].lines:
        ours, theirs = seen_of_both(line, command, sides)
        but = ROWS[command].but
        if but:
            wanted = set(theirs.splitlines()) - but
            assert wanted <= set(ours.splitlines()), f"mqadmin {line}"
        elif ours != theirs:
            lines = unified_diff(
                theirs.splitlines(), ours.splitlines(), "Apache", "OrbitMQ", lineterm="", n=1
            )
            pytest.fail("\n".join([f"mqadmin {line}", *lines]), pytrace=False)


def seen_of_both(line: str, command: str, sides: tuple[Side, Side]) -> tuple[str, str]:
    """Outputs of a line with OrbitMQ and with Apache; what is sampled, once both have sampled it."""
    give_up = monotonic() + (SAMPLED_WITHIN_S if ROWS[command].sampled else 0)
    with ThreadPoolExecutor(2) as pool:
        while True:
            ours, theirs = pool.map(partial(seen, line, command), sides)
            if ours == theirs or monotonic() > give_up:
                return ours, theirs
            sleep(1)


def seen(line: str, command: str, side: Side) -> str:
    """Output of a line, in the form to compare, with the failures it tells."""
    printed = side.run(line, f"cmp_{command}")
    return "\n".join([ROWS[command].normal(printed.out), *map(plain, printed.thrown())])


def test_every_command_is_compared_or_has_a_reason(sides: tuple[Side, Side]) -> None:
    commands = set(sides[0].shell.done("@commands").split())
    assert commands == ROWS.keys() | LEFT_OUT.keys()
    assert not ROWS.keys() & LEFT_OUT.keys()
