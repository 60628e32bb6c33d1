"""`orbitmq admin message life`: all that is known of one message."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.output import Rows, columns
from orbitmq.cli.admin.command import command


@command("message", "life", "orbitmq admin message life flights 7F000001C4D818B4AAC20B5A7E3C0000")
@click.argument("topic")
@click.argument("unique_id")
async def by_life(admin: Admin, topic: str, unique_id: str) -> Rows:
    """Tell the life of a message of TOPIC: sent, stored, delivered, retried, given up, sent again."""
    from orbitmq.admin.reading.life import life_of  # only this command needs the letters, and their filters

    life = await life_of(admin, topic, unique_id)
    return Rows(
        columns(
            "at step sentence source messageId",
            times="at",
            at="Time",
            sentence="What happened",
            source="Known from",
        ),
        [(one.at_ms or 0, one.step, one.sentence, one.source, one.message_id or None) for one in life.events],
        "\n".join(life.missing),
    )
