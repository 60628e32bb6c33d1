"""Writing rows: a field of a settings class is an option that code reads; `apache.json` lists all others."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from inspect import get_annotations
from types import UnionType
from typing import Annotated, ClassVar, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from orbitmq.options.option import Option, Status, Value

Long: TypeAlias = Annotated[int, "long"]
"""The type of a field whose option has 64 bits; `int` has 32."""

_ROW = "option"
_JAVA_TYPES: dict[object, str] = {bool: "boolean", int: "int", Long: "long", float: "double", str: "String"}


_VALUE = TypeVar("_VALUE", bound=Value)


def option(
    default: _VALUE,
    doc: str,
    *,
    name: str | None = None,
    java_type: str | None = None,
    owner: str | None = None,
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
) -> _VALUE:
    """A field of a settings class: an option that code reads.

    Unless given, name, type and owner follow from the field, its annotation and its class: `pull_size: Long`
    of a class with `owner="BrokerConfig"` is `pullSize`, a long of Apache's BrokerConfig. Code may read an
    option only to show it, or to refuse values by it: `status` says so.
    """

    def row(settings: type[Settings], key: str, annotation: object) -> Option:
        return Option(
            name or _camel_case(key),
            java_type or _java_type(annotation),
            default,
            doc,
            settings.owner if owner is None else owner,
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

    declared: _VALUE = field(default=default, metadata={_ROW: row})
    return declared


def _camel_case(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(word.capitalize() for word in others)


def _java_type(annotation: object) -> str:
    """Apache's name for the type of a field; a field that may be None has the type of its values."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(one for one in get_args(annotation) if one is not type(None))
    return _JAVA_TYPES[annotation]


@dataclass(kw_only=True)
class Settings:
    """Values of options. Subclasses declare a field per option that code reads.

    `unused` holds what was set and has no effect; `sources` says where each option that was set comes from.
    """

    owner: ClassVar[str] = ""
    """Apache's class whose properties the fields are; empty for OrbitMQ's own options."""

    unused: dict[str, Value] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def __init_subclass__(cls, owner: str = "") -> None:
        cls.owner = owner

    def complete(self) -> None:
        """Fills in what follows from other values. Raises OptionError for values that do not go together."""


def declared(settings: type[Settings]) -> list[Option]:
    """The rows that a settings class declares by its fields, inherited ones included."""
    annotations = get_type_hints(settings, include_extras=True)
    declaring = {name: base for base in reversed(settings.__mro__) for name in get_annotations(base)}
    rows = []
    for one in fields(settings):
        if row_of := one.metadata.get(_ROW):
            row = row_of(declaring[one.name], one.name, annotations[one.name])
            if row.key != one.name:
                raise TypeError(f"{settings.__name__}.{one.name} is not the option {row.name}")
            rows.append(row)
    return rows
