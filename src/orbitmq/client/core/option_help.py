"""Options in `help(Producer)`: the texts below the fields, which Python itself does not keep."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class _Documented:
    """A docstring that ends with the options; it is made when somebody asks for it."""

    def __init__(self, text: str | None, options: type) -> None:
        self._text = text
        self._options = options

    def __get__(self, instance: object, owner: type | None = None) -> str | None:
        if self._text is None:
            return None  # python -OO leaves out all docstrings
        return "\n\n".join([inspect.cleandoc(self._text), "Options:", *option_texts(self._options)])


def documented(options: type | None = None) -> Callable[[type[T]], type[T]]:
    """Decorator of a class whose docstring gets the options of `options`, or its own."""

    def decorate(cls: type[T]) -> type[T]:
        text = cls.__doc__
        vars_of: Any = cls
        vars_of.__doc__ = _Documented(text, options or cls)
        return cls

    return decorate


@functools.cache
def option_texts(cls: type) -> tuple[str, ...]:
    """Name, type, default and meaning of every option of a class, in the order of its constructor."""
    texts: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("orbitmq.") and dataclasses.is_dataclass(base):
            texts.update(_declared(base))
    listed = []
    for row in dataclasses.fields(cls):
        if row.name in texts and row.init:
            kind, meaning = texts[row.name]
            default = "" if row.default is dataclasses.MISSING else f" = {row.default!r}"
            listed.append(f"  {row.name}: {kind}{default}\n{textwrap.indent(meaning, '      ')}")
    return tuple(listed)


def _declared(base: type) -> dict[str, tuple[str, str]]:
    """The fields of one class, each with its type, and with the text below it."""
    try:
        source = textwrap.dedent(inspect.getsource(base))
    except (OSError, TypeError):
        return {}  # no sources are installed
    (found,) = ast.parse(source).body
    assert isinstance(found, ast.ClassDef)
    declared = {}
    for field, text in zip(found.body, [*found.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        meaning = ""
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            meaning = inspect.cleandoc(str(text.value.value))
        declared[field.target.id] = ast.unparse(field.annotation), meaning
    return declared
