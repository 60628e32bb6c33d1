"""Checks of arguments where they are given; the error names the class, the argument and what it takes.

The types of options are those that their dataclass declares: one rule for all of them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.net.errors import BadAddress
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import IllegalName

MAX_SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """A value as an error shows it: its repr, cut where it is long."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "..."


def check_types(options: Any) -> None:
    """Raises InvalidArgument for a field of a dataclass whose value is not of the declared type."""
    kind: type = type(options)
    for name, wanted, takes in _declared(kind):
        value = getattr(options, name)
        if not _fits(value, wanted):
            raise InvalidArgument(
                f"{type(options).__name__}: {name} has to be {takes or _named(wanted)}, not {shown(value)}"
            )


@contextlib.contextmanager
def naming(options: object, name: str) -> Iterator[None]:
    """Puts the class and the argument before the text of an IllegalName or a BadAddress."""
    try:
        yield
    except (IllegalName, BadAddress) as error:
        raise type(error)(f"{type(options).__name__}: {name}: {error}") from None


def check_within(options: Any, name: str, low: float, high: float) -> None:
    """Raises InvalidArgument for a number outside its range."""
    value = getattr(options, name)
    if not low <= value <= high:
        raise InvalidArgument(f"{type(options).__name__}: {name} has to be from {low} to {high}, not {value}")


def check_number(owner: str, name: str, value: object, low: float, high: float = math.inf) -> None:
    """Raises InvalidArgument for what is no number, or one outside its range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        limit = f"from {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise InvalidArgument(f"{owner}: {name} has to be a number {limit}, not {shown(value)}")


def check_queue(owner: str, queue: object) -> None:
    """Raises InvalidArgument for what is no MessageQueue."""
    if not isinstance(queue, MessageQueue):
        raise InvalidArgument(
            f"{owner}: queue has to be a MessageQueue, as `queues(topic)` gives them, not {shown(queue)}"
        )


def check_route(
    owner: str, queue: object, selector: object, sharding_key: object, timeout_ms: object = None
) -> None:
    """Raises InvalidArgument for arguments of a send that say neither where to nor how long."""
    if queue is not None:
        check_queue(owner, queue)
    if selector is not None and not callable(selector):
        raise InvalidArgument(
            f"{owner}: selector has to be a function of queues and message, not {shown(selector)}"
        )
    if sharding_key is not None and not isinstance(sharding_key, str):
        raise InvalidArgument(f"{owner}: sharding_key has to be a text, not {shown(sharding_key)}")
    if timeout_ms is not None:
        check_number(owner, "timeout_ms", timeout_ms, 1)


def check_texts(owner: str, name: str, texts: Mapping[str, str]) -> None:
    """Raises InvalidArgument for properties that are not text to text."""
    if not isinstance(texts, Mapping):
        raise InvalidArgument(f"{owner}: {name} has to be a mapping of str to str, not {shown(texts)}")
    for key, value in texts.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidArgument(f"{owner}: {name} are text to text, not {shown(key)}: {shown(value)}")


@functools.cache
def _declared(kind: type) -> tuple[tuple[str, Any, str], ...]:
    """The fields of a dataclass that this package declares, with their types, and names of their values."""
    declared: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("orbitmq."):
            declared.update(inspect.get_annotations(base, eval_str=True))
    return tuple(
        (row.name, declared[row.name], row.metadata.get("takes", ""))
        for row in fields(kind)
        if row.name in declared
    )


def _fits(value: object, wanted: Any) -> bool:
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in typing.get_args(wanted))
    if origin is Callable:
        return callable(value)
    if origin is Sequence:
        (element,) = typing.get_args(wanted)
        return isinstance(value, list | tuple) and all(_fits(one, element) for one in value)
    if wanted is None or wanted is types.NoneType:
        return value is None
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool | Enum)
    return isinstance(value, wanted)


def _named(wanted: Any) -> str:
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        return _either([_named(one) for one in typing.get_args(wanted)])
    if origin is Callable:
        return "a function"
    if origin is Sequence:
        return f"a list, each {_named(typing.get_args(wanted)[0])}"
    if wanted is types.NoneType:
        return "None"
    if issubclass(wanted, Enum):
        return _either([f"{wanted.__name__}.{member.name}" for member in wanted])
    return {str: "a text", int: "a whole number", bool: "True or False"}.get(wanted, f"a {wanted.__name__}")


def _either(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))
