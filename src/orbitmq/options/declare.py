"""Writing rows: a field of a settings class is an option that code reads; all others are listed by reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from orbitmq.options.option import Option, Status, Value

_ROW = "option"
_GUARDED = re.compile(r"Path|Home|Dir$|PlugIn|Addr|Address|Provider|Credentials|User$|Whitelist")
"""Names of options that say where files or peers are, or who may do what: no update over the network."""


def option(
    name: str,
    kind: str,
    default: Value,
    doc: str,
    *,
    owner: str = "BrokerConfig",
    unit: str = "",
    apache_default: str | None = None,
    mutable: bool = False,
    reason: str = "",
    choices: tuple[str, ...] = (),
    only: tuple[Value, ...] = (),
    minimum: int | None = None,
    maximum: int | None = None,
    status: Status = Status.HONOURED,
    secret: bool = False,
) -> Any:
    """A field of a settings class: an option that code reads. The field is called `name` in snake case.

    `status` is another one where code reads it only to show it, or to refuse values by it.
    """
    row = Option(
        name,
        kind,
        default,
        doc,
        owner,
        unit,
        apache_default,
        mutable,
        status,
        reason,
        choices,
        only,
        minimum,
        maximum,
        secret,
    )
    return field(default=default, metadata={_ROW: row})


@dataclass(kw_only=True)
class Settings:
    """Values of options. Subclasses declare a field per option that code reads.

    `unused` holds what was set and has no effect; `sources` tells where each option that was set comes from.
    """

    unused: dict[str, Value] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def complete(self) -> None:
        """Fills in what follows from other values. Raises OptionError for values that do not go together."""


def declared(settings: type[Settings]) -> list[Option]:
    """The rows that a settings class declares by its fields, inherited ones included."""
    rows = []
    for one in fields(settings):
        row = one.metadata.get(_ROW)
        if row is None:
            continue
        if row.key != one.name or one.default is MISSING:
            raise TypeError(f"{settings.__name__}.{one.name} is not the option {row.name}")
        rows.append(row)
    return rows


def without_effect(reason: str, owner: str, *rows: tuple[str, str, Value] | Option) -> list[Option]:
    """Rows that are accepted and change nothing, for one reason: (name, type, Apache's default).

    Updates at run time are accepted as well, but for places and permissions.
    """
    listed = [_listed(row, owner, Status.NO_EFFECT, reason) for row in rows]
    return [replace(row, mutable=_GUARDED.search(row.name) is None) for row in listed]


def refused(reason: str, owner: str, *rows: tuple[str, str, Value] | Option) -> list[Option]:
    """Rows of which any value but the default is refused, for one reason: (name, type, default)."""
    listed = [_listed(row, owner, Status.REFUSED, reason) for row in rows]
    return [row if row.only else replace(row, only=(row.default, *_nothing(row))) for row in listed]


def _listed(row: tuple[str, str, Value] | Option, owner: str, status: Status, reason: str) -> Option:
    if isinstance(row, tuple):
        row = Option(*row)
    return replace(
        row, owner=row.owner if row.owner != "BrokerConfig" else owner, status=status, reason=reason
    )


def _nothing(row: Option) -> Iterable[Value]:
    """An empty text says as little as no text: it is what Apache's sample files hold."""
    return ("",) if row.default is None else ()
