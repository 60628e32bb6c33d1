"""`orbitmq ping`: is a name server, or a broker, there and well. For probes: the exit code says it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import click
from click.core import ParameterSource

from orbitmq.access import Access, access_flags
from orbitmq.net.address import parse_addresses
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import BadAddress, NetError
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.route import GetBrokerClusterInfo

BETWEEN_SECONDS = 0.1
"""Between two questions of `--wait`."""


class NotWell(OrbitError):
    """It answers, and says that it does not serve."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Somebody is well."""

    kind: str
    address: str
    told: str
    values: Mapping[str, object]
    """What was told, for programs."""
    took_ms: float

    def as_line(self) -> str:
        """For people."""
        return f"{self.kind} {self.address} is well: {self.told}, {self.took_ms:.1f} ms"

    def as_json(self) -> str:
        """For programs."""
        return json.dumps({"kind": self.kind, "address": self.address, **self.values, "ms": self.took_ms})


@click.command(
    epilog="""\b
Examples:
  orbitmq ping
  orbitmq ping --wait 30 && ./start-the-application
  orbitmq ping --broker 127.0.0.1:10911 --timeout 1
  orbitmq ping --namesrv "ns1:9876;ns2:9876" --json

\b
Exit code 0: all that were asked are well; 1: one is not."""
)
@click.option("-b", "--broker", metavar="HOST:PORT", help="Ask this broker, and no name server unless named.")
@access_flags
@click.option(
    "--timeout",
    type=click.FloatRange(0.05),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for one question.",
)
@click.option(
    "--wait",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Ask until all are well, at most so long. A name server is well then once it knows a broker.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing if all is well.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object for each that was asked, one per line."
)
@click.pass_context
def ping(
    ctx: click.Context,
    broker: str | None,
    namesrv: str,
    access: Access,
    timeout: float,
    wait: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Ask a name server, or a broker, whether it is well."""
    asked: list[Callable[[], Answer]] = []
    if broker is not None:
        asked.append(partial(_ask_broker, broker, access, timeout))
    if broker is None or ctx.get_parameter_source("namesrv") is ParameterSource.COMMANDLINE:
        for address in parse_addresses(namesrv):
            asked.append(partial(_ask_namesrv, address, access, timeout, 0 if wait is None else 1))
    deadline = time.monotonic() + (wait or 0)
    for ask in asked:
        answer = _ask_until(deadline, ask)
        if not quiet:
            click.echo(answer.as_json() if as_json else answer.as_line())


def _ask_until(deadline: float, ask: Callable[[], Answer]) -> Answer:
    """The first good answer; what went wrong last is raised after the deadline."""
    while True:
        try:
            return ask()
        except (NetError, BrokerRefused, NotWell) as error:
            if isinstance(error, BadAddress) or time.monotonic() >= deadline:
                raise
        time.sleep(BETWEEN_SECONDS)


def _connect(address: str, access: Access, timeout: float) -> BlockingConnection:
    return BlockingConnection(
        address,
        connect_timeout_ms=int(timeout * 1000),
        ssl=access.ssl,
        credentials=access.credentials,
    )


def _ask_namesrv(address: str, access: Access, timeout: float, least: int) -> Answer:
    started = time.monotonic()
    with _connect(address, access, timeout) as connection:
        info = connection.call(GetBrokerClusterInfo(), timeout * 1000).body
    brokers = sum(len(data.broker_addrs or {}) for data in (info.broker_addr_table or {}).values())
    known = f"{brokers} broker{'' if brokers == 1 else 's'}"
    if brokers < least:
        raise NotWell(f"name server {address} answers, but knows {known}")
    return Answer("name server", address, f"knows {known}", {"brokers": brokers}, _ms_since(started))


def _ask_broker(address: str, access: Access, timeout: float) -> Answer:
    started = time.monotonic()
    with _connect(address, access, timeout) as connection:
        table = connection.call(GetBrokerRuntimeInfo(), timeout * 1000).body.table
    if table.get("brokerActive") == "false":
        raise NotWell(f"broker {address} answers, but is not active")
    version = table.get("brokerVersionDesc", "unknown")
    return Answer("broker", address, f"version {version}", {"version": version}, _ms_since(started))


def _ms_since(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 1)
