"""The list of public names for `docs/develop/api.md`; MkDocs takes their signatures and docstrings."""

from __future__ import annotations

from importlib import import_module

MODULES = {
    "orbitmq": "Producers, consumers, messages and errors, with asyncio.",
    "orbitmq.sync": "Producers and consumers without asyncio. All other names are those of `orbitmq`.",
    "orbitmq.serializers": "Bodies as objects: JSON, pydantic, msgspec, Avro, and your own.",
    "orbitmq.telemetry": "Traces and metrics of clients for OpenTelemetry.",
    "orbitmq.admin": "Administration: the connections of an operator.",
    "orbitmq.testing": "A broker as a test fixture.",
    "orbitmq.spark": "Topics and stores as data frames.",
}
CONSTANTS = {
    "FIRST_OFFSET": "For `consume_from_where`: a new group begins at the start of each queue.",
    "LAST_OFFSET": "For `consume_from_where`: a new group begins at the end of each queue.",
    "CONTENT_TYPE": "The property that names the format of a body: `contentType`.",
    "TIMESTAMP": "For `consume_from_where`: a new group begins at `consume_timestamp_ms`.",
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


def _directive(module: str, name: str) -> str:
    """The name under its public path, with the text of the place where it is defined."""
    value = getattr(import_module(module), name)
    home = f"{value.__module__}.{value.__qualname__}"
    return f"::: {home}\n    options:\n      heading: {module}.{name}\n"


def markdown() -> str:
    """One section per module, one directive of mkdocstrings per name."""
    parts = []
    for module, about in MODULES.items():
        names = public_names(module)
        parts.append(f"## {module}\n\n{about}\n")
        rows = [f"| `{name}` | {CONSTANTS[name]} |" for name in names if name in CONSTANTS]
        if rows:
            parts.append("| name | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n")
        parts += [_directive(module, name) for name in names if name not in CONSTANTS]
    return "\n".join(parts)
