"""The broker's CPU time per message, for each kind of burst: `python -m benchmarks.profile`.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import click

from benchmarks.processes import TICKS_PER_SECOND, stopped_at_exit, tail
from benchmarks.scale.probe import pull_request
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.message import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from orbitmq.protocol.remoting.command import FLAG_ONEWAY
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.requests.pop import AckMessage, PopMessage, PopReply
from orbitmq.protocol.requests.pull import PullMessage, PullReply
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2, SendReply
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.protocol.schema.declare import Request
from orbitmq.server.turn.listener import free_ports

TOPIC = "Profile"
QUEUES = 4
PULLED = 32
POPPED = 32
BATCH = 32
BROKER = "profiled"
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
    own = HEADER_PROPERTIES.format(number)
    fields = ("ProfileProducer", TOPIC, "TBW102", QUEUES, number % QUEUES, 0, now_ms(), 0, own, 0, False)
    return SendBatchMessage(*fields, batch=True, body=whole)


def pull(number: int, body: bytes) -> PullMessage:
    """`PULLED` messages of a queue that is filled."""
    return pull_request(TOPIC, number % QUEUES, number // QUEUES * PULLED, count=PULLED)


class Burst(NamedTuple):
    """Requests that are sent at once."""

    frames: bytes
    answers: int
    """Number of its requests that are answered."""
    messages: int
    """Number of messages that are done with it."""


class Script(Protocol):
    """Bytes that one connection sends, burst by burst; an answer is a whole frame."""

    def next(self, answers: Sequence[bytes]) -> Burst: ...


@dataclass(frozen=True, slots=True)
class Mode:
    """Parts of a burst."""

    name: str
    request: Callable[[int, bytes], Request[Any]]
    burst: int
    messages: int = 1
    """Of each request."""
    script: Callable[[Mode, bytes], Script] | None = None
    """Function for the bytes to send, where they depend on the answers; else the same burst again and
    again."""
    filled: int = 0
    """Number of messages that the topic has to hold before."""
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


def half(number: int, body: bytes) -> SendMessageV2:
    """A half message."""
    request = send(number, body, "TRAN_MSG\x01true\x02PGROUP\x01ProfileProducer\x02")
    request.sys_flag = TRANSACTION_PREPARED
    return request


class Same:
    """Always the same burst."""

    def __init__(self, mode: Mode, body: bytes) -> None:
        frames = b"".join(encode_command(mode.request(n, body).to_command(n)) for n in range(mode.burst))
        self._burst = Burst(frames, mode.burst, mode.burst * mode.messages)

    def next(self, answers: Sequence[bytes]) -> Burst:
        """The burst."""
        return self._burst


class Transactions:
    """As many threads as a burst has half messages: each commits one, and sends the next."""

    def __init__(self, mode: Mode, body: bytes) -> None:
        self._halves = [encode_command(mode.request(n, body).to_command(n)) for n in range(mode.burst)]

    def next(self, answers: Sequence[bytes]) -> Burst:
        """The decisions about what was answered, each before the half message that its thread sends next."""
        decisions = [_decision(answer) for answer in answers]
        frames = (
            [frame for pair in zip(decisions, self._halves, strict=True) for frame in pair]
            if decisions
            else self._halves
        )
        return Burst(b"".join(frames), len(self._halves), len(self._halves))


def _decision(answer: bytes) -> bytes:
    ((command,), _) = decode_frames(answer, MAX_FRAME_BYTES)
    stored = SendReply.from_command(command)
    request = EndTransaction(
        producer_group="ProfileProducer",
        tran_state_table_offset=stored.queue_offset,
        commit_log_offset=int(stored.msg_id[-16:], 16),
        commit_or_rollback=TRANSACTION_COMMIT,
        msg_id=stored.transaction_id or "",
        topic=TOPIC,
        from_transaction_check=False,
        transaction_id=stored.transaction_id,
    )
    ended = request.to_command(command.opaque)
    ended.flag |= FLAG_ONEWAY
    return encode_command(ended)


class Pops:
    """Pops of a queue, and then an acknowledgement for each message, a burst of them at a time."""

    _groups = 0

    def __init__(self, mode: Mode, body: bytes) -> None:
        self._burst = mode.burst
        self._acks: list[bytes] = []
        self._most = mode.filled // QUEUES - POPPED
        self._queue_id = -1
        self._queue_end = self._most
        self._popping = False

    def next(self, answers: Sequence[bytes]) -> Burst:
        """Acknowledgements of what the last pop has brought, or the next pop."""
        if self._popping:
            self._popping = False
            self._acks = self._acknowledgements(answers[0])
        if self._acks:
            acks, self._acks = self._acks[: self._burst], self._acks[self._burst :]
            return Burst(b"".join(acks), len(acks), len(acks))
        self._popping = True
        return Burst(encode_command(self._pop().to_command(0)), 1, 0)

    def _pop(self) -> PopMessage:
        if self._queue_end >= self._most:
            self._queue_id, self._queue_end = (self._queue_id + 1) % QUEUES, 0
            if self._queue_id == 0:
                Pops._groups += 1
        return PopMessage(
            consumer_group=f"ProfilePop{self._groups}",
            topic=TOPIC,
            queue_id=self._queue_id,
            max_msg_nums=POPPED,
            invisible_time=60_000,
            poll_time=10_000,
            born_time=now_ms(),
            init_mode=0,
            exp_type="TAG",
            exp="*",
        )

    def _acknowledgements(self, answer: bytes) -> list[bytes]:
        ((command,), _) = decode_frames(answer, MAX_FRAME_BYTES)
        popped = PopReply.from_command(command)
        begin = int((popped.start_offset_info or "").split()[-1])
        offsets = [int(text) for text in (popped.msg_offset_info or "").split()[-1].split(",")]
        self._queue_end = offsets[-1] + 1
        return [self._ack(popped, begin, offset) for offset in offsets]

    def _ack(self, popped: PopReply, begin: int, offset: int) -> bytes:
        handle = PopHandle(
            begin,
            popped.pop_time,
            popped.invisible_time,
            popped.revive_qid,
            0,
            BROKER,
            self._queue_id,
            offset,
        )
        request = AckMessage(f"ProfilePop{self._groups}", TOPIC, self._queue_id, handle.to_text(), offset)
        return encode_command(request.to_command(offset % POPPED))


class EndToEnd:
    """One message at a time, to a consumer that waits for it: every second script sends, the others pull."""

    _made = 0

    def __init__(self, mode: Mode, body: bytes) -> None:
        self._is_consumer = EndToEnd._made % 2 == 0
        EndToEnd._made += 1
        self._frame = b""
        self._message = encode_command(mode.request(0, body).to_command())

    def next(self, answers: Sequence[bytes]) -> Burst:
        """A pull at the end of the queue, which is held, or the message that ends that."""
        if not self._is_consumer:
            self._frame, frame = self._message, self._frame  # nothing before the end of the queue is known
            return Burst(frame, 1 if frame else 0, 0)
        queue_offset, hold_ms = 0, 0
        if answers:
            ((command,), _) = decode_frames(answers[0], MAX_FRAME_BYTES)
            queue_offset, hold_ms = PullReply.from_command(command).max_offset, 15_000
        request = pull_request(TOPIC, 0, queue_offset, hold_ms=hold_ms)
        return Burst(encode_command(request.to_command()), 1, 1)


MODES = (
    Mode("send, 1 in a read", send, 1),
    Mode("send, 8 in a read", send, 8),
    Mode("send, 64 in a read", send, 64),
    Mode("send, 4 connections, 256 each", send, 256, connections=4),
    Mode("ordered send, 8 in a read", ordered, 8),
    Mode("delayed message, 8 in a read", delayed, 8),
    Mode("transaction, 2 in a read", half, 2, script=Transactions),
    Mode("transaction, 8 in a read", half, 8, script=Transactions),
    Mode(f"pop of {POPPED}, 2 acknowledgements in a read", send, 2, script=Pops, filled=40_000),
    Mode(f"pop of {POPPED}, 8 acknowledgements in a read", send, 8, script=Pops, filled=40_000),
    Mode(f"batch of {BATCH}, 4 in a read", batch, 4, BATCH),
    Mode(f"pull of {PULLED}, 1 in a read", pull, 1, PULLED),
    Mode(f"pull of {PULLED}, 8 in a read", pull, 8, PULLED),
    Mode("end to end, 1 in a read", send, 1, script=EndToEnd, connections=2),
    Mode("SYNC_FLUSH, 64 in a read", send, 64, flush="SYNC_FLUSH"),
    Mode("SYNC_FLUSH, 8 connections, 8 each", send, 8, connections=8, flush="SYNC_FLUSH"),
    Mode("at rest, per ms", send, 1, rest=True),
)


class Connection:
    """Sends its burst and reads the answers."""

    def __init__(self, port: int, script: Script) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._script = script
        self._burst = Burst(b"", 0, 0)
        self._answers: list[bytes] = []

    def send(self) -> None:
        """The whole next burst at once."""
        self._burst = self._script.next(self._answers)
        self.socket.sendall(self._burst.frames)

    def read_answers(self) -> int:
        """Waits for all answers; raises for one that is an error. Gives how many messages were done."""
        received, left, position = bytearray(), self._burst.answers, 0
        self._answers.clear()
        while left:
            received += self.socket.recv(1 << 20)
            while len(received) - position >= 4:
                end = position + 4 + int.from_bytes(received[position : position + 4], "big")
                if end > len(received):
                    break
                if received.find(b'"code":0,', position, min(end, position + 600)) < 0:
                    raise click.ClickException(f"refused: {bytes(received[position : position + 600])!r}")
                self._answers.append(bytes(received[position:end]))
                position = end
                left -= 1
        return self._burst.messages


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one message, in µs; and how many there were in a second."""

    user: float
    system: float
    rate: float

    @property
    def total(self) -> float:
        """Processor time that the broker's process needs."""
        return self.user + self.system


def measure(mode: Mode, pid: int, port: int, body: bytes, seconds: float) -> Cost:
    """A window of one mode, after a short warm-up."""
    script = mode.script or Same
    connections = [Connection(port, script(mode, body)) for _ in range(mode.connections)]

    def run(until: float) -> int:
        messages = 0
        while time.monotonic() < until:
            for connection in connections:
                connection.send()
            for connection in connections:
                messages += connection.read_answers()
        return messages

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
            messages = run(began + seconds)
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
        *("--set", f"brokerName={BROKER}"),
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


def fill(port: int, body: bytes, messages: int) -> None:
    """Makes the topic, and enough in it for the pulls and pops."""
    with BlockingConnection(f"127.0.0.1:{port}") as connection:
        for number in range(QUEUES):
            connection.call(send(number, body), 60_000)
        for number in range(max(64, messages // BATCH)):
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
                    here = [mode for mode in modes if mode.flush == flush]
                    fill(port, body, max(mode.filled for mode in here))
                    for mode in here:
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
