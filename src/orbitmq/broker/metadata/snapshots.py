"""Tables to text in two steps: a cheap copy where the rules run, and the text itself in a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from orbitmq.protocol.schema.fastjson import write_pretty
from orbitmq.protocol.schema.json_body import JsonBody

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
        """Has the text of an entry made again, because it changed or went."""
        self._texts.pop(name, None)

    def clear(self) -> None:
        self._texts.clear()

    def of(self, entries: Mapping[str, JsonBody]) -> list[str]:
        """The text of every entry, in the order of `entries`."""
        texts = self._texts
        for name, entry in entries.items():
            if name not in texts:
                texts[name] = self._write(name, entry)
        return [texts[name] for name in entries]

    def make(self, entries: Mapping[str, JsonBody], most: int) -> bool:
        """Makes up to `most` texts that are missing. True if all are there now."""
        texts = self._texts
        missing = [name for name in entries if name not in texts]
        for name in missing[:most]:
            texts[name] = self._write(name, entries[name])
        return len(missing) <= most


V = TypeVar("V")


class TextLog(Generic[V]):
    """The texts of a table's entries for its file, brought up to date from what has changed.

    The owner of the table notes names that change; a snapshot then freezes these entries alone, however many
    there are. A text is made, and all are put together, by the one thread that writes the file.
    """

    def __init__(self, write: Callable[[str, V], str]) -> None:
        self._write = write
        self._changed: dict[str, None] = {}
        """Names changed since the last snapshot, the first change first."""
        self._pending: deque[tuple[int, dict[str, V | None]]] = deque()
        """Entries that snapshots have frozen and no text holds yet; a snapshot need not become a text."""
        self._taken = 0
        self._texts: dict[str, str] = {}
        """The thread's own."""

    def note(self, name: str) -> None:
        """Notes that an entry changed, came or went."""
        self._changed[name] = None

    def start(self, entries: Iterable[str]) -> None:
        """Forgets all; these are the entries of a table that was just loaded."""
        self._changed = dict.fromkeys(entries)
        self._pending.clear()
        self._texts.clear()

    def snapshot(self, freeze: Callable[[str], V | None]) -> Callable[[], list[str]]:
        """A function that gives the texts of all entries as they are now.

        `freeze(name)` gives a value that no longer changes: the entry's copy or text, None if it went.
        """
        changed, self._changed = self._changed, {}
        self._taken += 1
        number = self._taken
        self._pending.append((number, {name: freeze(name) for name in changed}))
        return lambda: self._up_to(number)

    def _up_to(self, number: int) -> list[str]:
        texts, write = self._texts, self._write
        while self._pending and self._pending[0][0] <= number:
            for name, entry in self._pending[0][1].items():
                if entry is None:
                    texts.pop(name, None)
                else:
                    texts[name] = write(name, entry)
            self._pending.popleft()
        return list(texts.values())


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
