"""`orbitmq standalone`, `namesrv` and `broker`: from the command line to a running server.

Flags are named by the option that they set, so that they go into the settings as they are.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from orbitmq.broker.options import BROKER_TABLE, BrokerSettings
from orbitmq.cli.exits import ExitCode
from orbitmq.cli.flags import (
    BROKER_PORT,
    PORT,
    PORT_OR_NONE,
    ServerFlags,
    data_dir_flag,
    server_flags,
    warn_misspelt,
    warn_without_effect,
)
from orbitmq.cli.logs import set_up
from orbitmq.cli.settings import broker_settings, namesrv_settings, standalone_settings
from orbitmq.cli.starting import (
    NAMESRV_NAMES,
    STORE_NAMES,
    announce,
    broker_listeners,
    namesrv_listeners,
    warn_unreachable,
)
from orbitmq.flags import max_body_flag
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.net.address import format_address
from orbitmq.options.sources import NAMESRV_PREFIX

MAX_SHARDS = 256
STORE_DIR = data_dir_flag("storePathRootDir", "Folder for messages and tables. [default: ~/store]")


@click.command(
    epilog="""\b
Examples:
  orbitmq standalone --data-dir ./data
  orbitmq standalone --data-dir ./data --console
  orbitmq standalone --data-dir ./data --delay
  orbitmq standalone --data-dir ./data --proxy
  orbitmq standalone --data-dir ./data --namesrv-port 19876 --broker-port 20911
  orbitmq standalone --data-dir ./data --listen 0.0.0.0 --advertise broker.example.com
  orbitmq standalone --config broker.conf --set flushDiskType=SYNC_FLUSH"""
)
@STORE_DIR
@click.option("--namesrv-port", type=PORT, help="Port of the name server. [default: 9876]")
@click.option(
    "--broker-port",
    "listenPort",
    type=BROKER_PORT,
    help="Port of the broker. The port 2 below it is used too. [default: 10911]",
)
@click.option("--console", "with_console", is_flag=True, help="Serve the web console, on the loopback.")
@click.option("--console-port", type=PORT, default=8080, help="Port of the web console.")
@max_body_flag("With --console: maximum size of a body that was compressed, once it is inflated.")
@click.option(
    "--console-mask",
    "masked_fields",
    metavar="NAME",
    multiple=True,
    help="Field whose value nobody may read in the console, as with `orbitmq console --mask`. Repeatable.",
)
@click.option("--delay", "with_delay", is_flag=True, help="Run the delay service, its API on the loopback.")
@click.option("--delay-port", type=PORT, default=8090, help="Port of the delay service.")
@click.option("--proxy", "with_proxy", is_flag=True, help="Serve gRPC clients of RocketMQ 5, too.")
@click.option("--proxy-port", type=PORT, default=8081, help="Port of the gRPC proxy.")
@click.option(
    "--proxy-remoting-port",
    type=PORT_OR_NONE,
    help="With --proxy: port of clients of RocketMQ 4 that reach the proxy alone; 0 for none. "
    "[default: 8080, or 8082 if the console has it]",
)
@server_flags()
def standalone(
    flags: ServerFlags,
    namesrv_port: int | None,
    with_console: bool,
    console_port: int,
    max_inflated_body_bytes: int,
    masked_fields: tuple[str, ...],
    with_delay: bool,
    delay_port: int,
    with_proxy: bool,
    proxy_port: int,
    proxy_remoting_port: int | None,
    **given: object,
) -> None:
    """A name server and a broker in one process, over one data folder."""
    if masked_fields and not with_console:
        raise click.UsageError("--console-mask goes with --console: nothing else shows messages")
    broker_settings, namesrv_settings = standalone_settings(flags, namesrv_port, given)
    announce(
        [("", BROKER_TABLE, broker_settings), (NAMESRV_PREFIX, NAMESRV_TABLE, namesrv_settings)],
        dict.fromkeys([*namesrv_listeners(namesrv_settings), *broker_listeners(broker_settings)]),
    )
    warn_misspelt(os.environ, BROKER_TABLE, NAMESRV_TABLE)
    warn_without_effect(BROKER_TABLE, broker_settings)
    warn_without_effect(NAMESRV_TABLE, namesrv_settings)
    from orbitmq.cli.beside import StandaloneWith
    from orbitmq.cli.console import console_beside
    from orbitmq.cli.delay import delay_beside
    from orbitmq.cli.proxy import proxy_beside
    from orbitmq.cli.shards import check_not_sharded
    from orbitmq.server.lifecycle.process import Server, run, serve
    from orbitmq.server.lifecycle.standalone import StandaloneServer

    root = Path(broker_settings.store_path_root_dir).expanduser()
    check_not_sharded(root)
    flags.check_folder(root, STORE_NAMES)
    ready_line = (
        "ready: name server {server.namesrv.address}, broker {server.broker.address}, "
        f"data folder {_literal(broker_settings.store_path_root_dir)}"
    )
    both = StandaloneServer(broker_settings, namesrv_settings)
    beside: dict[str, Server] = {}
    if with_console:
        delays = delay_port if with_delay else None
        beside["console"] = console_beside(
            both, root, console_port, max_inflated_body_bytes, masked_fields, delays
        )
        ready_line += ", console {server.beside[console].url}"
    if with_delay:
        beside["delay"] = delay_beside(both, broker_settings, root, delay_port)
        ready_line += ", delay service {server.beside[delay].address}"
    if with_proxy:
        if proxy_remoting_port is None:
            proxy_remoting_port = 8082 if with_console and console_port == 8080 else 8080
        beside["proxy"] = proxy_beside(both, broker_settings, proxy_port, proxy_remoting_port)
        ready_line += ", proxy {server.beside[proxy].addresses}"
    server = StandaloneWith(both, beside)
    followed = (broker_settings, namesrv_settings)
    run(serve(server, ready_line=ready_line, ready_file=flags.ready_file, settings=followed))


@click.command(
    epilog="""\b
