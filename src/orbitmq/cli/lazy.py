"""Groups of commands.

A lazy one imports the modules of its commands when they are called: a server starts without the tools.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


class SuggestingGroup(click.Group):
    """Suggests a command where there is none of a name."""

    def near(self, ctx: click.Context, name: str) -> str | None:
        """The command that may have been meant."""
        from difflib import get_close_matches

        names = self.list_commands(ctx)
        longer = [one for one in names if one.startswith(f"{name}-")]
        return next(iter(longer or get_close_matches(name, names, n=1)), None)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = self.near(ctx, args[0])
            if near is None or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near!r}?", ctx) from None


class LazyGroup(SuggestingGroup):
    """`places` says for each command `module:attribute` and the line that `--help` shows."""

    def __init__(self, *args: Any, places: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place[0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.places:
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.places.items()])
