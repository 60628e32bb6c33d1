"""Tables to text in two steps: a cheap copy where the rules run, and the text itself in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from orbitmq.protocol.fastjson import write_pretty
from orbitmq.protocol.json_body import JsonBody

Snapshot: TypeAlias = Callable[[], str]
"""Makes the text of a table as it was when the snapshot was taken; may be called in another thread."""


def in_file(name: str, entry: JsonBody) -> str:
    """`"name":{...}` as a member of a map in a document's first level."""
    return f"{write_pretty(name)}:{write_pretty(entry.to_value(), 2)}"


def on_wire(name: str, entry: JsonBody) -> str:
    """The same without blanks."""
    return f"{write_pretty(name)}:{entry.to_json_text()}"


class EntryTexts:
    """The texts of a table's entries, so that a change of one among 10,000 costs the text of that one."""

    def __init__(self, write: Callable[[str, JsonBody], str] = in_file) -> None:
        self._write = write
        self._texts: dict[str, str] = {}

    def forget(self, name: str) -> None:
        """Has the text of an entry made anew, because it changed or went."""
        self._texts.pop(name, None)

    def clear(self) -> None:
        """Has all texts made anew."""
        self._texts.clear()

    def of(self, entries: Mapping[str, JsonBody]) -> list[str]:
        """The text of every entry, in the order of `entries`."""
        texts = self._texts
        for name, entry in entries.items():
            if name not in texts:
                texts[name] = self._write(name, entry)
        return [texts[name] for name in entries]

    def make(self, entries: Mapping[str, JsonBody], most: int) -> bool:
        """Makes up to `most` texts that are missing; whether all are there now."""
        texts = self._texts
        missing = [name for name in entries if name not in texts]
        for name in missing[:most]:
            texts[name] = self._write(name, entries[name])
        return len(missing) <= most


def map_text(members: Iterable[str]) -> str:
    """A map in a document's first level, of members made by `EntryTexts.of`."""
    return "{\n\t\t" + ",\n\t\t".join(members) + "\n\t}"


def document_text(fields: Mapping[str, str]) -> str:
    """A document of fields whose texts are made already."""
    return "{\n\t" + ",\n\t".join(f"{write_pretty(name)}:{text}" for name, text in fields.items()) + "\n}"


def with_items(text: str, field: str, items: Iterable[str]) -> str:
    """The text of an object, with texts of items (or members) put into its empty list (or map) `field`.

    So a body of megabytes is put together from what was written before, or in several turns.
    """
    for empty in (f'"{field}":[]', f'"{field}":{{}}'):
        before, found, after = text.partition(empty)
        if found:
            return f"{before}{found[:-1]}{','.join(items)}{found[-1]}{after}"
    raise ValueError(f"no empty {field} in {text[:200]}")
