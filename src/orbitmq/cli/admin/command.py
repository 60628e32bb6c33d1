"""`@command` makes a click command of a function `async (admin, ...) -> Result`."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import click

from orbitmq.access import Access
from orbitmq.admin.admin import Admin
from orbitmq.admin.output import Result, show
from orbitmq.flags import Seconds, access_flags, all_of

CommandFunction = Callable[..., Awaitable[Result]]

SUBJECTS = {
    "cluster": "Clusters and their brokers",
    "broker": "One broker: metrics, options and role",
    "ha": "Masters and slaves",
    "topic": "Topics",
    "group": "Consumer groups and their progress",
    "lite": "Lite topics, their groups and clients",
    "message": "Look up messages",
    "delay": "Messages that wait in brokers (those of the delay service: orbitmq delay)",
    "transaction": "Half messages without a decision",
    "controller": "Controllers, and the masters that they elect",
    "namesrv": "Name servers: options",
    "store": "The consensus store of controllers: backup and restore",
    "kv": "The name servers' key-value configuration",
    "stats": "Rates and backlogs",
    "migrate": "A live cluster from Apache RocketMQ to OrbitMQ, or back",
    "user": "Users of brokers with access control",
    "acl": "Permissions of users",
}
COMMANDS: dict[str, dict[str, click.Command]] = {subject: {} for subject in SUBJECTS}
"""Subject -> name -> command, filled by importing the modules of `orbitmq.cli.admin`."""
FIRST_EXAMPLES: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
"""Subject -> the first example of each of its commands, filled alike."""
ALONE: dict[str, click.Command] = {}
"""Commands that belong to no subject, by name: they ask no server. Filled alike."""


def command(subject: str, name: str, examples: str) -> Callable[[CommandFunction], click.Command]:
    """Registers `orbitmq admin <subject> <name>`. The function's docstring is its help.

    Of the examples, a line each, the first one stands in the help of the subject, too.
    """

    def register(function: CommandFunction) -> click.Command:
        parameters = getattr(function, "__click_params__", [])

        @functools.wraps(function)
        def run(namesrv: str, as_json: bool, timeout: float, access: Access, **values: Any) -> None:
            async def act() -> Result:
                async with Admin(namesrv, timeout_ms=int(timeout * 1000), **access.options) as admin:
                    return await function(admin, **values)

            try:
                result = asyncio.run(act())
            except BaseExceptionGroup as group:
                raise _first(group) from None
            show(result, as_json)

        run.__click_params__ = [*_common_flags(), *parameters]  # type: ignore[attr-defined]
        lines = examples.splitlines()
        first_sentence = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
        made = click.command(name, epilog=epilog(lines), short_help=first_sentence)(access_flags(run))
        COMMANDS[subject][name] = made
        FIRST_EXAMPLES[subject].append(lines[0])
        return made

    return register


def epilog(examples: Sequence[str]) -> str:
    """The end of a command's help."""
    return "\b\nExamples:" + "".join(f"\n  {line}" for line in examples)


def _common_flags() -> list[click.Parameter]:
    return [
        click.Option(
            ["--timeout"], type=Seconds(0.1), default=5.0, help="Timeout of one request to a server."
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
    ]


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    """The first single error in a tree of errors: one line says enough."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


cluster_flags = all_of(
    click.option("-c", "--cluster", metavar="NAME", help="Only this cluster."),
    click.option("-b", "--broker", metavar="NAME|HOST:PORT", help="Only this broker."),
)
"""The brokers that a command is about; all without either flag."""

yes_flag = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
"""Before something is lost."""


def confirm(question: str, yes: bool) -> None:
    """Asks, unless confirmation was given by a flag; no answer is no. Raises click.Abort."""
    if not yes:
        click.confirm(question, abort=True, err=True)


def confirm_stopped(is_said: bool) -> Callable[[str], Awaitable[bool]]:
    """Asks at the terminal about an old master; without one only the flag --master-stopped confirms."""

    async def ask(question: str) -> bool:
        if is_said or not sys.stdin.isatty():
            return is_said
        return await asyncio.to_thread(click.confirm, question, default=False, err=True)

    return ask
