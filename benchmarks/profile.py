"""Where the broker's CPU time goes, by what one read brings it: `python -m benchmarks.profile`.

A loader that speaks frames sends the same burst again and again and waits for its answers, so that a read of
the broker's brings as many requests as a burst has. The figure is the CPU time of the broker's whole process,
user and system, per message; the loader's own is in none. With `--source` given several times, several
versions are measured in turn, round by round, as they were built there. A machine that is busy with other
things makes the figures too large, and leaves their ratios.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.processes import TICKS_PER_SECOND, stopped_at_exit, tail
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.batch_cy import encode_batch
from orbitmq.protocol.declare import Request
from orbitmq.protocol.frame import encode_command
from orbitmq.protocol.requests.pull import SUBSCRIPTION_IN_REQUEST, PullMessage
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.server.listener import free_ports

TOPIC = "Profile"
QUEUES = 4
PULLED = 32
BATCH = 32
HEADER_PROPERTIES = "UNIQ_KEY\x017F0000010A2B18B4AAC2{:012X}\x02WAIT\x01true\x02"


def now_ms() -> int:
    """Wall clock."""
    return time.time_ns() // 1_000_000


def send(number: int, body: bytes, properties: str = "") -> SendMessageV2:
    """One message as a Java client sends it."""
    text = HEADER_PROPERTIES.format(number) + properties
    return SendMessageV2(
        "ProfileProducer", TOPIC, "TBW102", QUEUES, number % QUEUES, 0, now_ms(), 0, text, 0, False, body=body
    )


def batch(number: int, body: bytes) -> SendBatchMessage:
    """`BATCH` messages in one request."""
    whole = encode_batch([(0, body, HEADER_PROPERTIES.format(number).encode())] * BATCH)
    fields = ("ProfileProducer", TOPIC, "TBW102", QUEUES, number % QUEUES, 0, now_ms(), 0, "", 0, False)
    return SendBatchMessage(*fields, batch=True, body=whole)


def pull(number: int, body: bytes) -> PullMessage:
    """`PULLED` messages of a queue that is filled."""
    return PullMessage(
        consumer_group="ProfileConsumer",
        topic=TOPIC,
        queue_id=number % QUEUES,
        queue_offset=number // QUEUES * PULLED,
        max_msg_nums=PULLED,
        sys_flag=SUBSCRIPTION_IN_REQUEST,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )


@dataclass(frozen=True, slots=True)
class Mode:
    """What a burst is made of."""

    name: str
    request: Callable[[int, bytes], Request]
    burst: int
    messages: int = 1
    """Of each request."""
    connections: int = 1
    flush: str = "ASYNC_FLUSH"
    rest: bool = False
    """Nothing is sent at all; the figure is CPU time per ms."""


def ordered(number: int, body: bytes) -> SendMessageV2:
    """A message that is in order by a key."""
    return send(number, body, f"__SHARDINGKEY\x01{number}\x02")


def delayed(number: int, body: bytes) -> SendMessageV2:
    """A message of the first delay level; its delivery is in the figure, as far as the window goes."""
    return send(number, body, "DELAY\x011\x02")


MODES = (
    Mode("send, 1 in a read", send, 1),
    Mode("send, 8 in a read", send, 8),
    Mode("send, 64 in a read", send, 64),
    Mode("send, 4 connections, 256 each", send, 256, connections=4),
    Mode("ordered send, 8 in a read", ordered, 8),
    Mode("delayed message, 8 in a read", delayed, 8),
    Mode(f"batch of {BATCH}, 4 in a read", batch, 4, BATCH),
    Mode(f"pull of {PULLED}, 1 in a read", pull, 1, PULLED),
    Mode(f"pull of {PULLED}, 8 in a read", pull, 8, PULLED),
    Mode("SYNC_FLUSH, 64 in a read", send, 64, flush="SYNC_FLUSH"),
    Mode("SYNC_FLUSH, 8 connections, 8 each", send, 8, connections=8, flush="SYNC_FLUSH"),
    Mode("at rest, per ms", send, 1, rest=True),
)


class Connection:
    """Sends its burst and reads the answers."""

    def __init__(self, port: int, burst: bytes, count: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._burst = burst
        self._count = count
        self._received = bytearray()

    def send(self) -> None:
        """The whole burst at once."""
        self.socket.sendall(self._burst)

    def read_answers(self) -> None:
        """Waits for all answers; raises for one that is an error."""
        received, left, position = self._received, self._count, 0
        while left:
            received += self.socket.recv(1 << 20)
            while len(received) - position >= 4:
                end = position + 4 + int.from_bytes(received[position : position + 4], "big")
                if end > len(received):
                    break
                if received.find(b'"code":0,', position, min(end, position + 600)) < 0:
                    raise click.ClickException(f"refused: {bytes(received[position : position + 600])!r}")
                position = end
                left -= 1
        received.clear()


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one message, in µs; and how many there were in a second."""

    user: float
    system: float
    rate: float

    @property
    def total(self) -> float:
        """What the broker's process needs of a processor."""
        return self.user + self.system


