"""Records that differ from one pop to the next in numbers alone, made from one that was made in full.

Each pop stores a check point, and acknowledgements behind it: JSON and properties in which topic, group and
broker are always the same. A mould is such a record with places for its numbers. It is cast once for trial: a
record that does not come out as the one made in full, because a name looks like a number for instance, has no
mould.

Making one costs as much as nine records in full, and names come from clients. So only some of the records
that have no mould are worth one: those of names that come often get theirs soon, and however many names there
are, records cost little more than if all were made in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from orbitmq.store import PendingMessage

MOST_MOULDS = 8192
"""So many are kept, of which a topic and a group have three; behind that the oldest goes for a new one."""
MOST_NAME_CHARACTERS = 512
"""Names that are longer together have no mould, for it keeps them several times. Those of a legal topic and
group are shorter.
"""
RECORDS_PER_MOULD = 97
"""Of so many records without a mould one gets it; a prime, so that it is not always one of the same kind."""

Numbers: TypeAlias = Mapping[bytes, int | bytes]
"""By name of their place; a list of numbers is bytes with commas."""


class Mould:
    """A record with places for numbers."""

    __slots__ = ("_body", "_like", "_properties")

    def __init__(self, record: PendingMessage, numbers: Numbers) -> None:
        """`numbers` are those that `record` was made with, each another one."""
        self._like = replace(record, body=b"", properties=b"")
        self._body = _with_places(bytes(record.body), numbers)
        self._properties = _with_places(record.properties, numbers)

    def cast(self, numbers: Numbers, now: int) -> PendingMessage:
        """The record with other numbers, born now."""
        like = self._like
        return PendingMessage(
            like.topic,
            like.queue_id,
            like.flag,
            like.sys_flag,
            now,
            like.born_host,
            like.store_host,
            like.reconsume_times,
            like.prepared_transaction_offset,
            self._body % numbers,
            self._properties % numbers,
            like.tags_code,
        )


def _with_places(text: bytes, numbers: Numbers) -> bytes:
    text = text.replace(b"%", b"%%")
    written = {name: value if isinstance(value, bytes) else b"%d" % value for name, value in numbers.items()}
    # The longest first: a short one may be a part of it.
    for name in sorted(written, key=lambda name: -len(written[name])):
        kind = b"b" if isinstance(numbers[name], bytes) else b"d"
        text = text.replace(written[name], b"%%(%b)%b" % (name, kind))
    return text


class Moulds:
    """The moulds of one broker, by what stays the same."""

    def __init__(self, records_per_mould: int = RECORDS_PER_MOULD) -> None:
        self._by_names: dict[tuple[str, ...], Mould | None] = {}
        self._records_per_mould = records_per_mould
        self._without = 0

    def find(
        self, names: tuple[str, ...], samples: Callable[[], Iterable[tuple[PendingMessage, Numbers]]]
    ) -> Mould | None:
        """The mould of records with these names; None where this one has to be made in full.

        Of two samples with other numbers it is made of the first, and tried with the second.
        """
        if names in self._by_names:
            return self._by_names[names]
        if sum(map(len, names)) > MOST_NAME_CHARACTERS:
            return None
        self._without += 1
        if self._without % self._records_per_mould:
            return None
        (record, numbers), (wanted, others) = samples()
        mould = Mould(record, numbers)
        is_alike = mould.cast(others, wanted.born_timestamp) == wanted
        if len(self._by_names) >= MOST_MOULDS:
            del self._by_names[next(iter(self._by_names))]
        found = self._by_names[names] = mould if is_alike else None
        return found
