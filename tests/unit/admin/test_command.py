"""Commands and what all of them share: help, examples, flags, moments in time."""

import click
import pytest

from orbitmq.admin.app import admin as admin_group
from orbitmq.admin.command import ALONE, COMMANDS, Moment

AT_THE_TOP = {"migrate"}
"""Subjects that are commands of `orbitmq`, too, and shown as such."""


def test_every_subject_has_commands_and_every_command_help_json_and_namesrv() -> None:
    assert all(COMMANDS.values())
    assert set(admin_group.commands) == {*COMMANDS, *ALONE}
    for subject, commands in COMMANDS.items():
        for name, command in commands.items():
            assert command.help, name
            program = "orbitmq" if subject in AT_THE_TOP else "orbitmq admin"
            assert f"Examples:\n  {program} {subject} {name}" in (command.epilog or "")
            silent = [one.name for one in command.params if isinstance(one, click.Option) and not one.help]
            assert not silent, f"{name}: {silent}"
            assert {"namesrv", "as_json", "timeout"} <= {parameter.name for parameter in command.params}


@pytest.mark.parametrize(
    ("text", "ms"), [("1795260076483", 1795260076483), ("1970-01-01T00:00:01+00:00", 1000)]
)
def test_moments(text: str, ms: int) -> None:
    assert Moment().convert(text, None, None) == ms


def test_texts_that_are_no_moment() -> None:
    with pytest.raises(Exception, match="neither `now`"):
        Moment().convert("yesterday", None, None)
