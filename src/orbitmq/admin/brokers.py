"""One broker: figures and options."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from orbitmq.admin.admin import Admin
from orbitmq.options import OptionError
from orbitmq.options.properties import format_properties
from orbitmq.protocol.requests.admin import GetBrokerConfig, GetBrokerRuntimeInfo, UpdateBrokerConfig


async def broker_config(admin: Admin, address: str) -> dict[str, str]:
    """Every option of one broker, by Apache's name. The lines of the answer are no escaped properties."""
    body = (await admin.call(address, GetBrokerConfig())).body
    pairs = (line.partition("=") for line in bytes(body or b"").decode("utf-8", "replace").splitlines())
    return {name: value for name, equals, value in pairs if equals}


async def update_broker_config(admin: Admin, address: str, options: Mapping[str, str]) -> None:
    """Sets options of one broker by Apache's names. Raises NoPermission for names on its black list."""
    await admin.call(address, UpdateBrokerConfig(format_properties(options).encode()))


async def set_options(admin: Admin, broker: str, options: Mapping[str, str]) -> list[str]:
    """Sets options of running brokers, of a name or the one at `host:port`; gives their addresses.

    All of them, or none if one is refused. Raises OptionError for a name that there is not.
    """
    addresses = await admin.addresses(broker)
    await _check_names(admin, addresses[0], options)
    for address in addresses:
        await update_broker_config(admin, address, options)
    return addresses


async def _check_names(admin: Admin, address: str, options: Mapping[str, str]) -> None:
    """Brokers pass over names that they do not know. Raises OptionError for one.

    A broker's answer leaves out options without a value: those are known from our own table.
    """
    from orbitmq.broker.options import BROKER_TABLE  # no other command needs a broker's package

    present = await broker_config(admin, address)
    for name in options:
        if name not in present and not BROKER_TABLE.has(name):
            near = get_close_matches(name, present, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptionError(f"broker {address} has no option {name}{hint}")


async def broker_status(admin: Admin, address: str) -> dict[str, str]:
    """The runtime info of one broker, by name."""
    return dict(sorted((await admin.call(address, GetBrokerRuntimeInfo())).body.table.items()))
