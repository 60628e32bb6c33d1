"""`orbitmq admin user ...`: users of brokers with access control. Every broker has users of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.admin.users import NoSuchUser, copy_users, create_user, delete_user, list_users, update_user
from orbitmq.cli.admin.command import cluster_flags, command, confirm, yes_flag
from orbitmq.plurals import counted
from orbitmq.protocol.bodies.auth import UserInfo
from orbitmq.protocol.requests.auth import (
    AuthGetUser,
)

TYPES = click.Choice(["normal", "super"])


COLUMNS = columns("broker user type status")


def read_password(file: str | None, *, asked: bool) -> str | None:
    """A password from a file's first line, `-` being standard input, or asked for."""
    if file is None:
        if not asked:
            return None
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to ask for a password: give --password-file")
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    if file == "-":
        line = sys.stdin.readline()
    else:
        try:
            with open(file, encoding="utf-8") as opened:
                line = opened.readline()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise click.UsageError(f"--password-file {file}: {reason}") from None
    password = line.rstrip("\r\n")
    if not password:
        raise click.UsageError("the password is empty")
    return password


password_file_flag = click.option(
    "--password-file",
    metavar="FILE",
    help="Read the password from the first line of this file; - is standard input.",
)


@command("user", "create", "orbitmq admin user create ann --password-file ann.secret")
@click.argument("name")
@password_file_flag
@click.option(
    "--type",
    "kind",
    type=TYPES,
    default="normal",
    help="A super user may do everything; a normal user needs rules.",
)
@cluster_flags
async def create(
    admin: Admin, name: str, password_file: str | None, kind: str, cluster: str | None, broker: str | None
) -> Done:
    """Create user NAME on all brokers. The command asks for the password, or reads it from a file."""
    password = read_password(password_file, asked=True)
    assert password is not None
    found = await admin.brokers(cluster, broker)
    await admin.each(found, lambda one: create_user(admin, one.address, name, password, kind))
    return Done(f"user {name} is there on {_names(found)}", {"user": name, "brokers": _list(found)})


@command("user", "update", "orbitmq admin user update ann --disable")
@click.argument("name")
@password_file_flag
@click.option("--password", "asks", is_flag=True, help="Ask for a new password.")
@click.option("--type", "kind", type=TYPES, help="New type of the user.")
@click.option("--enable/--disable", "enabled", default=None, help="Let the user sign in, or not.")
@cluster_flags
async def update(
    admin: Admin,
    name: str,
    password_file: str | None,
    asks: bool,
    kind: str | None,
    enabled: bool | None,
    cluster: str | None,
    broker: str | None,
) -> Done:
    """Change the given settings of user NAME on all brokers."""
    password = read_password(password_file, asked=asks)
    if password is None and kind is None and enabled is None:
        raise click.UsageError("nothing to change: give --password, --password-file, --type or --disable")
    status = None if enabled is None else "enable" if enabled else "disable"
    found = await admin.brokers(cluster, broker)
    await admin.each(found, lambda one: update_user(admin, one.address, name, password, kind, status))
    return Done(f"user {name} is changed on {_names(found)}", {"user": name, "brokers": _list(found)})


@command("user", "delete", "orbitmq admin user delete ann")
@click.argument("name")
@yes_flag
@cluster_flags
async def delete(admin: Admin, name: str, yes: bool, cluster: str | None, broker: str | None) -> Done:
    """Remove user NAME and its rules from all brokers."""
    found = await admin.brokers(cluster, broker)
    confirm(f"Remove user {name} from {_names(found)}?", yes)
    await admin.each(found, lambda one: delete_user(admin, one.address, name))
    return Done(f"user {name} is gone from {_names(found)}", {"user": name, "brokers": _list(found)})


@command("user", "get", "orbitmq admin user get ann")
@click.argument("name")
@cluster_flags
async def get(admin: Admin, name: str, cluster: str | None, broker: str | None) -> Rows:
    """User NAME on every broker that has it, without secrets."""
    found = await admin.brokers(cluster, broker)

    async def ask(one: BrokerAt) -> UserInfo | None:
        return (await admin.call(one.address, AuthGetUser(name))).body

    users = zip(found, await admin.each(found, ask), strict=True)
    rows = [_row(one, user) for one, user in users if user is not None]
    if not rows:
        raise NoSuchUser(f"there is no user {name} on {_names(found)}")
    return Rows(COLUMNS, rows)


@command("user", "list", "orbitmq admin user list\norbitmq admin user list --filter ann --json")
@click.option("--filter", "part", metavar="TEXT", help="Only users whose name contains this.")
@cluster_flags
async def show_all(admin: Admin, part: str | None, cluster: str | None, broker: str | None) -> Rows:
    """All users, without secrets."""
    found = await admin.brokers(cluster, broker)
    lists = await admin.each(found, lambda one: list_users(admin, one.address, part))
    return Rows(COLUMNS, [_row(one, user) for one, users in zip(found, lists, strict=True) for user in users])


@command("user", "copy", "orbitmq admin user copy 10.0.0.1:10911 10.0.0.2:10911 ann bob")
@click.argument("source")
@click.argument("target")
@click.argument("names", nargs=-1)
async def copy(admin: Admin, source: str, target: str, names: tuple[str, ...]) -> Done:
    """Copy users from the broker at SOURCE to the broker at TARGET: all users, or NAMES."""
    copied = await copy_users(admin, source, target, names)
    return Done(
        f"copied {counted(len(copied), 'user')} from {source} to {target}",
        {"users": copied, "source": source, "target": target},
    )


def _row(one: BrokerAt, user: UserInfo) -> list[str | None]:
    return [one.name, user.username, user.user_type, user.user_status]


def _names(found: Sequence[BrokerAt]) -> str:
    return ", ".join(_list(found))


def _list(found: Sequence[BrokerAt]) -> list[str]:
    return [one.name for one in found]
