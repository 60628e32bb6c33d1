"""A broker of one queue that answers pulls as it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Self

from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.remoting.frame import FrameSplitter, encode_command

FOUND, NOT_FOUND, RETRY_AT_ONCE, OFFSET_MOVED = 0, 19, 20, 21

Answer = Command | None
"""Answer to a request; None closes the connection."""


def pull_answer(
    code: int, next_queue_offset: int, body: bytes | None = None, low: int = 0, high: int = 0
) -> Command:
    """An answer to a pull, without its opaque."""
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_queue_offset),
        "minOffset": str(low),
        "maxOffset": str(high),
    }
    return Command(code, 0, FLAG_RESPONSE, fields, body)


class FakeBroker:
    """Serves connections one after the other; `answer(request)` decides."""

    def __init__(self, answer: Callable[[Command], Answer], *, reverse: bool = False) -> None:
        self._answer = answer
        self._reverse = reverse
        self.requests: list[Command] = []
        self.connections = 0
        """Connections that were taken."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(120)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            # A client that stops reading early closes while answers are on their way.
            with connection, contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        splitter = FrameSplitter()
        while data := connection.recv(1 << 16):
            commands = splitter.feed(data)
            for command in reversed(commands) if self._reverse else commands:
                self.requests.append(command)
                answer = self._answer(command)
                if answer is None:
                    return
                answer.opaque = command.opaque
                connection.sendall(encode_command(answer))
