"""The pages of the Python API, `docs/develop/api/`: every public name with its signature and docstring."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from typing import Any

from orbitmq.client.core.option_help import option_texts

MOST_CHARACTERS = 110
MODULES = {
    "orbitmq": "Producers, consumers, messages and errors, with asyncio.",
    "orbitmq.sync": "Producers and consumers without asyncio. All other names are those of `orbitmq`.",
    "orbitmq.serializers": "Bodies as objects: JSON, pydantic, msgspec, Avro, and your own.",
    "orbitmq.telemetry": "Traces and metrics of clients for OpenTelemetry.",
    "orbitmq.idempotence": "Handlers with exactly one effect for each message, in your own database.",
    "orbitmq.outbox": "Messages in the transactions of your own database, and their relay.",
    "orbitmq.admin": "Administration: the connections of an operator.",
    "orbitmq.testing": "A broker as a test fixture.",
    "orbitmq.spark": "Topics and stores as data frames.",
}
CONSTANTS = {
    "FIRST_OFFSET": "For `consume_from_where`: a new group begins at the start of each queue.",
    "LAST_OFFSET": "For `consume_from_where`: a new group begins at the end of each queue.",
    "CONTENT_TYPE": "The property that names the format of a body: `contentType`.",
    "TIMESTAMP": "For `consume_from_where`: a new group begins at `consume_timestamp_ms`.",
    "ROW_ID": "The property with the id of an outbox's row, the same for all sends: `outboxId`.",
    "RETRY": "A handler's result that has the message delivered again: `Retry()`.",
    "Outcome": "Type of a handler's result: None, True, a `Retry` or a `Reply`.",
    "SendNext": "Type of `call_next` in `Middleware.send`: an async function that returns results.",
    "HandleNext": "Type of `call_next` in `Middleware.handle`: an async function that returns an `Outcome`.",
    "__version__": "The version of this package.",
}


def public_names(module: str) -> list[str]:
    """The names that a module exports and that are its own, in order."""
    loaded = import_module(module)
    names: list[str] = loaded.__all__
    if module != "orbitmq":
        shared = import_module("orbitmq")
        return [name for name in names if getattr(loaded, name) is not getattr(shared, name, None)]
    return names


def contents() -> str:
    """Every module with its names, which link to its page."""
    parts = []
    for module, about in MODULES.items():
        page = f"api/{module}.md"
        names = [
            f"`{name}`" if name in CONSTANTS else f"[`{name}`]({page}#{name.lower()})"
            for name in public_names(module)
        ]
        parts.append(f"## {module}\n\n[{about[:-1]}]({page}): {', '.join(names)}.\n")
    return "\n".join(parts)


def page(module: str) -> str:
    """The page of one module."""
    names = public_names(module)
    parts = [MODULES[module] + "\n"]
    rows = [f"| `{name}` | {CONSTANTS[name]} |" for name in names if name in CONSTANTS]
    if rows:
        parts.append("| name | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    loaded = import_module(module)
    parts += [
        f"## {name}\n\n{_described(name, getattr(loaded, name))}\n" for name in names if name not in CONSTANTS
    ]
    return "\n".join(parts)


def _described(name: str, value: Any) -> str:
    if not inspect.isclass(value):
        return _function(name, value) if callable(value) else _text(value)
    return "\n\n".join(_class(name, value))


def _class(name: str, cls: type) -> Iterator[str]:
    bases = [
        base.__name__
        for base in cls.__bases__
        if base.__name__ not in ("object", name) and not base.__name__.startswith("_")
    ]
    head = f"class {name}" + (f"({', '.join(bases)})" if bases else "")
    text = vars(cls).get("__doc__")
    yield f"```python\n{head}\n```"
    yield _text(cls) if text is None or isinstance(text, str) else inspect.cleandoc(text._text or "")
    if issubclass(cls, Enum):
        yield "Values: " + ", ".join(f"`{member.name}`" for member in cls) + "."
        return
    if dataclasses.is_dataclass(cls):
        yield "\n".join(_option(text) for text in option_texts(cls))
    elif not issubclass(cls, Exception) and "__init__" in vars(cls):
        yield f"```python\n{_signature(name, cls)}\n```"
    for member, kind, value in _members(cls):
        if kind == "property":
            yield f"**`{member}`**: {_text(value)}"
        else:
            yield _function(member, value)


def _option(text: str) -> str:
    first, _, meaning = text.partition("\n")
    return f"- `{_clean(first.strip())}`" + (f": {' '.join(meaning.split())}" if meaning else "")


def _members(cls: type) -> Iterator[tuple[str, str, Any]]:
    """Public methods and properties of a class and of its bases in this package, in their order."""
    seen = set()
    fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    for base in cls.__mro__:
        if not base.__module__.startswith("orbitmq."):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen or name in fields:
                continue
            seen.add(name)
            if isinstance(value, property):
                yield name, "property", value.fget
            elif isinstance(value, staticmethod | classmethod):
                yield name, "method", value.__func__
            elif inspect.isfunction(value):
                yield name, "method", value


def _function(name: str, function: Any) -> str:
    word = "async def" if inspect.iscoroutinefunction(function) else "def"
    return f"```python\n{word} {_signature(name, function)}\n```\n\n{_text(function)}"


def _signature(name: str, function: Any) -> str:
    try:
        shown = str(inspect.signature(function))
    except (TypeError, ValueError):
        return f"{name}(...)"
    text = _clean(f"{name}{shown}")
    if len(text) <= MOST_CHARACTERS:
        return text
    parameters = [str(one) for one in inspect.signature(function).parameters.values()]
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    star = kinds.index(inspect.Parameter.KEYWORD_ONLY) if inspect.Parameter.KEYWORD_ONLY in kinds else None
    if star is not None and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(star, "*")
    lines = "".join(f"    {one},\n" for one in parameters)
    return _clean(f"{name}(\n{lines}){shown.rpartition(')')[2]}")


def _clean(text: str) -> str:
    """Without the addresses of objects and the quotes of annotations that stand as texts."""
    text = re.sub(r"(\(\s*)admin: '?Admin'?", r"\1self", text)  # a function that is a method, too
    text = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)
    text = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _text(value: Any) -> str:
    return inspect.getdoc(value) or ""
