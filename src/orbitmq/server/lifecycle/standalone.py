"""Name server and broker in one process over one data folder: the embedded default."""

from __future__ import annotations

from pathlib import Path

from orbitmq.broker.options import BrokerSettings
from orbitmq.nameserver.options import NamesrvSettings
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.lifecycle.namesrv import NamesrvServer

NAMESRV_FOLDER = "namesrv"
"""The name server's files are in this folder of the broker's data folder."""


class StandaloneServer:
    """Starts the name server first and stops it last, so that the broker can register and say farewell."""

    def __init__(self, broker: BrokerSettings, namesrv: NamesrvSettings) -> None:
        if namesrv.health_port == broker.health_port:
            namesrv.health_port = 0  # one process has one health: the broker's
        data_dir = Path(broker.store_path_root_dir).expanduser() / NAMESRV_FOLDER
        self.namesrv = NamesrvServer(namesrv, data_dir=data_dir)
        if not broker.namesrv_addr:
            broker.namesrv_addr = self.namesrv.address
        self.broker = BrokerServer(broker)

    async def start(self) -> None:
        """Raises what either of them raises; then nothing is left running."""
        await self.namesrv.start()
        try:
            await self.broker.start()
        except BaseException:
            await self.namesrv.stop()
            raise

    async def stop(self) -> None:
        """Ends the broker, then the name server."""
        await self.broker.stop()
        await self.namesrv.stop()
