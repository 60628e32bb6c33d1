"""Commands and what all of them share: help, examples, flags, moments in time."""

import click
import pytest

from orbitmq.cli.admin.app import admin as admin_group
from orbitmq.cli.admin.command import ALONE, COMMANDS
from orbitmq.flags import Moment

AT_THE_TOP = {"migrate"}
"""Subjects that are commands of `orbitmq`, too, and shown as such."""
OF_STORES = {"store"}
"""Subjects whose commands ask a consensus store, and no name server."""


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
            common = {"as_json"} if subject in OF_STORES else {"namesrv", "as_json", "timeout"}
            assert common <= {parameter.name for parameter in command.params}


@pytest.mark.parametrize(
    ("text", "ms"), [("1795260076483", 1795260076483), ("1970-01-01T00:00:01+00:00", 1000)]
)
def test_moments(text: str, ms: int) -> None:
    assert Moment().convert(text, None, None) == ms


def test_texts_that_are_no_moment() -> None:
    with pytest.raises(Exception, match="is no time: now, latest, today"):
        Moment().convert("the other day", None, None)


def test_words_for_times() -> None:
    moment = Moment()
    now, day_ms = moment.convert("now", None, None), 24 * 3_600_000
    assert moment.convert("earliest", None, None) == 0
    assert moment.convert("latest", None, None) >= now
    today, yesterday = (moment.convert(word, None, None) for word in ("today", "yesterday"))
    assert yesterday < today <= moment.convert("now", None, None)
    assert abs(today - yesterday - day_ms) <= 2 * 3_600_000, "a day, also where clocks change"
