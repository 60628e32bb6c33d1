"""`orbitmq admin group connections`: who consumes in a group, and what it subscribes to."""

from __future__ import annotations

from collections.abc import Sequence

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import command
from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.bodies.heartbeat import ConsumerConnection
from orbitmq.protocol.errors import ConsumerNotOnline
from orbitmq.protocol.remoting.versions import version_name
from orbitmq.protocol.requests.client import GetConsumerConnectionList


async def group_connections(
    admin: Admin, group: str, brokers: Sequence[BrokerAt] | None = None
) -> ConsumerConnection:
    """The members of a group: every member is connected to every broker, but the first may not know all yet.

    `brokers` are the ones to ask; all masters where they are not given. Raises ConsumerNotOnline if no broker
    knows a member.
    """
    merged: ConsumerConnection | None = None
    refused: ConsumerNotOnline | None = None
    for one in brokers or await admin.masters():
        try:
            found = (await admin.call(one.address, GetConsumerConnectionList(group))).body
        except ConsumerNotOnline as error:
            refused = error
            continue
        if merged is None:
            merged = found
        else:
            known = {member.client_id for member in merged.connection_set}
            merged.connection_set += [new for new in found.connection_set if new.client_id not in known]
            merged.subscription_table = {**found.subscription_table, **merged.subscription_table}
    if merged is None:
        assert refused is not None
        raise refused
    return merged


@command("group", "connections", "orbitmq admin group connections billing")
@click.argument("group")
async def show(admin: Admin, group: str) -> Rows:
    """The clients of GROUP and what they subscribe to."""
    found = await group_connections(admin, group)
    subscriptions = {topic: one.sub_string for topic, one in sorted(found.subscription_table.items())}
    kind = (
        f"{_name(found.consume_type)}, {_name(found.message_model)}, from {_name(found.consume_from_where)}"
    )
    return Rows(
        (
            Column("clientId", "Client"),
            Column("address", "Address"),
            Column("language", "Language"),
            Column("version", "Version"),
            Column("subscriptions", "Subscriptions"),
        ),
        [
            (
                member.client_id,
                member.client_addr,
                _name(member.language),
                version_name(member.version),
                subscriptions,
            )
            for member in sorted(found.connection_set, key=lambda one: one.client_id)
        ],
        kind,
    )


def _name(value: object) -> str:
    return getattr(value, "name", "-")
