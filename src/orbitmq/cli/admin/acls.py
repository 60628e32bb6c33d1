"""`orbitmq admin acl ...`: what users may do. Every broker has rules of its own."""

from __future__ import annotations

from collections.abc import Sequence

import click

from orbitmq.admin.acls import copy_rules, delete_rules, list_rules, put_rules, rules_of, subject_of
from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.cli.admin.command import cluster_flags, command, confirm, yes_flag
from orbitmq.plurals import counted
from orbitmq.protocol.bodies.auth import AclInfo

ACTIONS = click.Choice(["all", "pub", "sub", "create", "update", "delete", "get", "list"])


COLUMNS = columns("broker subject policy resource actions sourceIps decision", sourceIps="Source IPs")


@command(
    "acl",
    "create",
    "orbitmq admin acl create ann --resource 'Topic:orders*' --action pub --action sub\n"
    "orbitmq admin acl create ann --resource Group:billing --action sub --source-ip 10.0.0.0/8",
)
@click.argument("user")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    required=True,
    help="Topic:NAME, Group:NAME or Cluster:NAME; NAME may end in *; * alone is everything. Repeatable.",
)
@click.option("--action", "actions", type=ACTIONS, multiple=True, required=True, help="Repeatable.")
@click.option(
    "--allow/--deny",
    "allows",
    default=True,
    help="Allow or deny these actions. If two equally specific rules differ, deny wins.",
)
@click.option(
    "--source-ip",
    "source_ips",
    multiple=True,
    help="Limit the rule to this source address or range. Repeatable.",
)
@click.option(
    "--default",
    "is_default",
    is_flag=True,
    help="Make it a default rule: it applies where no other rule matches.",
)
@cluster_flags
async def create(
    admin: Admin,
    user: str,
    resources: tuple[str, ...],
    actions: tuple[str, ...],
    allows: bool,
    source_ips: tuple[str, ...],
    is_default: bool,
    cluster: str | None,
    broker: str | None,
) -> Done:
    """Allow or deny USER actions on resources, on all brokers. A rule for the same resource is replaced."""
    found = await admin.brokers(cluster, broker)
    decision, policy = "Allow" if allows else "Deny", "Default" if is_default else "Custom"
    await admin.each(
        found,
        lambda one: put_rules(admin, one.address, user, resources, actions, decision, source_ips, policy),
    )
    return Done(
        f"{subject_of(user)}: {decision} {', '.join(actions)} on {', '.join(resources)}, on {_names(found)}",
        {"subject": subject_of(user), "resources": list(resources), "brokers": [one.name for one in found]},
    )


@command("acl", "delete", "orbitmq admin acl delete ann --resource 'Topic:orders*'")
@click.argument("user")
@click.option("--resource", metavar="TEXT", help="Remove only the rule for this resource.")
@click.option("--default", "is_default", is_flag=True, help="With --resource: remove the default rule.")
@yes_flag
@cluster_flags
async def delete(
    admin: Admin,
    user: str,
    resource: str | None,
    is_default: bool,
    yes: bool,
    cluster: str | None,
    broker: str | None,
) -> Done:
    """Remove the rules of USER from all brokers."""
    found = await admin.brokers(cluster, broker)
    what = (
        f"the rule of {subject_of(user)} about {resource}" if resource else f"all rules of {subject_of(user)}"
    )
    confirm(f"Remove {what} from {_names(found)}?", yes)
    policy = "Default" if is_default else "Custom"
    await admin.each(found, lambda one: delete_rules(admin, one.address, user, resource, policy))
    return Done(f"removed {what} from {_names(found)}", {"subject": subject_of(user), "resource": resource})


@command("acl", "get", "orbitmq admin acl get ann")
@click.argument("user")
@cluster_flags
async def get(admin: Admin, user: str, cluster: str | None, broker: str | None) -> Rows:
    """The rules of USER on every broker."""
    found = await admin.brokers(cluster, broker)
    acls = await admin.each(found, lambda one: rules_of(admin, one.address, user))
    return Rows(
        COLUMNS,
        [row for one, acl in zip(found, acls, strict=True) if acl is not None for row in _rows(one, acl)],
    )


@command("acl", "list", "orbitmq admin acl list\norbitmq admin acl list --resource Topic:orders --json")
@click.option("--subject", metavar="TEXT", help="Only users whose name contains this.")
@click.option("--resource", metavar="TEXT", help="Only rules whose resource contains this.")
@cluster_flags
async def show_all(
    admin: Admin, subject: str | None, resource: str | None, cluster: str | None, broker: str | None
) -> Rows:
    """All rules."""
    found = await admin.brokers(cluster, broker)
    lists = await admin.each(found, lambda one: list_rules(admin, one.address, subject, resource))
    return Rows(
        COLUMNS,
        [row for one, acls in zip(found, lists, strict=True) for acl in acls for row in _rows(one, acl)],
    )


@command("acl", "copy", "orbitmq admin acl copy 10.0.0.1:10911 10.0.0.2:10911")
@click.argument("source")
@click.argument("target")
@click.argument("users", nargs=-1)
async def copy(admin: Admin, source: str, target: str, users: tuple[str, ...]) -> Done:
    """Copy rules from the broker at SOURCE to the broker at TARGET: all rules, or those of USERS."""
    copied = await copy_rules(admin, source, target, users)
    return Done(
        f"copied the rules of {counted(len(copied), 'user')} from {source} to {target}",
        {"subjects": copied, "source": source, "target": target},
    )


def _rows(one: BrokerAt, acl: AclInfo) -> list[list[str | list[str] | None]]:
    return [
        [
            one.name,
            acl.subject,
            policy.policy_type,
            entry.resource,
            entry.actions,
            entry.source_ips,
            entry.decision,
        ]
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    ]


def _names(found: Sequence[BrokerAt]) -> str:
    return ", ".join(one.name for one in found)
