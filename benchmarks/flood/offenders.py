"""Clients that misbehave. Each runs in a process of its own and says what the broker told it, or did to it.

`python -m benchmarks.flood.offenders NAME HOST:PORT SHARE` prints that as JSON; SHARE 1 is all of it.
"""

from __future__ import annotations

import json
import resource
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from benchmarks.scale.probe import batch_request, pull_request, send_request, topic_request
from orbitmq.net.address import parse_address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, encode_command
from orbitmq.protocol.requests.client import Heartbeat

TOPIC = "FloodFilled"
FILLED_BYTES = 200 << 20
WAIT_SECONDS = 3.0
"""Time that those stay who only occupy something."""
Outcome = Counter[str]


class Raw:
    """A socket that sends whatever it is told to, and counts answers by their code."""

    def __init__(self, address: str, receive_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(parse_address(address))
        self.socket.settimeout(60)
        self._received = bytearray()

    def send(self, data: bytes) -> bool:
        """True if the other side took it."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, TimeoutError):
            return False
        return True

    def answers(self, count: int, outcome: Outcome, bytes_per_second: int = 0) -> None:
        """Reads so many answers, or fewer and then the end; no faster than it is told to."""
        received = self._received
        while count:
            while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
                try:
                    data = self.socket.recv(1 << 16 if bytes_per_second else 1 << 20)
                except (ConnectionError, TimeoutError):
                    data = b""
                if bytes_per_second:
                    time.sleep(len(data) / bytes_per_second)
                if not data:
                    outcome["cut"] += 1
                    return
                received += data
            end = 4 + int.from_bytes(received[:4], "big")
            head = bytes(received[8 : 8 + (int.from_bytes(received[4:8], "big") & 0xFFFFFF)])
            outcome[str(json.loads(head)["code"])] += 1
            del received[:end]
            count -= 1

    def is_cut(self) -> bool:
        """True if the other side has closed."""
        self.socket.setblocking(False)
        try:
            while True:
                if not self.socket.recv(1 << 20):
                    return True
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()


def frame(code: int, header: bytes | None = None, body: bytes = b"") -> bytes:
    """A frame with a header of one's own."""
    if header is None:
        header = b'{"code":%d,"language":"JAVA","version":480,"opaque":1,"flag":0}' % code
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def _end(raws: Iterable[Raw], outcome: Outcome, otherwise: str) -> Outcome:
    for raw in raws:
        outcome["cut" if raw.is_cut() else otherwise] += 1
        raw.close()
    return outcome


def readers_of_a_megabyte_a_second(address: str, share: float) -> Outcome:
    """50 connections that ask for 50 MB at once, and read 1 MB a second."""
    data = encode_command(pull_request(TOPIC, 0, 0, count=64).to_command(1)) * 200
    outcome: Outcome = Counter()

    def read() -> None:
        raw = Raw(address, receive_bytes=1 << 16)
        raw.send(data)
        raw.answers(max(6, int(12 * share)), outcome, bytes_per_second=1_000_000)
        raw.close()

    threads = [threading.Thread(target=read) for _ in range(max(4, int(50 * share)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


def slow_readers(address: str, share: float) -> Outcome:
    """300 connections that pull 256 KiB again and again, and never read an answer."""
    data = encode_command(pull_request(TOPIC, 0, 0, count=64).to_command(1)) * 100
    raws = []
    for _ in range(max(5, int(300 * share))):
        raw = Raw(address, receive_bytes=4096)
        raw.socket.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            raw.socket.send(data)
        raws.append(raw)
    time.sleep(max(1.0, WAIT_SECONDS * share))
    outcome: Outcome = Counter()
    for raw in raws:
        # Whoever was cut learns it from a write: what was sent before still lies there to be read.
        try:
            for _ in range(3):
                raw.socket.send(b"\0")
                time.sleep(0.001)
            outcome["not read from any more"] += 1
        except BlockingIOError:
            outcome["not read from any more"] += 1
        except ConnectionError:
            outcome["cut"] += 1
        raw.close()
    return outcome


def half_open(address: str, share: float) -> Outcome:
    """5,000 connections that say nothing, or begin a frame and stop."""
    raws = [Raw(address) for _ in range(max(50, int(5000 * share)))]
    for number, raw in enumerate(raws):
        raw.send((b"", b"\0", frame(10)[:40])[number % 3])
    time.sleep(max(1.0, WAIT_SECONDS * share))
    return _end(raws, Counter(), "open until they are idle for 120 s")


def half_frames(address: str, share: float) -> Outcome:
    """200 connections that send 8 of the 15 MiB they have announced, and stop."""
    begin = (15 << 20).to_bytes(4, "big") + frame(10)[4:] + bytes(8 << 20)
    raws = [Raw(address) for _ in range(max(40, int(200 * share)))]
    for raw in raws:
        raw.send(begin)
    time.sleep(max(1.0, WAIT_SECONDS * share))
    return _end(raws, Counter(), "open until they are idle for 120 s")


def tiny_frames(address: str, share: float) -> Outcome:
    """A million frames of 61 bytes, as fast as they are taken."""
    raw = Raw(address)
    count = max(1000, int(1_000_000 * share)) // 1000
    data = frame(9999) * 1000
    outcome: Outcome = Counter()
    reader = threading.Thread(target=lambda: raw.answers(count * 1000, outcome))
    reader.start()
    for _ in range(count):
        if not raw.send(data):
            break
    reader.join()
    raw.close()
    return outcome


def large_frames(address: str, share: float) -> Outcome:
    """Sends of nearly 16 MiB, and frames that announce more than that; 40 of each."""
    outcome: Outcome = Counter()
    legal = encode_command(send_request("FloodLarge", 0, bytes(MAX_FRAME_BYTES - 1024)).to_command(1))
    for _ in range(max(3, int(40 * share))):
        raw = Raw(address)
        raw.send(legal)
        raw.answers(1, outcome)
        raw.close()
        raw = Raw(address)
        raw.send((MAX_FRAME_BYTES + 1).to_bytes(4, "big") + bytes(1 << 16))
        raw.answers(1, outcome)
        raw.close()
    return outcome


def header_bombs(address: str, share: float) -> Outcome:
    """Headers of a megabyte: of fields, of brackets, of digits; header lengths that cannot be. 20 of each."""
    outcome: Outcome = Counter()
    begin = b'{"code":10,"language":"JAVA","version":480,"opaque":1,"flag":0,"extFields":'
    fields = b",".join(b'"k%d":"v"' % number for number in range(90_000))
    bombs = [
        frame(10, begin + b"{" + fields + b"}}"),
        frame(10, begin + b'{"a":' + b"[" * 900_000),
        frame(10, begin + b'{"e":"' + b"9" * 900_000 + b'"}}'),
        frame(10, begin + b"{" + b'"a":"1",' * 110_000 + b'"a":"1"}}'),
        frame(10)[:4] + (0xFFFFFF).to_bytes(4, "big") + frame(10)[8:],
        frame(34, None, b'{"clientID":' + b"[" * 1_000_000),
    ]
    for _ in range(max(1, int(20 * share))):
        for bomb in bombs:
            raw = Raw(address)
            raw.send(bomb)
            raw.answers(1, outcome)
            raw.close()
    return outcome


def pull_of_everything(address: str, share: float) -> Outcome:
    """2,000 pulls that ask for 2 billion messages and bytes, from the begin of 200 MB; 64 are under way."""
    outcome: Outcome = Counter()
    request = pull_request(TOPIC, 0, 0, count=2_147_483_647)
    request.max_msg_bytes = 2_147_483_647
    data = encode_command(request.to_command(1))
    raw = Raw(address)
    for _ in range(max(2, int(31 * share))):
        raw.send(data * 64)
        raw.answers(64, outcome)
    raw.close()
    return outcome


def large_subscriptions(address: str, share: float) -> Outcome:
    """Heartbeats and pulls with a subscription of 1 MB: of tags, of SQL, of nested brackets. 10 of each."""
    outcome: Outcome = Counter()
    tags = "||".join(f"tag{number}" for number in range(110_000))
    texts = [
        (tags, "TAG", {f"tag{number}" for number in range(110_000)}),
        (" OR ".join(f"a = {number}" for number in range(80_000)), "SQL92", set()),
        ("(" * 500_000 + "a = 1" + ")" * 500_000, "SQL92", set()),
    ]
    for _ in range(max(1, int(10 * share))):
        for text, kind, found in texts:
            subscription = SubscriptionData(TOPIC, text, kind, found, sub_version=time.time_ns())
            heartbeat = Heartbeat(
                HeartbeatData("flood", [], [ConsumerData("Flood", None, None, None, [subscription])])
            )
            pull = pull_request(TOPIC, 0, 0, group="Flood")
            pull.subscription, pull.expression_type = text, kind
            for request in (heartbeat, pull):
                raw = Raw(address)
                raw.send(encode_command(request.to_command(1)))
                raw.answers(1, outcome)
                raw.close()
    return outcome


def many_topics(address: str, share: float) -> Outcome:
    """10,000 topics, half of them made by an administrator's request, half by their first message."""
    outcome: Outcome = Counter()
    count = max(200, int(10_000 * share))
    commands: list[Command] = []
    for number in range(count):
        request: Any = topic_request(f"Flood{number}", 8) if number % 2 else send_request(f"Flood{number}")
        commands.append(request.to_command(number))
    raw = Raw(address)
    sender = threading.Thread(target=lambda: raw.send(b"".join(map(encode_command, commands))))
    sender.start()
    raw.answers(count, outcome)
    sender.join()
    raw.close()
    return outcome


OFFENDERS: dict[str, Callable[[str, float], Outcome]] = {
    offender.__name__: offender
    for offender in (
        slow_readers, readers_of_a_megabyte_a_second, half_open, half_frames, tiny_frames, large_frames,
        header_bombs, pull_of_everything, large_subscriptions, many_topics,
    )
}  # fmt: skip


def fill(address: str, share: float = 1.0) -> None:
    """Puts the messages there that are pulled."""
    with BlockingConnection(address) as connection:
        connection.call(topic_request(TOPIC, 1), 60_000)
        batch = batch_request(TOPIC, 0, b"x" * 4096, 256)
        for _ in range(max(4, int(FILLED_BYTES * share) >> 20)):
            connection.call(batch, 60_000)


def main() -> None:
    """Runs one offender."""
    name, address, share = sys.argv[1:]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    del soft
    try:
        print(json.dumps(OFFENDERS[name](address, float(share))))
    except OrbitError as error:
        print(json.dumps({str(error): 1}))


if __name__ == "__main__":
    main()
