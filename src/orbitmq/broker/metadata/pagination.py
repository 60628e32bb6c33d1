"""Pages of a table of configs, for readers that fetch a long one piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.errors import MalformedJson

V = TypeVar("V")


def page(
    table: Mapping[str, V],
    sequence: int | None,
    most: int | None,
    version_text: str | None,
    version: DataVersion,
    page_size: int | None,
) -> dict[str, V]:
    """The entries to answer with, by name from position `sequence` on.

    The whole table where nothing of a page is asked for, or `page_size` is None. A reader whose version is
    not the present one starts again from the first entry, which it sees by the version in the answer.
    """
    if page_size is None or (sequence is None and most is None and not version_text):
        return dict(table)
    start = sequence or 0
    if not _is_present(version_text, version):
        start = 0
    count = page_size if most is None else min(max(0, most), page_size)
    return {name: table[name] for name in sorted(table)[max(0, start) : max(0, start) + count]}


def _is_present(text: str | None, version: DataVersion) -> bool:
    if not text:
        return False
    try:
        return DataVersion.from_json(text) == version
    except MalformedJson:
        return False
