"""`python -m benchmarks.floor`: what Apache's client and the loopback leave of a send to nobody.

In the broker's place stands an answerer: it takes frames from a blocking socket, stores nothing, checks
nothing, and gives each the same answer. No broker can reach more with this client than its rate.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import threading
from pathlib import Path

import click

from benchmarks.brokers import Running
from benchmarks.install import install
from benchmarks.load import load_generator
from benchmarks.probe import GET_ROUTE
from benchmarks.rows import Sizes, choose

WORK = Path(__file__).parent.parent / "build" / "benchmarks"
READ_BYTES = 256 << 10
ANSWERED = ("sync", "async", "batch", "ordered")
"""Loads of which every request can have the same answer."""
TAKEN = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "0"}
"""Fields that an answer to a send has to hold."""


def _answer(fields: dict[str, str] | None, body: bytes) -> tuple[bytes, bytes]:
    """The frame of an answer in two parts: its request's number goes between them, ten digits wide."""
    ext = "" if fields is None else f'"extFields":{json.dumps(fields)},'
    end = f',"code":0,{ext}"flag":1,"language":"OTHER","version":493}}'.encode()
    size = len(b'{"opaque":') + 10 + len(end)
    return (4 + size + len(body)).to_bytes(4, "big") + size.to_bytes(4, "big") + b'{"opaque":', end + body


def _route(port: int) -> bytes:
    return json.dumps(
        {
            "brokerDatas": [
                {"brokerAddrs": {"0": f"127.0.0.1:{port}"}, "brokerName": "echo", "cluster": "echo"}
            ],
            "filterServerTable": {},
            "queueDatas": [
                {"brokerName": "echo", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
            ],
        }
    ).encode()


def _number(header: bytes, name: bytes) -> int:
    start = header.index(name) + len(name)
    end = start
    while header[end : end + 1].isdigit():
        end += 1
    return int(header[start:end])


def _serve(connection: socket.socket, port: int) -> None:
    sent, routed = _answer(TAKEN, b""), _answer(None, _route(port))
    held = b""
    with connection:
        while read := connection.recv(READ_BYTES):
            held += read
            out, at = [], 0
            while len(held) - at >= 8 and len(held) - at >= (
                length := 4 + int.from_bytes(held[at : at + 4], "big")
            ):
                header = held[at + 8 : at + 8 + int.from_bytes(held[at + 5 : at + 8], "big")]
                start, end = routed if _number(header, b'"code":') == GET_ROUTE else sent
                out.append(b"%s%10d%s" % (start, _number(header, b'"opaque":'), end))
                at += length
            held = held[at:]
            connection.sendall(b"".join(out))


def _accept(server: socket.socket, port: int) -> None:
    while True:
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve, args=(connection, port), daemon=True).start()


@click.command()
@click.option("--rows", multiple=True, default=["sync", "async-", "batch-", "ordered-"], show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--seconds", type=click.IntRange(min=1), default=5, show_default=True)
def main(rows: tuple[str, ...], rounds: int, seconds: int) -> None:
    """Prints messages a second and the answerer's CPU for sends of Apache's Java client to it."""
    chosen = [
        row for row in choose(rows) if row.op in ANSWERED and row.size <= 1024 and row.flush == "ASYNC_FLUSH"
    ]
    installed = install(WORK, None)
    server = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = server.getsockname()[1]
    # The socket listens already: nobody has to wait for it.
    answerer = multiprocessing.get_context("fork").Process(target=_accept, args=(server, port), daemon=True)
    answerer.start()
    assert answerer.pid is not None
    address = f"127.0.0.1:{port}"
    broker = Running("echo", address, address, [answerer.pid], 0.0, WORK)
    try:
        with load_generator(installed.java, WORK / "classes", installed.jars, WORK / "load") as load:
            for row in chosen:
                load.measure(row, 0, broker, Sizes(ramp=0, seconds=10))
            for row in chosen:
                found = [load.measure(row, 0, broker, Sizes(ramp=1, seconds=seconds)) for _ in range(rounds)]
                best = max(found, key=lambda figures: figures["rate"])
                click.echo(
                    f"{row.title:40} {best['rate']:>9,.0f} msg/s  {best['cpu_us']:>6.1f} µs CPU  "
                    f"p50 {best['p50_us'] / 1e3:.2f} ms  errors {best['errors']}"
                )
    finally:
        answerer.terminate()
        answerer.join()


if __name__ == "__main__":
    main()