Examples:
  orbitmq namesrv
  orbitmq namesrv --port 9876 --listen 0.0.0.0 --data-dir /var/lib/orbitmq-namesrv"""
)
@click.option("--port", "listenPort", type=PORT, help="Port to listen on. [default: 9876]")
@data_dir_flag("data_dir", "Folder of the key-value file. [default: ~/namesrv]")
@server_flags(
    "Address in the readiness line. It has no other effect: a name server's address is not sent to peers."
)
def namesrv(flags: ServerFlags, data_dir: str | None, **given: object) -> None:
    """A name server: it gives clients the brokers of each topic. Several can run side by side."""
    settings = namesrv_settings(flags, given)
    announce([("", NAMESRV_TABLE, settings)], namesrv_listeners(settings))
    warn_misspelt(os.environ, NAMESRV_TABLE)
    warn_without_effect(NAMESRV_TABLE, settings)
    from orbitmq.server.lifecycle.namesrv import NamesrvServer
    from orbitmq.server.lifecycle.process import run, serve

    if data_dir is not None:
        flags.check_folder(Path(data_dir), NAMESRV_NAMES)
    ready_line = "ready: name server {server.address}"
    if flags.advertise is not None:
        host, port = flags.advertise
        ready_line = f"ready: name server {format_address(host, port or settings.listen_port)}"
    server = NamesrvServer(settings, data_dir=Path(data_dir) if data_dir else None)
    run(serve(server, ready_line=ready_line, ready_file=flags.ready_file, settings=[settings]))


@click.command(
    epilog="""\b
