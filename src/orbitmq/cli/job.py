"""`orbitmq job`: the jobs on Spark. Things they need are looked for only when one is called."""

from __future__ import annotations

import click

from orbitmq.cli.lazy import LazyGroup
from orbitmq.spark.jobs import JOBS

NEEDED = frozenset({"pyspark", "py4j", "pyarrow", "pandas"})
"""Packages of the extra `spark`."""


class SparkMissing(click.ClickException):
    """The extra is not installed."""

    def __init__(self, name: str, missing: str) -> None:
        super().__init__(
            f"`orbitmq job {name}` runs on Spark, and {missing} is not installed: "
            "pip install 'orbitmq[spark]'"
        )


class Jobs(LazyGroup):
    """The jobs by name."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return super().get_command(ctx, cmd_name)
        except ModuleNotFoundError as error:
            raise _missing_package(cmd_name, error) from None

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise _missing_package(ctx.invoked_subcommand or "NAME", error) from error


def _missing_package(name: str, error: ModuleNotFoundError) -> Exception:
    missing = (error.name or "").partition(".")[0]
    return SparkMissing(name, missing) if missing in NEEDED else error


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
