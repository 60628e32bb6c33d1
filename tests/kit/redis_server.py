"""Redis on the loopback, as a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import redis

from orbitmq.server.turn.listener import free_ports
from tests.kit.environments import without_sanitizers
from tests.needs import need

START_SECONDS = 60.0


class RedisServer:
    """One server, in memory alone: what it holds ends with it."""

    def __init__(self) -> None:
        need("redis")
        self.port = free_ports()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts it; returns when it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            ["redis-server", *options], stdout=subprocess.DEVNULL, env=without_sanitizers()
        )
        deadline = time.monotonic() + START_SECONDS
        with contextlib.closing(self.client()) as client:
            while True:
                try:
                    client.ping()
                except redis.ConnectionError:
                    if time.monotonic() > deadline or self._process.poll() is not None:
                        raise
                    time.sleep(0.02)
                else:
                    return

    def client(self, **options: Any) -> redis.Redis:
        """A client, which the caller closes."""
        return redis.Redis(port=self.port, **options)

    def stop(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def redis_server() -> Iterator[RedisServer]:
    """A server for as long as the block runs."""
    server = RedisServer()
    try:
        yield server
    finally:
        server.stop()