Examples:
  orbitmq broker --namesrv 127.0.0.1:9876 --data-dir ./data
  orbitmq broker --namesrv "ns1:9876;ns2:9876" --name broker-b --port 20911 --data-dir ./data-b
  orbitmq broker --config /etc/rocketmq/broker.conf
  orbitmq broker --shards 4 --namesrv 127.0.0.1:9876 --data-dir ./data"""
)
@click.option(
    "--namesrv",
    "namesrvAddr",
    metavar="HOST:PORT[;...]",
    help="Name servers to register with. [default: NAMESRV_ADDR of the environment]",
)
@click.option(
    "--port",
    "listenPort",
    type=BROKER_PORT,
    help="Port to listen on. The port 2 below it is used too. [default: 10911]",
)
@STORE_DIR
@click.option("--name", "brokerName", help="Name of the broker group. [default: broker-a]")
@click.option("--cluster", "brokerClusterName", help="Name of the cluster. [default: DefaultCluster]")
@click.option(
    "--broker-id",
    "brokerId",
    type=click.IntRange(0),
    help="Id in the broker group; 0 is the master. [default: 0]",
)
@click.option(
    "--shards",
    type=click.IntRange(1, MAX_SHARDS),
    metavar="N",
    help="Run N brokers of the cluster, one process each: NAME-0, NAME-1, ... on every tenth port, with "
    "their data in shard-0, shard-1, ... of the folder. [default: this process is the one broker]",
)
@click.option("--supervised", is_flag=True, hidden=True)
@server_flags()
def broker(flags: ServerFlags, shards: int | None, supervised: bool, **given: object) -> None:
    """A broker: it stores and delivers messages."""
    settings = broker_settings(flags, given)
    if supervised:
        log_format = click.get_current_context().params["log_format"]
        set_up(flags.log_level or "info", log_format, origin=settings.broker_name)
        # The file is that of all shards: a change sent to one lasts until its next start.
        settings.broker_config_path = None
    announce([("", BROKER_TABLE, settings)], broker_listeners(settings))
    if not supervised:
        # Of shards their supervisor warns, once.
        warn_misspelt(os.environ, BROKER_TABLE)
        warn_without_effect(BROKER_TABLE, settings)
        warn_unreachable(settings)
    if shards is not None:
        _run_shards(settings, flags, shards)
        return
    from orbitmq.cli.shards import check_not_sharded
    from orbitmq.server.lifecycle.broker_server import BrokerServer
    from orbitmq.server.lifecycle.process import run, serve
    from orbitmq.server.lifecycle.shards import when_supervisor_is_gone

    root = Path(settings.store_path_root_dir).expanduser()
    check_not_sharded(root)
    flags.check_folder(root, STORE_NAMES)
    ready_line = (
        "ready: broker {server.address}, "
        f"data folder {_literal(settings.store_path_root_dir)}, "
        f"name servers {_literal(settings.namesrv_addr or '')}"
    )
    server = BrokerServer(settings)
    stop_when = when_supervisor_is_gone if supervised else None
    run(
        serve(
            server,
            ready_line=ready_line,
            ready_file=flags.ready_file,
            settings=[settings],
            stop_when=stop_when,
        )
    )


def _run_shards(settings: BrokerSettings, flags: ServerFlags, count: int) -> None:
    from orbitmq.cli.shards import check_folder, shard_commands
    from orbitmq.server.lifecycle.process import run, serve
    from orbitmq.server.lifecycle.shards import ShardEnded, ShardSupervisor

    root = Path(settings.store_path_root_dir)
    check_folder(root, count)
    flags.check_folder(root, STORE_NAMES)
    log_format = click.get_current_context().params["log_format"]
    supervisor = ShardSupervisor(shard_commands(settings, flags, log_format, count))
    ready_line = (
        f"ready: {count} shards of cluster {_literal(settings.broker_cluster_name)}: {{server.addresses}}, "
        f"data folder {_literal(settings.store_path_root_dir)}, "
        f"name servers {_literal(settings.namesrv_addr or '')}"
    )
    try:
        run(serve(supervisor, ready_line=ready_line, ready_file=flags.ready_file, settings=[settings]))
    except ShardEnded as error:
        click.echo(f"orbitmq: {error}", err=True)
        raise click.exceptions.Exit(error.code if error.code > 0 else ExitCode.FAILED) from None


def _literal(text: str) -> str:
    """Text for a readiness line, in which braces mean something."""
    return text.replace("{", "{{").replace("}", "}}")
