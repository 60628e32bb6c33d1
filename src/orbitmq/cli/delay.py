"""`orbitmq delay`: messages that wait outside of brokers until they are due."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.extras import with_extra
from orbitmq.cli.flags import FLAGS, ServerFlags, clear_ready_file, flag_layer
from orbitmq.cli.lazy import LazyGroup
from orbitmq.cli.logs import set_up

if TYPE_CHECKING:
    from orbitmq.broker.options import BrokerSettings
    from orbitmq.delay_service.options import DelaySettings
    from orbitmq.delay_service.serving import DelayServer
    from orbitmq.server.lifecycle.standalone import StandaloneServer

PLACES = {
    "serve": ("orbitmq.cli.delay:serve", "The service"),
    "list": ("orbitmq.cli.delay_commands:list_messages", "List pending messages"),
    "show": ("orbitmq.cli.delay_commands:show", "Show a pending message"),
    "cancel": ("orbitmq.cli.delay_commands:cancel", "Cancel messages"),
    "move": ("orbitmq.cli.delay_commands:move", "Move messages to another time"),
    "stats": ("orbitmq.cli.delay_commands:stats", "Show counts of the service"),
    "backup": ("orbitmq.cli.delay_commands:backup", "Copy the store while the service runs"),
    "restore": ("orbitmq.cli.delay_commands:restore", "Make a backup a store"),
    "import-chronos": (
        "orbitmq.cli.delay_commands:import_chronos",
        "Take over the messages of DDMQ's Chronos",
    ),
}


@click.group(
    cls=LazyGroup,
    places=PLACES,
    epilog="""\b
Examples:
  orbitmq delay serve --data-dir ./delay --cluster main=rocketmq://127.0.0.1:9876
  orbitmq delay list --topic orders
  orbitmq delay move order-17 --after 2h

\b
Delays of the broker itself are seen by `orbitmq admin delay list` and `orbitmq admin delay timers`.""",
)
def delay() -> None:
    """Messages that wait outside of brokers until they are due, for RocketMQ and Kafka."""


@click.command(
    epilog="""\b
