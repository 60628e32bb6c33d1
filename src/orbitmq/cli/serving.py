"""`orbitmq standalone`, `namesrv` and `broker`: options to settings, settings to a running server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from orbitmq.broker.options import BROKER_TABLE, BrokerSettings
from orbitmq.cli import logs
from orbitmq.cli.flags import (
    BROKER_PORT,
    PORT,
    clear_ready_file,
    flag_layer,
    layers,
    server_flags,
    warn_misspelt,
    warn_without_effect,
)
from orbitmq.nameserver.options import NAMESRV_TABLE, NamesrvSettings
from orbitmq.net.address import format_address, parse_addresses
from orbitmq.options import OptionError

Advertised = tuple[str, int | None] | None


@click.command(
    epilog="""\b
Examples:
  orbitmq standalone --data-dir ./data
  orbitmq standalone --data-dir ./data --namesrv-port 19876 --broker-port 20911
  orbitmq standalone --data-dir ./data --listen 0.0.0.0 --advertise broker.example.com
  orbitmq standalone --config broker.conf --set flushDiskType=SYNC_FLUSH"""
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Folder of messages and tables. [default: ~/store]"
)
@click.option("--namesrv-port", type=PORT, help="Port of the name server. [default: 9876]")
@click.option(
    "--broker-port",
    type=BROKER_PORT,
    help="Port of the broker; the one 2 below is used, too. [default: 10911]",
)
@server_flags
def standalone(
    data_dir: Path | None,
    namesrv_port: int | None,
    broker_port: int | None,
    listen: str | None,
    advertise: Advertised,
    config: Path | None,
    assignments: tuple[str, ...],
    ready_file: Path | None,
    log_level: str,
    log_format: str,
) -> None:
    """A name server and a broker in one process, over one data folder."""
    logs.set_up(log_level, log_format)
    clear_ready_file(ready_file)
    broker_settings, namesrv_settings = standalone_settings(
        data_dir, namesrv_port, broker_port, listen, advertise, config, assignments
    )
    warn_misspelt(os.environ, BROKER_TABLE, NAMESRV_TABLE)
    warn_without_effect(BROKER_TABLE, broker_settings)
    warn_without_effect(NAMESRV_TABLE, namesrv_settings)
    from orbitmq.server.process import run, serve
    from orbitmq.server.standalone import StandaloneServer

    ready_line = (
        "ready: name server {server.namesrv.address}, broker {server.broker.address}, "
        f"data folder {_literal(broker_settings.store_path_root_dir)}"
    )
    server = StandaloneServer(broker_settings, namesrv_settings)
    run(serve(server, ready_line=ready_line, ready_file=ready_file))


def standalone_settings(
    data_dir: Path | None,
    namesrv_port: int | None,
    broker_port: int | None,
    listen: str | None,
    advertise: Advertised,
    config: Path | None,
    assignments: tuple[str, ...],
) -> tuple[BrokerSettings, NamesrvSettings]:
    """What flags and the other sources make of both servers. Raises OptionError, BadAddress."""
    for_broker = []
    for_namesrv = []
    for layer in layers(config, assignments):
        first, second = layer.split(BROKER_TABLE.has, NAMESRV_TABLE.has)
        for_broker.append(first)
        for_namesrv.append(second)
    host, port = advertise or (None, None)
    for_broker.append(
        flag_layer(
            {
                "storePathRootDir": _absolute(data_dir),
                "listenPort": broker_port,
                "bindAddress": listen,
                "brokerIP1": host,
                "advertisedPort": port,
            }
        )
    )
    broker_settings = BROKER_TABLE.load(for_broker)
    listens = listen or (broker_settings.bind_address if "bindAddress" in broker_settings.sources else None)
    for_namesrv.append(flag_layer({"listenPort": namesrv_port, "bindAddress": listens}))
    namesrv_settings = NAMESRV_TABLE.load(for_namesrv)
    _finish(broker_settings, config)
    if broker_settings.namesrv_addr:
        own = format_address(_reachable(namesrv_settings.bind_address), namesrv_settings.listen_port)
        others = [address for address in parse_addresses(broker_settings.namesrv_addr) if address != own]
        broker_settings.namesrv_addr = ";".join([own, *others])
    taken = {broker_settings.listen_port, broker_settings.listen_port - 2}
    if namesrv_settings.listen_port in taken:
        raise OptionError(
            f"the name server's port {namesrv_settings.listen_port} is one of the broker's: it uses "
            f"{broker_settings.listen_port} and {broker_settings.listen_port - 2}"
        )
    return broker_settings, namesrv_settings


@click.command(
    epilog="""\b
