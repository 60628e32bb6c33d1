"""`orbitmq admin transaction ...`: half messages without a decision."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.admin.waiting.transactions import check_again, transactions
from orbitmq.cli.admin.command import command
from orbitmq.plurals import counted


@command("transaction", "list", "orbitmq admin transaction list --json")
async def show(admin: Admin) -> Rows:
    """Open half messages, the oldest first, and those that brokers no longer ask about."""
    found = await transactions(admin)
    notes = [
        f"{counted(len(found.open), 'open half message')}, {len(found.given_up)} given up",
        *found.errors,
    ]
    if not found.is_complete:
        notes.append("There are more: not everything was read.")
    return Rows(
        columns(
            "state topic group born checks broker messageId",
            times="born",
            group="Producer group",
            born="Sent",
        ),
        [
            (
                state,
                one.topic,
                one.group,
                one.message.born_timestamp,
                one.checks,
                one.broker,
                one.message.offset_id,
            )
            for state, halves in (("open", found.open), ("given up", found.given_up))
            for one in halves
        ],
        "\n".join(notes),
    )


@command("transaction", "check", "orbitmq admin transaction check broker-a 7F00000100002A9F0000000000000000")
@click.argument("broker")
@click.argument("message_id")
async def check(admin: Admin, broker: str, message_id: str) -> Done:
    """Have BROKER ask the producers about a half message again, from the start, by its message id."""
    await check_again(admin, broker, message_id)
    return Done(f"{broker} asks about {message_id} again", {"broker": broker, "messageId": message_id})
