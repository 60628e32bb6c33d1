"""A master and its slaves in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.options import Layer
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.turn.listener import free_ports
from tests.kit.running_standalone import TESTED, Running, running

PATIENT: dict[str, object] = {"slaveTimeout": 60_000}
"""A master that hands over, or whose answers wait for its slaves, gives them all the time that they need."""


async def until(true: Callable[[], bool]) -> None:
    """Returns once something holds; the test's own time limit ends it else."""
    while not true():  # noqa: ASYNC110 (brokers tell nobody)
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def slave_of(master: Running, data_dir: Path, **properties: object) -> AsyncIterator[BrokerServer]:
    """A slave that learns from the name server where its master is."""
    values = {
        "brokerRole": "SLAVE",
        "brokerId": 1,
        "listenPort": free_ports(-2, 1),
        "storePathRootDir": str(data_dir),
        "namesrvAddr": master.server.namesrv.address,
        "syncBrokerMetadataPeriod": 100,
        "slaveReadEnable": True,
        "haSendHeartbeatInterval": 200,
        **PATIENT,
        **TESTED,
    }
    server = BrokerServer(BROKER_TABLE.load([Layer("the test", {**values, **properties})]))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@dataclass
class Group:
    here: Running
    slave: BrokerServer

    def is_level(self) -> bool:
        """True if the slave has all of the log, and its master knows."""
        end = self.here.broker.store.max_physical
        links = self.here.broker.broker.promise.links
        return (
            self.slave.store.max_physical == end
            and self.slave.broker.replication.has_master
            and any(link.acknowledged == end for link in links.all)
        )


@contextlib.asynccontextmanager
async def group(
    tmp_path: Path, slave: dict[str, object] | None = None, **master: object
) -> AsyncIterator[Group]:
    async with (
        running(tmp_path / "m", **{**PATIENT, **master}) as here,
        slave_of(here, tmp_path / "s", **(slave or {})) as other,
    ):
        both = Group(here, other)
        await until(both.is_level)
        yield both


def pull(queue_offset: int, hold_ms: int = 0) -> PullMessage:
    return PullMessage(
        "G", "T", 0, queue_offset, 32, 4 | (2 if hold_ms else 0), 0, hold_ms, 0, subscription="*"
    )


def log_of(server: BrokerServer) -> bytes:
    store = server.store
    return store.log.read(store.min_physical, store.max_physical - store.min_physical)


async def ha_stream(here: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = here.broker.settings.ha_listen_port or here.broker.settings.listen_port + 1
    return await asyncio.open_connection("127.0.0.1", port)
