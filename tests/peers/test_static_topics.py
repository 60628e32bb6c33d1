"""Static topics, made and moved by Apache's mqadmin, under Apache's Java client: brokers of both kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from orbitmq.testing import LocalCluster
from tests.needs import need
from tests.peers.apache import Apache
from tests.peers.mqadmin_shell import Shell
from tests.peers.orbitmq_process import OrbitMQ

pytestmark = pytest.mark.timeout(600)

LOGICAL = "__syslo__global__"
BLOCK = 10_000
EACH = 3
"""Messages that are sent one by one to each queue at a time; as many follow in a batch."""
QUEUES = 2


class Group:
    """Brokers `broker-a` and `broker-b`, a consumer of Java's client, and a topic with its story."""

    def __init__(self, java: Shell, topic: str, kinds: tuple[str, ...]) -> None:
        self.java, self.topic, self.consumer, self.kinds = java, topic, f"g-{topic}", kinds
        self.apache_leads = False
        self.blocks = 0
        self.sent = 0

    def move(self, broker: str) -> None:
        self.java.done(f"remappingStaticTopic -b {broker} -t {self.topic}")
        self.apache_leads = self.kinds["ab".index(broker[-1])] == "apache"
        self.blocks += 1

    def listen(self) -> None:
        self.java.done(f"@listen concurrently {self.consumer} {self.topic} 16")

    def fill(self) -> None:
        """Sends to all queues: their offsets continue where the last block of ten thousand began."""
        rows = self.java.done(f"@fill p-{self.topic} {self.topic} {EACH}").splitlines()
        self.sent += 2 * EACH * QUEUES
        assert len(rows) == QUEUES
        for number, row in enumerate(rows):
            broker, queue_id, low, end, first, last, earliest = row.split()
            assert (broker, int(queue_id)) == (LOGICAL, number)
            assert int(low) == int(first) == 0
            assert int(end) == self.blocks * BLOCK + 2 * EACH
            # Apache's broker gives the end of an earlier stretch where it holds one itself.
            assert int(last) == int(end) or self.apache_leads
            assert int(earliest) > 0

    def heard(self, count: int) -> dict[int, list[int]]:
        """The offsets that the consumer has heard by queue. It handles messages of a queue side by side: the
        client of 5.4.0 loses its locks of logical queues, so that an ordered one comes to a halt.
        """
        self.java.done(f"@refresh {self.consumer} {self.topic}")
        found = defaultdict(list)
        for line in self.java.done(f"@heard {self.consumer} {count} 90000").splitlines():
            broker, queue_id, offset = line.split()[-3:]
            assert broker == LOGICAL
            found[int(queue_id)].append(int(offset))
        return {queue_id: sorted(offsets) for queue_id, offsets in found.items()}


def expected(*blocks: int) -> dict[int, list[int]]:
    offsets = [block * BLOCK + n for block in blocks for n in range(2 * EACH)]
    return dict.fromkeys(range(QUEUES), offsets)


@pytest.fixture(scope="module")
def kinds(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return tuple(request.param)


@pytest.fixture(scope="module")
def java(kinds: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The clients and mqadmin of a cluster with a name server of OrbitMQ's."""
    need("java", "mvn")
    folder = tmp_path_factory.mktemp("static")
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(folder / "cluster", masters=kinds.count("orbitmq")))
        for number, kind in enumerate(kinds):
            if kind == "apache":
                name = f"broker-{'ab'[number]}"
                apache = Apache.start(folder / name, {"brokerName": name}, cluster.namesrv)
                stack.callback(apache.kill)
        shell = Shell(cluster.namesrv, folder / "java")
        stack.callback(shell.close)
        yield shell


BOTH = [
    ("orbitmq", "orbitmq"),
    pytest.param(("orbitmq", "apache"), marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("kinds", BOTH, indirect=True, ids="-".join)
def test_queues_move_while_a_consumer_reads_them(kinds: tuple[str, ...], java: Shell) -> None:
    group = Group(java, "moving", kinds)
    java.done(f"updateStaticTopic -b broker-a -t {group.topic} -qn {QUEUES}")
    group.listen()
    group.fill()
    assert group.heard(group.sent) == expected(0)
    group.move("broker-b")
    group.fill()
    assert group.heard(group.sent) == expected(0, 1)
    group.move("broker-a")
    group.fill()
    assert group.heard(group.sent) == expected(0, 1, 2)
    java.done(f"@leave {group.consumer}")


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", BOTH, indirect=True, ids="-".join)
def test_a_consumer_comes_back_after_queues_have_moved_twice(kinds: tuple[str, ...], java: Shell) -> None:
    group = Group(java, "twice", kinds)
    java.done(f"updateStaticTopic -b broker-b -t {group.topic} -qn {QUEUES}")
    group.listen()
    group.fill()
    assert group.heard(group.sent) == expected(0)
    java.done(f"@leave {group.consumer}")
    for broker in ("broker-a", "broker-b"):
        group.move(broker)
        group.fill()
    stats = java.done(f"topicStatus -t {group.topic}")
    logical = [line.split() for line in stats.splitlines() if line.startswith("__syslo")]
    assert [row[2:4] for row in logical] == [["0", str(2 * BLOCK + 2 * EACH)]] * QUEUES
    group.listen()
    assert group.heard(group.sent - 2 * EACH * QUEUES) == expected(1, 2), "it went on where it had been"
    java.done(f"@leave {group.consumer}")


@pytest.mark.nightly
def test_a_store_with_a_static_topic_changes_hands(tmp_path: Path) -> None:
    need("java", "mvn")
    for number, kind in enumerate((OrbitMQ, Apache, OrbitMQ)):
        server = kind.start(tmp_path / "store")
        java = Shell(server.namesrv, tmp_path / f"java-{number}")
        try:
            if number == 0:
                java.done(f"updateStaticTopic -c DefaultCluster -t kept -qn {QUEUES}")
            rows = [row.split()[:4] for row in java.done(f"@fill p kept {EACH}").splitlines()]
            end = str(2 * EACH * (number + 1))
            assert rows == [[LOGICAL, str(queue_id), "0", end] for queue_id in range(QUEUES)]
        finally:
            java.close()
            server.stop()
