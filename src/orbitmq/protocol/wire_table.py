"""The requests as a document: what `docs/reference/wire.md` shows, from the declarations alone."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from orbitmq.protocol.requests.every import REQUESTS, UNUSED
from orbitmq.protocol.schema.declare import FieldRow, Request

_HEAD = (
    "| code | request | to | header fields | body | answer: header fields | body |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def markdown() -> str:
    """A table per subject, codes in order, and the codes that no peer sends."""
    by_subject: dict[str, list[type[Request[Any]]]] = {}
    for _, declared in sorted(REQUESTS.items()):
        by_subject.setdefault(declared.__module__, []).append(declared)
    parts = [_subject(module, by_subject[module]) for module in sorted(by_subject)]
    unused = ", ".join(f"{code} {name}" for code, name in sorted(UNUSED.items()))
    parts.append(f"### Never sent\n\nThese codes have a name and no use in release 5.4.0: {unused}.\n")
    return "\n".join(parts)


def _subject(module: str, requests: list[type[Request[Any]]]) -> str:
    about = (inspect.getdoc(sys.modules[module]) or "").partition("\n")[0]
    rows = "\n".join(_row(declared) for declared in requests)
    return f"### {module.rpartition('.')[2]}\n\n{about}\n\n{_HEAD}\n{rows}\n"


def _row(declared: type[Request[Any]]) -> str:
    reply = declared.REPLY
    cells = [
        str(declared.CODE),
        declared.NAME,
        ", ".join(sorted(declared.SERVED_BY)),
        _fields(declared.FIELDS),
        _body(declared.FIELDS),
        _fields(reply.FIELDS),
        _body(reply.FIELDS) + _other_codes(declared),
    ]
    return f"| {' | '.join(cells)} |"


def _fields(rows: list[FieldRow]) -> str:
    return ", ".join(_field(row) for row in rows if row.kind in ("str", "int", "long", "bool"))


def _field(row: FieldRow) -> str:
    kind = "" if row.kind == "str" else f" {row.kind}"
    if row.optional:
        return f"`{row.wire_name}`{kind}?"
    if not row.is_required:
        return f"`{row.wire_name}`{kind}={str(row.default).lower()}"
    return f"`{row.wire_name}`{kind}"


def _body(rows: list[FieldRow]) -> str:
    for row in rows:
        if row.name == "body":
            name = row.body_class.__name__ if row.body_class is not None else "bytes"
            return f"{name}?" if row.optional else name
    return ""


def _other_codes(declared: type[Request[Any]]) -> str:
    if not declared.accepts:
        return ""
    return f" (also with code {', '.join(map(str, declared.accepts))})"
