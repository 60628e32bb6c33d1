"""`orbitmq job`: the jobs on Spark. Things they need are looked for only when one is called."""

from __future__ import annotations

import importlib.util

import click

from orbitmq.cli.extras import ExtraMissing
from orbitmq.cli.lazy import LazyGroup
from orbitmq.spark.jobs import JOBS

NEEDED = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "fsspec", "duckdb", "jinja2", "matplotlib"})
"""Packages of the extra `jobs`, with those of `spark`."""
FIRST = ("pyspark", "pyarrow", "pandas")
"""Packages without which no job runs, looked for before anything else is done."""
HELP = frozenset({"--help", "-h"})


class Jobs(LazyGroup):
    """The jobs by name."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return super().get_command(ctx, cmd_name)
        except ModuleNotFoundError as error:
            raise _missing_package(cmd_name, error) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and not HELP & set(args):
            _require_spark(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise _missing_package(ctx.invoked_subcommand or "NAME", error) from error


def _require_spark(name: str) -> None:
    for package in FIRST:
        try:
            found = importlib.util.find_spec(package)
        except (ModuleNotFoundError, ValueError):
            found = None
        if found is None:
            raise _missing(name, package)


def _missing(name: str, package: str) -> ExtraMissing:
    return ExtraMissing(f"`orbitmq job {name}`", package, "jobs")


def _missing_package(name: str, error: ModuleNotFoundError) -> Exception:
    missing = (error.name or "").partition(".")[0]
    return _missing(name, missing) if missing in NEEDED else error


@click.group(
    cls=Jobs,
    places=JOBS,
    epilog="""\b
Examples:
  orbitmq job archive --topic orders --lake ./lake
  orbitmq job archive --help""",
)
def job() -> None:
    """Run a job on Spark: on this machine, on a cluster (--master) or through Spark Connect (--remote)."""
