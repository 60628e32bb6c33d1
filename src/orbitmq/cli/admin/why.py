"""Commands that give reasons: `orbitmq why`, which is `orbitmq admin group why`, too, for a group's backlog,
and `orbitmq admin acl explain` for what a user may do.
"""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.diagnosis.gathering import gather
from orbitmq.admin.diagnosis.rules import diagnose
from orbitmq.admin.output import Item, Items
from orbitmq.cli.admin.command import command
from orbitmq.plurals import counted


@command("group", "why", "orbitmq admin group why billing\norbitmq why billing\norbitmq why billing --json")
@click.argument("group")
async def show(admin: Admin, group: str) -> Items:
    """Tell why GROUP is behind, with evidence: the likeliest cause first.

    Looks at queues, members and brokers twice, 1.5 s apart.
    """
    evidence = await gather(admin, group)
    found = [
        (one.cause, str(one.sentence), [str(text) for text in one.evidence], str(one.advice))
        for one in diagnose(evidence)
    ]
    return Items(
        [Item(f"{sentence} [{cause}]", lines, advice) for cause, sentence, lines, advice in found],
        [dict(zip(("cause", "sentence", "evidence", "advice"), one, strict=True)) for one in found],
        f"lag {evidence.lag:,}, {counted(len(evidence.members), 'member')}, "
        f"{counted(len(evidence.queues), 'queue')}",
    )


@command(
    "acl",
    "explain",
    "orbitmq admin acl explain ann --resource Topic:orders --action pub\n"
    "orbitmq admin acl explain ann --resource Group:billing --action sub --source-ip 10.0.0.7",
)
@click.argument("user")
@click.option("--resource", required=True, help="Topic:NAME, Group:NAME or Cluster:NAME.")
@click.option(
    "--action",
    type=click.Choice(["pub", "sub", "create", "update", "delete", "get", "list"]),
    required=True,
    help="The action on it. Sending needs pub on the topic; consuming sub on topic and group.",
)
@click.option(
    "--source-ip", "source", default="", show_default=False, help="Address from which the user comes."
)
async def explain(admin: Admin, user: str, resource: str, action: str, source: str) -> Items:
    """Explain for every broker if USER may do something, and which rule decides."""
    from orbitmq.admin.diagnosis.access import explain_access  # only this command needs a broker's rules

    found = await explain_access(admin, user, resource, action, source)
    verdicts = {True: "allowed", False: "refused", None: "not known"}
    rows = [(one.broker, one.allowed, one.cause, str(one.sentence), str(one.advice)) for one in found]
    return Items(
        [
            Item(f"{broker}: {verdicts[allowed]} [{cause}]", [sentence], advice)
            for broker, allowed, cause, sentence, advice in rows
        ],
        [dict(zip(("broker", "allowed", "cause", "sentence", "advice"), one, strict=True)) for one in rows],
    )