Examples:
  orbitmq delay serve --data-dir ./delay --cluster main=rocketmq://127.0.0.1:9876
  orbitmq delay serve --data-dir ./delay --cluster main=rocketmq://ns1:9876;ns2:9876 \\
      --cluster events=kafka://kafka1:9092 --http 127.0.0.1:8090
  orbitmq delay serve --data-dir ./delay --cluster "main=rocketmq://ns:9876?access_key=ann&secret_file=ann.txt"
  orbitmq delay serve --data-dir ./delay --cluster main=rocketmq://ns:9876 --consensus etcd://e1:2379,e2:2379
  orbitmq delay serve --data-dir ./delay --cluster main=rocketmq://ns:9876 --thrift 127.0.0.1:9613
  orbitmq delay serve --config delay.toml"""
)
@click.option(
    "--data-dir", "delayDataDir", type=click.Path(), help="Folder of the store. [default: ~/orbitmq-delay]"
)
@click.option(
    "--cluster",
    "clusters",
    metavar="NAME=URL",
    multiple=True,
    help="A cluster, rocketmq://HOST:PORT[;...] or kafka://HOST:PORT[,...]. After `?` may follow access_key, "
    "secret_file, tls, tls_ca, tls_cert, tls_key; for Kafka sasl and user. Repeatable.",
)
@click.option("--topic", "delayTopic", metavar="TOPIC", help="Topic of orders. [default: orbitmq_delay]")
@click.option(
    "--dead-topic",
    "delayDeadTopic",
    metavar="TOPIC",
    help="Topic for dead letters. [default: orbitmq_delay_dead]",
)
@click.option(
    "--source", "sources", metavar="CLUSTER/TOPIC", multiple=True, help="A further source. Repeatable."
)
@click.option(
    "--format", "delayFormat", type=click.Choice(["orbitmq", "ddmq"]), help="Form of the orders of --source."
)
@click.option(
    "--http", "delayHttp", metavar="HOST:PORT", help="Address of the HTTP API. [default: 127.0.0.1:8090]"
)
@click.option(
    "--token-file", "delayTokenFile", type=click.Path(dir_okay=False), help="File with the tokens of the API."
)
@click.option(
    "--owner",
    "owners",
    metavar="OWNER=CLUSTER/TOPIC",
    multiple=True,
    help="A topic of orders of one owner, the only way to that owner's names. Repeatable.",
)
@click.option(
    "--thrift", "delayThrift", metavar="HOST:PORT", help="Address of a port for DDMQ's SDKs. [default: none]"
)
@click.option(
    "--thrift-anyone",
    is_flag=True,
    default=None,
    help="Let it listen on addresses other than the loopback, without users.",
)
@click.option(
    "--rate",
    "rates",
    metavar="CLUSTER/TOPIC=N",
    multiple=True,
    help="Limit of messages in a second. Repeatable.",
)
@click.option(
    "--webhook",
    "webhooks",
    metavar="URL",
    multiple=True,
    help="Beginning of web addresses that may be targets, with / at the end. Repeatable.",
)
@click.option(
    "--consensus",
    "storeAddress",
    metavar="URL",
    help="Several instances of one service: etcd://HOST:PORT[,...] or zookeeper://HOST:PORT[,...]. One of "
    "them delivers, and another one takes over.",
)
@click.option(
    "--allow-create-time",
    is_flag=True,
    default=None,
    help="Accept delay.after from topics of Kafka with their senders' times.",
)
@click.option("--config", type=click.Path(path_type=Path), help="File of options: TOML if it ends in .toml.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="Set an option. Repeatable.")
@click.option(
    "--ready-file", type=click.Path(path_type=Path), help="File that exists once all sources are read."
)
@FLAGS[5]
@FLAGS[6]
def serve(
    clusters: tuple[str, ...],
    sources: tuple[str, ...],
    rates: tuple[str, ...],
    owners: tuple[str, ...],
    webhooks: tuple[str, ...],
    allow_create_time: bool | None,
    thrift_anyone: bool | None,
    config: Path | None,
    assignments: tuple[str, ...],
    ready_file: Path | None,
    log_level: str | None,
    log_format: str,
    **given: object,
) -> None:
    """The service: it reads orders, keeps messages, and sends them when they are due."""
    set_up(log_level or "info", log_format)
    clear_ready_file(ready_file)
    flags = ServerFlags(config=config, assignments=assignments, ready_file=ready_file, log_level=log_level)
    listed = {
        "delayClusters": ";".join(clusters) or None,
        "delaySources": ";".join(sources) or None,
        "delayRates": ";".join(rates) or None,
        "delayOwners": ";".join(owners) or None,
        "delayWebhooks": ";".join(webhooks) or None,
        "delayAllowCreateTime": "true" if allow_create_time else None,
        "delayThriftAnyone": "true" if thrift_anyone else None,
    }
    settings = delay_settings(flags, {**given, **listed})
    run_delay(settings, ready_file)


def delay_settings(flags: ServerFlags, given: dict[str, object]) -> DelaySettings:
    """The settings of a delay service. Raises OptionError."""
    from orbitmq.delay_service.options import DELAY_TABLE
    from orbitmq.options import Layer

    layers = [Layer(one.source, one.values, one.lenient, lines=one.lines) for one in flags.layers()]
    return DELAY_TABLE.load([*layers, flag_layer(given)])


def run_delay(settings: DelaySettings, ready_file: Path | None) -> None:
    """Runs a service until a signal ends it. Raises ExtraMissing, and what ended it before."""
    from orbitmq.server.lifecycle.process import run
    from orbitmq.server.lifecycle.process import serve as serve_until_signal

    server = _delay_server(settings, ready_file=ready_file)
    run(
        serve_until_signal(
            server,
            ready_line="started: delay service, HTTP {server.address}",
            settings=[settings],
            stop_when=server.stop_when_failed,
        )
    )
    server.raise_failure()


def delay_beside(standalone: StandaloneServer, broker: BrokerSettings, root: Path, port: int) -> DelayServer:
    """A delay service on the loopback, beside a broker, that signs as the broker itself does.

    Its store is in a folder of the data folder. Raises OptionError.
    """
    from orbitmq.handling.credentials import own_credentials
    from orbitmq.options import OptionError

    credentials = own_credentials(broker)
    if broker.authentication_enabled and credentials is None:
        raise OptionError(
            "authenticationEnabled with --delay needs innerClientAuthenticationCredentials: the service "
            "reads and sends as that user"
        )
    given: dict[str, object] = {
        "delayDataDir": str(root / "delay"),
        "delayClusters": f"main=rocketmq://{standalone.namesrv.address}",
        "delayHttp": f"127.0.0.1:{port}",
    }
    return _delay_server(delay_settings(ServerFlags(), given), credentials=credentials)


def _delay_server(settings: DelaySettings, **given: Any) -> DelayServer:
    with with_extra("the delay service", "delay", {"msgspec"}):
        from orbitmq.delay_service.serving import DelayServer
    return DelayServer(settings, **given)
