"""Lists as files: CSV for tables, NDJSON for programs. Any list of an answer can be had so."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from orbitmq.console.api.problems import Invalid
from orbitmq.protocol.schema.json_body import camel_case

Format = Literal["csv", "ndjson"]
PARAMETERS = frozenset({"format", "rows", "filter"})
"""Query parameters of downloads; endpoints do not see them."""
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A text that begins so is a formula to spreadsheets."""


@dataclass(frozen=True, slots=True)
class Download:
    """A list to send as a file."""

    format: Format
    field: str
    """The list's field in the answer."""
    filter: str
    """Only rows whose first field has this text in it, in capitals or small letters."""

    def rows_of(self, answer: Any) -> Iterator[dict[str, Any]]:
        wanted = self.filter.lower()
        for one in getattr(answer, self.field):
            row = cast("dict[str, Any]", msgspec.to_builtins(one, enc_hook=str))
            if not wanted or wanted in str(next(iter(row.values()), "")).lower():
                yield _with_text(row)


def wanted_download(request: Request, fields: Sequence[str]) -> Download | None:
    """The download that a request asks for; None for the plain answer. Raises ApiError."""
    asked = request.query_params.get("format")
    if asked is None or not fields:
        return None
    if asked not in get_args(Format):
        raise Invalid(f"{asked!r} is no format: csv or ndjson", "Give one of these.", field="format")
    name = request.query_params.get("rows", camel_case(fields[0]))
    known = {camel_case(one): one for one in fields}
    if name not in known:
        raise Invalid(f"there is no list {name}: {', '.join(known)}", "Give one of these.", field="rows")
    return Download(cast("Format", asked), known[name], request.query_params.get("filter", ""))


def download_answer(download: Download, answer: Any, name: str) -> Response:
    """The list of one answer as a file."""
    encoder = _Encoder(download.format)
    content = b"".join(encoder.lines(download.rows_of(answer)))
    return Response(content, media_type=MEDIA_TYPES[download.format], headers=_headers(download, name))


def download_stream(download: Download, events: AsyncIterator[Any], name: str) -> Response:
    """The lists of all events as one file, written as they come."""

    async def parts() -> AsyncIterator[bytes]:
        encoder = _Encoder(download.format)
        async for event in events:
            for line in encoder.lines(download.rows_of(event)):
                yield line

    return StreamingResponse(
        parts(), media_type=MEDIA_TYPES[download.format], headers=_headers(download, name)
    )


class _Encoder:
    """Rows as bytes. The columns of CSV are those of the first row."""

    def __init__(self, form: Format) -> None:
        self._format = form
        self._columns: list[str] = []

    def lines(self, rows: Iterable[dict[str, Any]]) -> Iterator[bytes]:
        if self._format == "ndjson":
            for row in rows:
                yield msgspec.json.encode(row) + b"\n"
            return
        for row in rows:
            if not self._columns:
                self._columns = list(row)
                yield _csv(self._columns)
            yield _csv([_cell(row.get(column)) for column in self._columns])


def _csv(cells: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, bool | dict | list):
        return msgspec.json.encode(value).decode()
    return str(value)


def _with_text(row: dict[str, Any]) -> dict[str, Any]:
    """A row; with the body of a message as text, where it is one."""
    message = row.get("message", row)
    if isinstance(message, dict) and "body" in message and "bodySize" in message:
        try:
            text = base64.b64decode(message["body"]).decode()
        except UnicodeDecodeError:
            text = None
        return {**row, "text": text}
    return row


def _headers(download: Download, name: str) -> dict[str, str]:
    safe = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name
    )
    return {"Content-Disposition": f'attachment; filename="{safe}.{download.format}"'}
