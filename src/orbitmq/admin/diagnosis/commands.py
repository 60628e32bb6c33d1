"""`orbitmq why`, which is `orbitmq admin group why`, too: the reason for a group's backlog."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.diagnosis.gathering import gather
from orbitmq.admin.diagnosis.rules import diagnose
from orbitmq.admin.face import face
from orbitmq.admin.output import Column, Rows
from orbitmq.plurals import counted


@face("group", "why", "orbitmq admin group why billing\norbitmq why billing\norbitmq why billing --json")
@click.argument("group")
async def show(admin: Admin, group: str) -> Rows:
    """Tell why GROUP is behind, with evidence: the likeliest cause first.

    Looks at queues, members and brokers twice, 1.5 s apart.
    """
    evidence = await gather(admin, group)
    return Rows(
        (
            Column("cause", "Cause"),
            Column("sentence", "Explanation"),
            Column("evidence", "Evidence"),
            Column("advice", "Advice"),
        ),
        [(one.cause, one.sentence, list(one.evidence), one.advice) for one in diagnose(evidence)],
        f"lag {evidence.lag}, {counted(len(evidence.members), 'member')}, "
        f"{counted(len(evidence.queues), 'queue')}",
    )
