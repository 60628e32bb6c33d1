"""`orbitmq ping`: is a server there and well. For probes: the exit code says it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import click
from click.core import ParameterSource

from orbitmq.access import Access
from orbitmq.admin.clusters import version_of
from orbitmq.flags import Seconds, access_flags
from orbitmq.net.address import parse_addresses
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import BadAddress, NetError
from orbitmq.plurals import counted
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.controller import ControllerGetMetadataInfo
from orbitmq.protocol.requests.route import GetBrokerClusterInfo

BETWEEN_SECONDS = 0.1
"""Between two questions of `--wait`."""


class NotWell(OrbitError):
    """It answers, and says that it does not serve."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A healthy server."""

    kind: str
    address: str
    detail: str
    values: Mapping[str, object]
    """Values of the answer, for programs."""
    took_ms: float

    def as_line(self) -> str:
        return f"{self.kind} {self.address} is healthy: {self.detail}, {self.took_ms:.1f} ms"

    def as_json(self) -> str:
        return json.dumps({"kind": self.kind, "address": self.address, **self.values, "ms": self.took_ms})


@click.command(
    epilog="""\b
Examples:
  orbitmq ping
  orbitmq ping --wait 30 && ./start-the-application
  orbitmq ping --broker 127.0.0.1:10911 --timeout 1
  orbitmq ping --controller 127.0.0.1:19876 --wait 30
  orbitmq ping --delay 127.0.0.1:8090 --wait 30
  orbitmq ping --namesrv "ns1:9876;ns2:9876" --json

\b
Exit code 0: every server is healthy; 1: at least one is not."""
)
@click.option("-b", "--broker", metavar="HOST:PORT", help="Check this broker; name servers only if given.")
@click.option(
    "--controller",
    metavar="HOST:PORT",
    help="Check this controller: it is healthy if it knows who leads. Name servers only if given.",
)
@click.option(
    "--delay",
    metavar="HOST:PORT",
    help="Check this delay service, by its API: it is healthy once all sources are read. Name servers only "
    "if given.",
)
@access_flags
@click.option("--timeout", type=Seconds(0.05), default=3.0, help="Timeout of one request.")
@click.option(
    "--wait",
    type=Seconds(0, min_open=True),
    help="Repeat until all are healthy, at most this long. A name server counts as healthy once "
    "it knows a broker.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if all are healthy.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per server, one per line.")
@click.pass_context
def ping(
    ctx: click.Context,
    broker: str | None,
    controller: str | None,
    delay: str | None,
    namesrv: str,
    access: Access,
    timeout: float,
    wait: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Check that name servers, a broker, a controller or a delay service are healthy."""
    asked: list[Callable[[], Answer]] = []
    if broker is not None:
        asked.append(partial(_ask_broker, broker, access, timeout))
    if controller is not None:
        asked.append(partial(_ask_controller, controller, access, timeout))
    if delay is not None:
        asked.append(partial(_ask_delay, delay, timeout))
    if (broker is None and controller is None and delay is None) or ctx.get_parameter_source(
        "namesrv"
    ) is ParameterSource.COMMANDLINE:
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
    known = counted(brokers, "broker")
    if brokers < least:
        raise NotWell(f"name server {address} answers, but knows {known}")
    return Answer("name server", address, f"knows {known}", {"brokers": brokers}, _ms_since(started))


def _ask_controller(address: str, access: Access, timeout: float) -> Answer:
    started = time.monotonic()
    with _connect(address, access, timeout) as connection:
        leader = connection.call(ControllerGetMetadataInfo(), timeout * 1000).controller_leader_address
    if not leader:
        raise NotWell(f"controller {address} answers, but no controller leads")
    return Answer("controller", address, f"{leader} leads", {"leader": leader}, _ms_since(started))


def _ask_delay(address: str, timeout: float) -> Answer:
    from orbitmq.client.delays import DelayClient, DelayUnavailable

    started = time.monotonic()
    try:
        found = DelayClient(f"http://{address}", timeout_seconds=timeout).ready()
    except DelayUnavailable as error:
        raise NotWell(f"delay service {address}: {error}") from None
    sources = found.get("sources", {})
    read = f"{counted(len(sources), 'source')} read"
    return Answer("delay service", address, read, {"sources": list(sources)}, _ms_since(started))


def _ask_broker(address: str, access: Access, timeout: float) -> Answer:
    started = time.monotonic()
    with _connect(address, access, timeout) as connection:
        table = connection.call(GetBrokerRuntimeInfo(), timeout * 1000).body.table
    if table.get("brokerActive") == "false":
        raise NotWell(f"broker {address} answers, but is not active")
    version, shown = table.get("brokerVersionDesc", "unknown"), version_of(table) or "unknown"
    return Answer("broker", address, f"version {shown}", {"version": version}, _ms_since(started))


def _ms_since(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 1)
