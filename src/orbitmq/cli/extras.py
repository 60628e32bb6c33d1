"""The error of a command whose packages an extra installs, where they are missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Set

import click

from orbitmq.extras import lacking


class ExtraMissing(click.ClickException):
    """The extra is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(lacking(what, package, extra))


@contextlib.contextmanager
def with_extra(what: str, extra: str, packages: Set[str]) -> Iterator[None]:
    """Raises ExtraMissing where the block imports one of the extra's `packages`, and it is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in packages:
            raise
        raise ExtraMissing(what, missing, extra) from None
