"""The load generator: one Java process that drives whichever broker it is told to."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from benchmarks.brokers import LOADER, Running
from benchmarks.processes import anonymous_bytes, cpu_seconds, disk_bytes, stopped_at_exit, tail
from benchmarks.rows import Row, Sizes

FILLED_QUEUES = 16
"""Of the topics that consume rows read. The push consumer holds 1,000 messages of a queue, and pulls no more
for 50 ms then: with the four queues that a topic gets by its first message it stands still at 80,000 a
second, whatever the broker does."""


def filled_topic(size: int, number: int) -> str:
    """The topic that the consume rows of a round read."""
    return f"bench_filled_{size}_{number}"


class LoadError(click.ClickException):
    """The load generator ended, or could not do what it was asked."""


class Load:
    """Talks to the generator over its standard input and output."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self._runs = 0
        self._expect("ready")

    def measure(self, row: Row, number: int, broker: Running, sizes: Sizes) -> dict[str, Any]:
        """One window of `row` on `broker`: rate, CPU and disk bytes per message, memory, latency, errors."""
        seen: list[tuple[float, int, float]] = []
        pid, slave_pid = broker.broker_pid, broker.slave_pid

        def look() -> None:
            slave_cpu = 0.0 if slave_pid is None else cpu_seconds(slave_pid)
            seen.append((cpu_seconds(pid), disk_bytes(pid), slave_cpu))

        topic = filled_topic(row.size, number) if row.consumes else None
        answer = self._run(row, broker, sizes, topic, look)
        messages = answer["messages"]
        (cpu, disk, slave_cpu), (cpu_after, disk_after, slave_cpu_after) = seen
        return {
            "rate": messages / answer["seconds"],
            "cpu_us": (cpu_after - cpu) * 1e6 / messages if messages else None,
            "disk_bytes": (disk_after - disk) / messages if messages else None,
            "slave_cpu_us": (slave_cpu_after - slave_cpu) * 1e6 / messages
            if slave_pid and messages
            else None,
            "memory_bytes": anonymous_bytes(pid),
            **answer,
        }

    def warm_up(self, broker: Running, seconds: int) -> None:
        """Mixed load, so that every path of broker and client has been compiled."""
        part = max(1, seconds // 4)
        sizes = Sizes(ramp=0, seconds=part, fill=20_000)
        for row in (
            Row("warm", "sync", 128, "", 16),
            Row("warm", "async", 1024, ""),
            Row("warm", "batch", 128, "", 16, batch=32),
            Row("warm", "sync", 1024, "", 64),
        ):
            self._run(row, broker, sizes)
        row = Row("warm", "push", 1024, "")
        self.fill(broker, row.size, sizes.filled(row.size), "bench_warm")
        self._run(row, broker, sizes, "bench_warm")

    def fill(self, broker: Running, size: int, count: int, topic: str, queues: int = 0) -> None:
        """Puts messages into a topic; `queues` are made before, without it the first message makes four."""
        self._say("fill", broker, topic=topic, size=size, count=count, queues=queues)
        self._expect("idle")

    def forget(self, broker: Running) -> None:
        """Closes the connections to a broker that is about to go."""
        self._say("forget", broker)
        self._expect("idle")

    def _run(
        self,
        row: Row,
        broker: Running,
        sizes: Sizes,
        topic: str | None = None,
        on_edge: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        self._runs += 1
        if row.consumes:
            count = sizes.count_of(row)
            what: dict[str, object] = {"count": count, "skip": count // 10}
        else:
            # A new group may begin at the beginning of a topic: it gets one of its own.
            own = row.op in ("mixed", "latency")
            what = {
                "topic": f"bench_{row.op}_{self._runs}" if own else f"bench_{row.size}",
                "size": row.size,
                "threads": row.threads,
                "batch": row.batch,
                "in_flight": row.in_flight,
                "rate": row.rate,
                "ramp": sizes.ramp,
                "seconds": sizes.seconds,
            }
        if topic is not None:
            what["topic"] = topic
        self._say(
            row.op,
            broker,
            broker=broker.broker,
            group=f"benchmark_consumer_{self._runs}",
            groups=row.groups,
            **what,
        )
        self._expect("begin")
        on_edge()
        answer: dict[str, Any] = json.loads(self._expect("end"))
        on_edge()
        self._expect("idle")
        return answer

    def _say(self, op: str, to: Running, /, **args: object) -> None:
        if to.protection == "acl":
            args["user"], args["secret"] = LOADER
        elif to.protection == "tls":
            args["tls"] = 1
        words = [op, f"namesrv={to.namesrv}", *(f"{key}={value}" for key, value in args.items())]
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(words) + "\n").encode())
        self._process.stdin.flush()

    def _expect(self, word: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().strip()
        said, _, rest = line.partition(" ")
        if said != word:
            raise LoadError(f"load generator: {line or 'ended'}; end of {self._log}:\n{tail(self._log)}")
        return rest


@contextlib.contextmanager
def load_generator(java: str, classes: Path, jars: Path, folder: Path) -> Iterator[Load]:
    """Starts the generator's JVM (both compilers, G1, at most 1 GiB) and ends it afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "load.out"
    command = [
        java,
        "-Xms1g",
        "-Xmx1g",
        "-XX:+UseG1GC",
        f"-Duser.home={folder}",
        f"-Drocketmq.client.logRoot={folder}/logs",
        "-Drocketmq.client.logLevel=WARN",
        f"-Drocketmq.client.localOffsetStoreDir={folder}/offsets",
        "-cp",
        f"{classes}:{jars}/*",
        "Load",
    ]
    with log.open("wb") as err:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, start_new_session=True
        )
    with stopped_at_exit(process, "the load generator"):
        yield Load(process, log)
