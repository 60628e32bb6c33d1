from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from orbitmq.cli.lazy import LazyGroup

PLACES = {
    "hello": (f"{__name__}:hello", "Says hello."),
    "absent": ("orbitmq.cli.no_such_module:run", "Is never imported for help."),
}


@click.command()
def hello() -> None:
    click.echo("hello there")


@pytest.fixture
def group() -> LazyGroup:
    return LazyGroup("tool", places=PLACES)


def test_help_lists_commands_without_importing_them(group: LazyGroup) -> None:
    shown = CliRunner().invoke(group, ["--help"])
    assert shown.exit_code == 0
    assert "Is never imported for help." in shown.output


def test_a_command_is_imported_when_it_is_called(group: LazyGroup) -> None:
    assert CliRunner().invoke(group, ["hello"]).output == "hello there\n"


def test_a_mistyped_command_is_an_error_with_the_nearest_one(group: LazyGroup) -> None:
    refused = CliRunner().invoke(group, ["helo"])
    assert refused.exit_code == 2
    assert "Did you mean 'hello'?" in refused.output
    assert "Did you mean" not in CliRunner().invoke(group, ["zzz"]).output
