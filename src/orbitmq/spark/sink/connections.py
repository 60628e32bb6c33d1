"""The connections of one task, one per broker and use, opened when they are first needed."""

from __future__ import annotations

from typing import Self

from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.read.connecting import Connecting


class Connections:
    """Opens, keeps, and closes. A connection that was closed by a failure is opened again."""

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._open: dict[str, BlockingConnection] = {}

    def to(self, address: str) -> BlockingConnection:
        """The connection to `address`. Raises ConnectFailed."""
        connection = self._open.get(address)
        if connection is None or connection.is_closed:
            connection = self._open[address] = self._connecting.connect(address)
        return connection

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
