"""The table of options as Markdown, made of the rows, so that what people read is what the code does."""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.options.option import Option, Status, Value, to_text


def markdown(rows: Iterable[Option]) -> str:
    """Three tables: what is honoured, what is refused, what has no effect."""
    by_status: dict[Status, list[Option]] = {status: [] for status in Status}
    for row in sorted(rows, key=lambda row: row.name.lower()):
        by_status[row.status].append(row)
    return "\n".join(
        [
            _honoured(by_status[Status.HONOURED]),
            _refused(by_status[Status.REFUSED]),
            _without_effect(by_status[Status.NO_EFFECT]),
        ]
    )


def _honoured(rows: list[Option]) -> str:
    lines = [
        f"#### Honoured ({len(rows)})",
        "",
        "| option | type | default | at run time | what it does |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        doc = row.doc
        if row.only:
            doc += f" Only {' or '.join(to_text(value) for value in row.only)}: {row.reason}."
        own = "" if row.owner else " (OrbitMQ's own)"
        lines.append(
            f"| `{row.name}`{own} | {row.kind} | {_default(row)} | {'yes' if row.mutable else ''} | {doc} |"
        )
    return "\n".join([*lines, ""])


def _refused(rows: list[Option]) -> str:
    lines = [
        f"#### Refused ({len(rows)})",
        "",
        "Any value but these ends the start.",
        "",
        "| option | accepted | why no other |",
        "| --- | --- | --- |",
    ]
    for row in rows:
        accepted = ", ".join(f"`{to_text(value)}`" if value != "" else "empty" for value in _once(row))
        lines.append(f"| `{row.name}` | {accepted} | {row.reason} |")
    return "\n".join([*lines, ""])


def _once(row: Option) -> list[Value]:
    """The accepted values; none and empty text are one."""
    return [value for value in row.only if value is not None] or [""]


def _without_effect(rows: list[Option]) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(row.reason, []).append(f"`{row.name}`")
    lines = [
        f"#### Accepted without effect ({len(rows)})",
        "",
        "| why | options |",
        "| --- | --- |",
        *(f"| {reason} | {', '.join(names)} |" for reason, names in sorted(reasons.items())),
    ]
    return "\n".join([*lines, ""])


def _default(row: Option) -> str:
    value = f"`{to_text(row.default)}`" if row.default not in (None, "") else ""
    if row.unit and value:
        value += f" {row.unit}"
    if row.apache_default is not None:
        value += f"{' ' if value else ''}(Apache: {row.apache_default})"
    return value
