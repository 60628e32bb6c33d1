"""The guide from DLedger: a group of OrbitMQ takes over from one of Apache's, while the clients run."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from orbitmq import FIRST_OFFSET, Message, ReceivedMessage
from orbitmq.sync import Admin, Producer, PushConsumer
from tests.docs.console import Shell, Step, steps
from tests.peers.apache import Apache
from tests.peers.machine import LOOPBACK, free_port, registered

GUIDE = (Path(__file__).parents[2] / "docs" / "operate" / "leaving-dledger.md").read_text()
MESSAGES = 40
LOOK_MS = 500


def wait_for(is_so: Callable[[], bool]) -> None:
    """Returns once something holds; the test's own time limit ends it else."""
    while not is_so():
        time.sleep(0.05)


@pytest.mark.nightly
@pytest.mark.needs("java", "mvn")
@pytest.mark.timeout(600)
def test_the_commands_run_and_every_message_is_consumed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        shell = Shell(tmp_path)
        stack.callback(shell.close)
        (options,) = re.findall(r"^```properties\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL)
        (tmp_path / "broker.conf").write_text(options)
        shell.run(Step("orbitmq namesrv --data-dir names &"))
        namesrv = f"{LOOPBACK}:{shell.namesrv_port}"
        raft = {
            "brokerName": "raft-a",
            "enableDLegerCommitLog": "true",
            "dLegerGroup": "raft-a",
            "dLegerPeers": f"n0-{LOOPBACK}:{free_port()}",
            "dLegerSelfId": "n0",
        }
        old = Apache.start(tmp_path / "old", raft, namesrv)
        stack.callback(old.kill)
        with Admin(namesrv) as admin:
            admin.create_topic("orders", queues=4)
        sent: set[bytes] = set()
        seen: set[bytes] = set()
        came = threading.Condition()

        def consume(message: ReceivedMessage) -> None:
            with came:
                seen.add(message.body)
                came.notify()

        consumer = PushConsumer(
            "billing", namesrv, consume_from_where=FIRST_OFFSET, poll_name_server_interval_ms=LOOK_MS
        )
        consumer.subscribe("orders", "*", consume)
        stack.enter_context(consumer)
        producer = stack.enter_context(Producer("p", namesrv, poll_name_server_interval_ms=LOOK_MS))

        def send() -> str:
            """The broker that took a message."""
            body = b"%d" % len(sent)
            sent.add(body)
            return producer.send(Message("orders", body)).queue.broker_name

        assert {send() for _ in range(MESSAGES)} == {"raft-a"}
        for step in steps(GUIDE):
            shell.run(step)
            if "ping" in step.command:  # it serves, and may not be in the routes yet
                wait_for(lambda: registered(namesrv, f"{LOOPBACK}:{shell.broker_port}"))
        while send() == "raft-a":
            pass
        with came:
            assert came.wait_for(lambda: seen >= sent, 60), "all of the old group is consumed"
        old.stop()
        assert {send() for _ in range(MESSAGES)} == {"broker-a"}
        with came:
            assert came.wait_for(lambda: seen >= sent, 60)
