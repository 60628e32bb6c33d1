"""Tables to text in two steps: a cheap copy where the rules run, and the text itself in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from orbitmq.protocol.fastjson import write_pretty
from orbitmq.protocol.json_body import JsonBody

Snapshot: TypeAlias = Callable[[], str]
"""Makes the text of a table as it was when the snapshot was taken; may be called in another thread."""


class EntryTexts:
    """The texts of a table's entries, so that a change of one among 10,000 costs the text of that one."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def forget(self, name: str) -> None:
        """Has the text of an entry made anew, because it changed or went."""
        self._texts.pop(name, None)

    def clear(self) -> None:
        """Has all texts made anew."""
        self._texts.clear()

    def of(self, entries: Mapping[str, JsonBody]) -> list[str]:
        """`"name":{...}` of every entry, as a member of a map in a document's first level."""
        texts = self._texts
        for name, entry in entries.items():
            if name not in texts:
                texts[name] = f"{write_pretty(name)}:{write_pretty(entry.to_value(), 2)}"
        return [texts[name] for name in entries]


def map_text(members: Iterable[str]) -> str:
    """A map in a document's first level, of members made by `EntryTexts.of`."""
    return "{\n\t\t" + ",\n\t\t".join(members) + "\n\t}"


def document_text(fields: Mapping[str, str]) -> str:
    """A document of fields whose texts are made already."""
    return "{\n\t" + ",\n\t".join(f"{write_pretty(name)}:{text}" for name, text in fields.items()) + "\n}"
