"""Kafka, one broker with KRaft, as its own scripts start it."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import stopped_at_exit, wait_for_port
from orbitmq.server.turn.listener import free_ports

JVM = [
    "-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
]  # fmt: skip
"""bin/kafka-run-class.sh and bin/kafka-server-start.sh: heap 1 GiB is their default too."""
CLUSTER_ID = "T3JiaXRNUS1iZW5jaA"


@dataclass(frozen=True, slots=True)
class Kafka:
    """A broker that answers."""

    address: str
    pid: int


@contextlib.contextmanager
def kafka(java: str, jars: Path, folder: Path) -> Iterator[Kafka]:
    """Formats a folder, starts a broker over it, and stops it at the end."""
    port = free_ports()
    controller = free_ports()
    folder.mkdir(parents=True)
    settings = folder / "server.properties"
    settings.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
        "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"log.dirs={folder}/logs\noffsets.topic.replication.factor=1\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
    )
    run = [java, *JVM, f"-Dkafka.logs.dir={folder}", "-cp", f"{jars}/*"]
    log = folder / "kafka.out"
    with log.open("wb") as out:
        subprocess.run(
            [*run, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings)],
            stdout=out,
            stderr=subprocess.STDOUT,
            check=True,
        )
        process = subprocess.Popen(
            [*run, "kafka.Kafka", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with stopped_at_exit(process, "Kafka"):
        wait_for_port(port, process, log)
        yield Kafka(f"127.0.0.1:{port}", process.pid)


def fill(java: str, jars: Path, classes: Path, to: Kafka, topic: str, size: int, count: int) -> None:
    """Makes a topic with `count` records of `size` bytes. Waits for a broker that has only just come up."""
    for tries in range(30):
        done = subprocess.run(
            [java, "-cp", f"{classes}:{jars}/*", "Fill", to.address, topic, str(size), str(count)],
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            return
        if "TopicExistsException" in done.stderr or tries == 29:
            raise RuntimeError(f"Kafka could not be filled:\n{done.stderr[-2000:]}")
        time.sleep(1)
