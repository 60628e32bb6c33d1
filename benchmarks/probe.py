"""When does a broker take its first message? Asked over plain sockets, with nothing of either project."""

from __future__ import annotations

import hmac
import json
import socket
import struct
import subprocess
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import click

from benchmarks.processes import tail

GET_ROUTE = 105
SEND_MESSAGE = 10
GET_RUNTIME_INFO = 28
TEMPLATE_TOPIC = "TBW102"
"""The topic whose route clients ask for before a topic exists."""


def seconds_to_first_send(
    namesrv_port: int,
    broker_port: int,
    process: subprocess.Popen[bytes],
    started: float,
    log: Path,
    user: tuple[str, str] | None = None,
) -> float:
    """Seconds from `started` (monotonic) until the route is known and a send of 128 B is accepted.

    The send is signed with the name and secret of `user`.
    """
    deadline = started + 300
    while True:
        if _has_route(namesrv_port) and _accepts(broker_port, user):
            return time.monotonic() - started
        if process.poll() is not None or time.monotonic() > deadline:
            raise click.ClickException(f"the broker never accepted a message; end of {log}:\n{tail(log)}")
        time.sleep(0.005)


def log_end(port: int) -> int:
    """The end of the log of the broker on a port, a physical offset; 0 when nobody answers."""
    answer = _ask(port, GET_RUNTIME_INFO, {}, b"")
    if answer is None or answer["code"] != 0:
        return 0
    return int(answer["body"]["table"]["commitLogMaxOffset"])


def _has_route(port: int) -> bool:
    answer = _ask(port, GET_ROUTE, {"topic": TEMPLATE_TOPIC}, b"")
    return answer is not None and answer["code"] == 0


def _accepts(port: int, user: tuple[str, str] | None) -> bool:
    header: dict[str, Any] = {
        "producerGroup": "benchmark_probe",
        "topic": "bench_first",
        "defaultTopic": TEMPLATE_TOPIC,
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": int(time.time() * 1000),
        "flag": 0,
        "properties": "",
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
    }
    answer = _ask(port, SEND_MESSAGE, header, bytes(128), user)
    return answer is not None and answer["code"] == 0


def _ask(
    port: int, code: int, fields: dict[str, Any], body: bytes, user: tuple[str, str] | None = None
) -> dict[str, Any] | None:
    """The header of an answer, with the body of GET_RUNTIME_INFO; None when nobody answers."""
    ext = {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in fields.items()
    }
    if user is not None:
        ext["AccessKey"], secret = user
        signed = "".join(ext[key] for key in sorted(ext)).encode() + body
        ext["Signature"] = b64encode(hmac.digest(secret.encode(), signed, "sha1")).decode()
    header = json.dumps(
        {"code": code, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": 1, "version": 493}
    ).encode()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=3) as connection:
            connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
            answer = connection.makefile("rb")
            size, header_size = struct.unpack(">ii", answer.read(8))
            header_size &= 0xFFFFFF
            parsed: dict[str, Any] = json.loads(answer.read(header_size))
            if code == GET_RUNTIME_INFO:
                parsed["body"] = json.loads(answer.read(size - 4 - header_size))
            return parsed
    except (OSError, struct.error, ValueError):
        return None
