"""Answers derived from results of `admin`: as JSON, a dataclass has its values by names in camel case."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import types
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Union, get_args, get_origin

import msgspec

from orbitmq.admin.results import values_of

Convert = Callable[[Any], Any]
_LISTS = (list, tuple, deque, collections.abc.Sequence)
_MAPS = (dict, collections.abc.Mapping)


def derived(kind: Any) -> tuple[Any, Convert | None]:
    """The type that describes values of an annotation as JSON, and the function that makes these.

    A deque has the last ones of many: the newest comes first. Without a function values are described and
    encoded as they are. Message bodies cannot be shown by mistake: msgspec knows no schema of a stored
    message, so that its description fails.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in _LISTS:
        inner, convert = derived(arguments[0])
        if convert is None and origin is not deque:
            return kind, None
        make: Convert = convert or (lambda value: value)
        order: Convert = reversed if origin is deque else iter
        return types.GenericAlias(list, inner), lambda values: [make(one) for one in order(values)]
    if origin in _MAPS:
        inner, convert = derived(arguments[1])
        if convert is None:
            return kind, None
        changed = convert
        return types.GenericAlias(dict, (arguments[0], inner)), lambda values: {
            key: changed(one) for key, one in values.items()
        }
    if origin in (Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        inner, convert = derived(arguments[0])
        if convert is None:
            return kind, None
        known = convert
        return inner | None, lambda value: None if value is None else known(value)
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
        return _structure(kind)
    return kind, None


@functools.cache
def _structure(kind: Any) -> tuple[type[Any], Convert | None]:
    """The same of a dataclass, or of a structure that has results in it."""
    if issubclass(kind, msgspec.Struct):
        rows = [(one.name, one.name, one.encode_name, one.type) for one in msgspec.structs.fields(kind)]
        is_plain = True
    else:
        values = values_of(kind)
        rows = [(one.name, one.path, name, one.kind) for name, one in values.items()]
        own = [one.name for one in dataclasses.fields(kind)]
        is_plain = [name for name, *_ in rows] == own and all(path == shown for _, path, shown, _ in rows)
        # Only such a type may be within itself: its parts are described as they are.
        if is_plain and any(kind in _parts(inner) for *_, inner in rows):
            return kind, None
    parts = [derived(inner) for *_, inner in rows]
    nested = [(index, convert) for index, (_, convert) in enumerate(parts) if convert is not None]
    if is_plain and not nested:
        return kind, None
    shape: Any = msgspec.defstruct(
        kind.__name__,
        [(name, part) for (name, *_), (part, _) in zip(rows, parts, strict=True)],
        rename={name: shown for name, _, shown, _ in rows},
        namespace={"__doc__": kind.__doc__},
    )
    # Two names at least, for a single one would give its value alone.
    get = attrgetter(*(path for _, path, *_ in rows), "__class__")

    def convert(value: Any) -> Any:
        got = list(get(value))[:-1]
        for index, change in nested:
            got[index] = change(got[index])
        return shape(*got)

    return shape, convert


def _parts(kind: Any) -> set[Any]:
    return {kind}.union(*map(_parts, get_args(kind)))