Examples:
  orbitmq namesrv
  orbitmq namesrv --port 9876 --listen 0.0.0.0 --data-dir /var/lib/orbitmq-namesrv"""
)
@click.option("--port", type=PORT, help="Port to listen on. [default: 9876]")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Folder of its key-value file. [default: ~/namesrv]"
)
@server_flags
def namesrv(
    port: int | None,
    data_dir: Path | None,
    listen: str | None,
    advertise: Advertised,
    config: Path | None,
    assignments: tuple[str, ...],
    ready_file: Path | None,
    log_level: str,
    log_format: str,
) -> None:
    """A name server: it tells clients where topics are. Several may run side by side.

    --advertise changes only what the readiness line says: no peer is told a name server's address.
    """
    logs.set_up(log_level, log_format)
    clear_ready_file(ready_file)
    settings = namesrv_settings(port, listen, config, assignments)
    warn_misspelt(os.environ, NAMESRV_TABLE)
    warn_without_effect(NAMESRV_TABLE, settings)
    from orbitmq.server.namesrv import NamesrvServer
    from orbitmq.server.process import run, serve

    ready_line = "ready: name server {server.address}"
    if advertise is not None:
        host, advertised_port = advertise
        ready_line = f"ready: name server {format_address(host, advertised_port or settings.listen_port)}"
    run(serve(NamesrvServer(settings, data_dir=data_dir), ready_line=ready_line, ready_file=ready_file))


def namesrv_settings(
    port: int | None, listen: str | None, config: Path | None, assignments: tuple[str, ...]
) -> NamesrvSettings:
    """What flags and the other sources make of a name server. Raises OptionError."""
    found = [layer.for_namesrv() for layer in layers(config, assignments)]
    return NAMESRV_TABLE.load([*found, flag_layer({"listenPort": port, "bindAddress": listen})])


@click.command(
    epilog="""\b
Examples:
  orbitmq broker --namesrv 127.0.0.1:9876 --data-dir ./data
  orbitmq broker --namesrv "ns1:9876;ns2:9876" --name broker-b --port 20911 --data-dir ./data-b
  orbitmq broker --config /etc/rocketmq/broker.conf"""
)
@click.option(
    "--namesrv",
    "namesrv_address",
    metavar="HOST:PORT[;...]",
    help="Name servers to register with. [default: NAMESRV_ADDR of the environment]",
)
@click.option(
    "--port", type=BROKER_PORT, help="Port to listen on; the one 2 below is used, too. [default: 10911]"
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Folder of messages and tables. [default: ~/store]"
)
@click.option("--name", help="Name of the broker group. [default: broker-a]")
@click.option("--cluster", help="Name of the cluster. [default: DefaultCluster]")
@click.option("--broker-id", type=click.IntRange(0), help="0 is the master of its group. [default: 0]")
@server_flags
def broker(
    namesrv_address: str | None,
    port: int | None,
    data_dir: Path | None,
    name: str | None,
    cluster: str | None,
    broker_id: int | None,
    listen: str | None,
    advertise: Advertised,
    config: Path | None,
    assignments: tuple[str, ...],
    ready_file: Path | None,
    log_level: str,
    log_format: str,
) -> None:
    """A broker: it stores messages and hands them out."""
    logs.set_up(log_level, log_format)
    clear_ready_file(ready_file)
    host, advertised_port = advertise or (None, None)
    settings = broker_settings(
        config,
        assignments,
        {
            "namesrvAddr": namesrv_address,
            "listenPort": port,
            "storePathRootDir": _absolute(data_dir),
            "brokerName": name,
            "brokerClusterName": cluster,
            "brokerId": broker_id,
            "bindAddress": listen,
            "brokerIP1": host,
            "advertisedPort": advertised_port,
        },
    )
    warn_misspelt(os.environ, BROKER_TABLE)
    warn_without_effect(BROKER_TABLE, settings)
    from orbitmq.server.broker_server import BrokerServer
    from orbitmq.server.process import run, serve

    ready_line = (
        "ready: broker {server.address}, "
        f"data folder {_literal(settings.store_path_root_dir)}, "
        f"name servers {_literal(settings.namesrv_addr or '')}"
    )
    run(serve(BrokerServer(settings), ready_line=ready_line, ready_file=ready_file))


def broker_settings(
    config: Path | None, assignments: tuple[str, ...], flags: dict[str, Any]
) -> BrokerSettings:
    """What flags and the other sources make of a broker. Raises OptionError, BadAddress."""
    found = [layer.for_broker() for layer in layers(config, assignments)]
    settings = BROKER_TABLE.load([*found, flag_layer(flags)])
    _finish(settings, config)
    if not settings.namesrv_addr:
        raise OptionError(
            "a broker needs a name server to register with: --namesrv HOST:PORT "
            "(`orbitmq standalone` runs one of its own)"
        )
    return settings


def _finish(settings: BrokerSettings, config: Path | None) -> None:
    if settings.namesrv_addr:
        parse_addresses(settings.namesrv_addr)
    if config is not None and config.suffix != ".toml":
        settings.broker_config_path = str(config.absolute())


def _reachable(listen: str) -> str:
    """Where this process itself reaches what listens on `listen`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)


def _literal(text: str) -> str:
    """Text for a readiness line, in which braces mean something."""
    return text.replace("{", "{{").replace("}", "}}")


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
