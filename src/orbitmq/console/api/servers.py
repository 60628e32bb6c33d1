"""Figures that a broker tells of itself, and the producers that are connected to brokers."""

from __future__ import annotations

import msgspec

from orbitmq.admin.brokers import broker_status
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.heartbeat import ProducerTableInfo
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.remoting.versions import version_name
from orbitmq.protocol.requests.client import GetAllProducerInfo

MOST_PRODUCERS = 5000


class Figure(msgspec.Struct, rename="camel"):
    """One figure, with the name that brokers give it."""

    name: str
    value: str


class BrokerFigures(msgspec.Struct, rename="camel"):
    """Everything that a broker tells of itself, by name."""

    figures: list[Figure]


class ProducerClient(msgspec.Struct, rename="camel"):
    """One client of a producer group, and the brokers to which it is connected."""

    group: str
    client_id: str
    address: str
    language: str
    version: str
    last_ms: int
    """Time of its last heartbeat."""
    brokers: list[str]


class Producers(msgspec.Struct, rename="camel"):
    """Producers by group and client."""

    producers: list[ProducerClient]
    left_out: int
    """Clients beyond 5,000."""
    errors: list[str]
    """Brokers that did not say."""


@endpoint("GET", "/api/clusters/{cluster}/brokers/{address}/status", Role.VIEWER, rows=("figures",))
async def get_broker_status(call: Call[None, None]) -> BrokerFigures:
    """Everything that one broker tells of itself; the broker is given as `host:port`."""
    found = await broker_status(call.cluster.reader, call.path["address"])
    return BrokerFigures([Figure(name, found[name]) for name in sorted(found)])


@endpoint("GET", "/api/clusters/{cluster}/producers", Role.VIEWER, rows=("producers",))
async def list_producers(call: Call[None, None]) -> Producers:
    """Producers that are connected to brokers."""
    admin = call.cluster.reader
    masters = await admin.masters()
    errors = list[str]()

    async def ask(address: str) -> ProducerTableInfo:
        try:
            return (await admin.call(address, GetAllProducerInfo())).body
        except OrbitError as error:
            errors.append(f"{address}: {error}")
            return ProducerTableInfo()

    found: dict[tuple[str, str], ProducerClient] = {}
    tables = await admin.each([one.address for one in masters], ask)
    for broker, table in zip(masters, tables, strict=True):
        for group, clients in table.data.items():
            for one in clients:
                client = found.setdefault(
                    (group, one.client_id),
                    ProducerClient(
                        group,
                        one.client_id,
                        one.remote_ip.lstrip("/"),
                        getattr(one.language, "name", "-"),
                        version_name(one.version),
                        one.last_update_timestamp,
                        [],
                    ),
                )
                client.last_ms = max(client.last_ms, one.last_update_timestamp)
                client.brokers.append(broker.name)
    listed = [found[key] for key in sorted(found)]
    return Producers(listed[:MOST_PRODUCERS], max(0, len(listed) - MOST_PRODUCERS), errors)
