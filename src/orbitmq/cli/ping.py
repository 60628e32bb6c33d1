"""`orbitmq ping`: is a name server, or a broker, there and well. For probes: the exit code says it."""

from __future__ import annotations

import time

import click

from orbitmq.admin.face import default_namesrv
from orbitmq.net.address import parse_addresses
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.route import GetBrokerClusterInfo


class NotWell(OrbitError):
    """It answers, and says that it does not serve."""


@click.command(
    epilog="""\b
Examples:
  orbitmq ping
  orbitmq ping --broker 127.0.0.1:10911 --timeout 1
  orbitmq ping --namesrv "ns1:9876;ns2:9876"

\b
Exit code 0: all that were asked are well; 1: one is not."""
)
@click.option("-b", "--broker", metavar="HOST:PORT", help="Ask this broker.")
@click.option(
    "-n",
    "--namesrv",
    metavar="HOST:PORT[;...]",
    help="Ask these name servers. [default: NAMESRV_ADDR of the environment, or 127.0.0.1:9876]",
)
@click.option("--timeout", type=click.FloatRange(0.05), default=3.0, show_default=True, metavar="SECONDS")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing if all is well.")
def ping(broker: str | None, namesrv: str | None, timeout: float, quiet: bool) -> None:
    """Ask a name server, or a broker, whether it is well."""
    if broker is not None:
        _say(quiet, f"broker {broker}", *_ask_broker(broker, timeout))
    if namesrv is not None or broker is None:
        for address in parse_addresses(namesrv or default_namesrv()):
            _say(quiet, f"name server {address}", *_ask_namesrv(address, timeout))


def _ask_namesrv(address: str, timeout: float) -> tuple[float, str]:
    started = time.monotonic()
    with BlockingConnection(address, connect_timeout_ms=int(timeout * 1000)) as connection:
        info = connection.call(GetBrokerClusterInfo(), timeout * 1000).body
    brokers = sum(len(data.broker_addrs or {}) for data in (info.broker_addr_table or {}).values())
    return time.monotonic() - started, f"knows {brokers} broker{'' if brokers == 1 else 's'}"


def _ask_broker(address: str, timeout: float) -> tuple[float, str]:
    started = time.monotonic()
    with BlockingConnection(address, connect_timeout_ms=int(timeout * 1000)) as connection:
        table = connection.call(GetBrokerRuntimeInfo(), timeout * 1000).body.table
    if table.get("brokerActive") == "false":
        raise NotWell(f"broker {address} answers, but is not active")
    return time.monotonic() - started, f"version {table.get('brokerVersionDesc', 'unknown')}"


def _say(quiet: bool, who: str, seconds: float, what: str) -> None:
    if not quiet:
        click.echo(f"{who} is well: {what}, {seconds * 1000:.1f} ms")
