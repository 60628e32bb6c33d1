"""`orbitmq admin broker set`: change options of running brokers."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.command import command
from orbitmq.admin.commands.broker_config import broker_config
from orbitmq.admin.output import Done
from orbitmq.options import OptionError
from orbitmq.options.properties import format_properties
from orbitmq.protocol.requests.admin import UpdateBrokerConfig


async def update_broker_config(admin: Admin, address: str, options: Mapping[str, str]) -> None:
    """Sets options of one broker by Apache's names. Raises NoPermission for names on its black list."""
    await admin.call(address, UpdateBrokerConfig(format_properties(options).encode()))


async def set_options(admin: Admin, broker: str, options: Mapping[str, str]) -> list[str]:
    """Sets options of the brokers of a name, or of the one at `host:port`; gives their addresses.

    All of them, or none if one is refused. Raises OptionError for a name that there is not.
    """
    addresses = await admin.addresses(broker)
    await _check_names(admin, addresses[0], options)
    for address in addresses:
        await update_broker_config(admin, address, options)
    return addresses


@command("broker", "set", "orbitmq admin broker set broker-a brokerPermission=4")
@click.argument("broker")
@click.argument("assignments", metavar="NAME=VALUE...", nargs=-1, required=True)
async def show(admin: Admin, broker: str, assignments: tuple[str, ...]) -> Done:
    """Set options of BROKER, a name or HOST:PORT. If one is refused, none is set."""
    options = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{text}: expected NAME=VALUE")
        options[name] = value
    addresses = await set_options(admin, broker, options)
    return Done(
        f"set {', '.join(options)} on {', '.join(addresses)}", {"options": options, "brokers": addresses}
    )


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
