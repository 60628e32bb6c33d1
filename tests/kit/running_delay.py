"""A delay service in this process, on a free port."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from orbitmq.client.delays import DelayClient
from orbitmq.delay_service.options import DELAY_TABLE
from orbitmq.delay_service.serving import DelayServer
from orbitmq.options import Layer
from orbitmq.server.turn.listener import free_ports

PATIENCE_SECONDS = 60

T = TypeVar("T")


def until(found: Callable[[], T], seconds: float = 120) -> T:
    """What others bring about, once it is there."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return value


class RunningDelay:
    """Entered, it has read its sources; `client` asks its API."""

    def __init__(self, data_dir: Path, clusters: str, **options: Any) -> None:
        given = {
            "delayDataDir": str(data_dir),
            "delayClusters": clusters,
            "delayHttp": f"127.0.0.1:{free_ports()}",
            **options,
        }
        self.settings = DELAY_TABLE.load([Layer("test", given)])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.server = DelayServer(self.settings)

    def wait_for(self, coroutine: Any) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await coroutine

        return asyncio.run_coroutine_threadsafe(limited(), self._loop).result(PATIENCE_SECONDS + 5)

    @property
    def url(self) -> str:
        return f"http://{self.server.address}"

    @property
    def client(self) -> DelayClient:
        return DelayClient(self.url)

    def client_with(self, token: str) -> DelayClient:
        return DelayClient(self.url, token=token)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.wait_for(self.server.start())
            self.wait_for(self.server.ready())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.wait_for(self.server.stop())
            self.wait_for(_nothing_goes_on())
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread.is_alive():
            self._thread.join(PATIENCE_SECONDS)
        self._loop.close()


async def _nothing_goes_on() -> None:
    """Fails if a task of the service outlives it: it would keep connections open for ever."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=PATIENCE_SECONDS / 2)
        assert not left, left
