"""`orbitmq admin`: all commands by subject."""

from __future__ import annotations

import importlib
import pkgutil

import click

from orbitmq.cli import admin as modules
from orbitmq.cli.admin.command import ALONE, COMMANDS, FIRST_EXAMPLES, SUBJECTS, epilog
from orbitmq.cli.lazy import SuggestingGroup

# Commands register themselves when their module is imported.
for _module in pkgutil.iter_modules(modules.__path__, f"{modules.__name__}."):
    if _module.name != __name__:
        importlib.import_module(_module.name)


@click.group(
    cls=SuggestingGroup,
    epilog="""\b
Examples:
  orbitmq admin cluster list
  orbitmq admin topic create flights --queues 8
  orbitmq admin group progress my-group --json
  orbitmq admin message key flights 2013-1-1-UA-1545-EWR""",
)
def admin() -> None:
    """Inspect and change brokers, topics, groups and messages, of OrbitMQ and of Apache RocketMQ."""


for _subject, _line in SUBJECTS.items():
    admin.add_command(
        SuggestingGroup(
            _subject, commands=COMMANDS[_subject], help=_line, epilog=epilog(FIRST_EXAMPLES[_subject])
        )
    )
for _command in ALONE.values():
    admin.add_command(_command)