def measure(mode: Mode, pid: int, port: int, body: bytes, seconds: float) -> Cost:
    """A window of one mode, after a short warm-up."""
    frames = [encode_command(mode.request(n, body).to_command(n)) for n in range(mode.burst)]
    connections = [Connection(port, b"".join(frames), mode.burst) for _ in range(mode.connections)]

    def run(until: float) -> int:
        bursts = 0
        while time.monotonic() < until:
            for connection in connections:
                connection.send()
            for connection in connections:
                connection.read_answers()
            bursts += len(connections)
        return bursts

    try:
        if mode.rest:
            time.sleep(1)
        else:
            run(time.monotonic() + min(0.5, seconds / 4))
        user, system = _ticks(pid)
        began = time.monotonic()
        if mode.rest:
            time.sleep(seconds)
            messages = int(seconds * 1000)
        else:
            messages = run(began + seconds) * mode.burst * mode.messages
        took = time.monotonic() - began
        user_after, system_after = _ticks(pid)
    finally:
        for connection in connections:
            connection.socket.close()
    each = 1e6 / TICKS_PER_SECOND / messages
    return Cost((user_after - user) * each, (system_after - system) * each, messages / took)


def _ticks(pid: int) -> tuple[int, int]:
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[11]), int(fields[12])


@contextlib.contextmanager
def running(source: Path, flush: str, folder: Path) -> Iterator[tuple[int, int]]:
    """A broker of that source: its process and port."""
    folder.mkdir(parents=True)
    namesrv, port = free_ports(), free_ports(-2, 1)
    ready, log = folder / "ready", folder / "log"
    command = [
        *(sys.executable, "-m", "orbitmq", "standalone", "--data-dir", str(folder / "store")),
        *("--namesrv-port", str(namesrv), "--broker-port", str(port), "--ready-file", str(ready)),
        *("--set", f"flushDiskType={flush}", "--set", "diskMaxUsedSpaceRatio=95"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    with stopped_at_exit(process, "the broker"):
        deadline = time.monotonic() + 120
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise click.ClickException(f"the broker did not start:\n{tail(log)}")
            time.sleep(0.02)
        yield process.pid, port


def fill(port: int, body: bytes) -> None:
    """Makes the topic, and enough in it for the pulls."""
    with BlockingConnection(f"127.0.0.1:{port}") as connection:
        for number in range(QUEUES):
            connection.call(send(number, body), 60_000)
        for number in range(64):
            connection.call(batch(number, body), 60_000)


@click.command()
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with the package `orbitmq`, compiled or not; this one without it.",
)
@click.option("--mode", "wanted", multiple=True, help="Modes whose names hold this; all without it.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--seconds", type=float, default=2.0, show_default=True, help="Length of a window.")
@click.option("--size", type=click.IntRange(0), default=128, show_default=True, help="Bytes of a body.")
def main(sources: tuple[Path, ...], wanted: tuple[str, ...], rounds: int, seconds: float, size: int) -> None:
    """CPU time of the broker per message, by mode: the least of some rounds."""
    places = sources or (Path(__file__).parent.parent / "src",)
    modes = [mode for mode in MODES if not wanted or any(part in mode.name for part in wanted)]
    body = b"x" * size
    costs: dict[tuple[str, Path], list[Cost]] = {}
    for number in range(rounds):
        for flush in dict.fromkeys(mode.flush for mode in modes):
            for source in places if number % 2 == 0 else places[::-1]:
                with (
                    tempfile.TemporaryDirectory() as folder,
                    running(source, flush, Path(folder) / "broker") as (pid, port),
                ):
                    fill(port, body)
                    for mode in modes:
                        if mode.flush == flush:
                            cost = measure(mode, pid, port, body, seconds)
                            costs.setdefault((mode.name, source), []).append(cost)
    click.echo(f"µs of the broker's CPU per message of {size} B (of it the kernel's), messages a second:")
    for mode in modes:
        least = [min(costs[mode.name, source], key=lambda cost: cost.total) for source in places]
        told = " | ".join(f"{cost.total:7.2f} ({cost.system:6.2f}) {cost.rate:9,.0f}/s" for cost in least)
        ratio = f" | {least[-1].total / least[0].total:.2f} x" if len(least) > 1 and least[0].total else ""
        click.echo(f"{mode.name:34} {told}{ratio}")


if __name__ == "__main__":
    main()
