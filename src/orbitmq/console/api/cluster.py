"""The cluster: name servers, options of brokers, elections of controllers, maintenance."""

from __future__ import annotations

import re

import msgspec

from orbitmq.admin.admin import BrokerAt
from orbitmq.admin.brokers import broker_config, set_options
from orbitmq.admin.cluster_config import OptionValues, cluster_config
from orbitmq.admin.clusters import BrokerState, with_distances
from orbitmq.admin.controllers import Election, elections, known_controllers
from orbitmq.admin.maintenance import NameServerState, drain, name_servers, undrain
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError, check_confirmed
from orbitmq.console.security.roles import Role
from orbitmq.protocol.errors import OrbitError

HIDDEN = "********"
_SECRET = re.compile(r"password|secret|credential|AuthenticationUser$", re.IGNORECASE)
"""Apache's brokers answer with secrets of theirs; pages never show them."""


class Controller(msgspec.Struct, rename="camel"):
    """One controller."""

    address: str
    error: str | None
    leads: bool


class ClusterState(msgspec.Struct, rename="camel"):
    """Servers of a cluster."""

    name_servers: list[NameServerState]
    brokers: list[BrokerState]
    """`inTps` shows if something still comes in."""
    controllers: list[Controller]
    elections: list[Election]
    """The newest first. Apache's controllers keep none."""
    errors: list[str]


class OptionRow(msgspec.Struct, rename="camel"):
    """One option on all brokers. Its meaning is from OrbitMQ's own table; Apache's brokers may have more."""

    name: str
    values: list[str | None]
    """In the order of the brokers."""
    differs: bool
    secret: bool
    doc: str
    unit: str
    default: str | None
    mutable: bool | None
    """True if it may change at run time; null where it is not known."""
    choices: list[str]


class ConfigTable(msgspec.Struct, rename="camel"):
    """Options of all brokers side by side."""

    brokers: list[BrokerAt]
    options: list[OptionRow]
    errors: list[str]


class OptionChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An option to set, on one broker (name or `host:port`) or on all."""

    name: str
    value: str
    broker: str | None = None


class ChangedOption(msgspec.Struct, rename="camel"):
    """Addresses of the brokers that have the new value."""

    brokers: list[str]


class Drain(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The name of the broker once more."""

    confirm: str


class Drained(msgspec.Struct, rename="camel"):
    """Topics whose routes changed."""

    broker: str
    topics: int


@endpoint(
    "GET",
    "/api/clusters/{cluster}/servers",
    Role.VIEWER,
    rows=("brokers", "name_servers", "controllers", "elections"),
)
async def get_servers(call: Call[None, None]) -> ClusterState:
    """Name servers, brokers, controllers and elections."""
    admin = call.cluster.admin
    sample = await call.cluster.sampler.first()
    errors: list[str] = []
    controllers: list[Controller] = []
    newest_first: list[Election] = []
    try:
        for address in await _controllers_of(call, sample.brokers):
            for found in await known_controllers(admin, address):
                if found.address not in {one.address for one in controllers}:
                    controllers.append(Controller(found.address, found.error or None, found.leads))
        if controllers:
            oldest_first = await elections(admin, ";".join(one.address for one in controllers))
            newest_first = oldest_first[::-1]
    except OrbitError as error:
        errors.append(" ".join(str(error).split()))
    return ClusterState(
        await name_servers(admin), with_distances(sample.brokers), controllers, newest_first, errors
    )


async def _controllers_of(call: Call[None, None], brokers: list[BrokerState]) -> list[str]:
    found = set()
    for one in brokers:
        if one.state in ("active", "standby", "blind"):
            config = await broker_config(call.cluster.admin, one.at.address)
            if config.get("enableControllerMode") == "true" and config.get("controllerAddr"):
                found.add(config["controllerAddr"])
    return sorted(found)


@endpoint("GET", "/api/clusters/{cluster}/config", Role.VIEWER, rows=("options",))
async def get_config(call: Call[None, None]) -> ConfigTable:
    """Options of all brokers side by side, with their meaning."""
    found = await cluster_config(call.cluster.admin)
    return ConfigTable(
        list(found.brokers),
        [_option(one) for one in found.options],
        [f"{address}: {error}" for address, error in found.errors.items()],
    )


@endpoint("PUT", "/api/clusters/{cluster}/config", Role.ADMIN)
async def set_option(call: Call[None, OptionChange]) -> ChangedOption:
    """Set an option of one broker, or of all. A secret cannot be set here."""
    admin, body = call.cluster.admin, call.body
    if _is_secret(body.name):
        raise ApiError(
            422, "SECRET_OPTION", f"{body.name} is a secret", "Set it in the broker's file.", field="name"
        )
    targets = [body.broker] if body.broker else [one.address for one in await admin.brokers()]
    addresses = [address for one in targets for address in await admin.addresses(one)]
    call.before = {address: (await broker_config(admin, address)).get(body.name) for address in addresses}
    call.after = {body.name: body.value, "brokers": []}
    for address in addresses:
        await set_options(admin, address, {body.name: body.value})
        call.after["brokers"].append(address)
    return ChangedOption(addresses)


@endpoint("POST", "/api/clusters/{cluster}/brokers/{broker}/drain", Role.ADMIN)
async def drain_broker(call: Call[None, Drain]) -> Drained:
    """Take a broker out of the routes of producers; consumers go on."""
    name = call.path["broker"]
    check_confirmed(call.body.confirm, name, "broker", "drain")
    call.after = {"writable": False}
    return Drained(name, await drain(call.cluster.admin, name))


@endpoint("POST", "/api/clusters/{cluster}/brokers/{broker}/undrain", Role.ADMIN)
async def undrain_broker(call: Call[None, None]) -> Drained:
    """Put a broker back into the routes of producers."""
    name = call.path["broker"]
    call.after = {"writable": True}
    return Drained(name, await undrain(call.cluster.admin, name))


def _is_secret(name: str) -> bool:
    row = BROKER_TABLE.find(name)
    return (row is not None and row.secret) or bool(_SECRET.search(name))


def _option(one: OptionValues) -> OptionRow:
    row = BROKER_TABLE.find(one.name)
    secret = _is_secret(one.name)
    values = [HIDDEN if secret and value else value for value in one.values]
    if row is None:
        return OptionRow(one.name, values, one.differs, secret, "", "", None, None, [])
    default = row.default
    shown = str(default).lower() if isinstance(default, bool) else None if default is None else str(default)
    doc = row.doc if not row.reason else f"{row.doc} {row.reason}".strip()
    return OptionRow(
        one.name,
        values,
        one.differs,
        secret,
        doc,
        row.unit,
        HIDDEN if secret and shown else shown,
        row.mutable,
        list(row.choices),
    )
