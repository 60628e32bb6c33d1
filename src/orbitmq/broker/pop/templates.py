"""Records that differ from one pop to the next in numbers alone, made from one that was made in full.

Each pop stores a check point, and acknowledgements behind it: JSON and properties in which topic, group and
broker are always the same. A template is such a record with places for its numbers. It is rendered once on
trial: names whose trial differs from the record made in full get no template (a name may look like a number).

Making a template costs as much as nine records in full, and names come from clients. So only some records
without a template make one: names that come often get theirs soon, and however many names there are, records
cost little more than if all were made in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from orbitmq.store import PendingMessage

MOST_TEMPLATES = 8192
"""Limit of the cache, which drops the oldest; a topic and a group need three."""
MOST_NAME_CHARACTERS = 512
"""Longer names, taken together, get no template, for it holds several copies of them. Those of a legal topic
and group are shorter.
"""
RECORDS_PER_TEMPLATE = 97
"""Every 97th record without a template makes one; a prime, so that it is not always one of the same kind."""

Numbers: TypeAlias = Mapping[bytes, int | bytes]
"""By name of their place; a list of numbers is bytes with commas."""


class RecordTemplate:
    """A record with places for numbers."""

    __slots__ = ("_body", "_like", "_properties")

    def __init__(self, record: PendingMessage, numbers: Numbers) -> None:
        """`numbers` are those that `record` was made with, each another one."""
        self._like = replace(record, body=b"", properties=b"")
        self._body = _with_places(bytes(record.body), numbers)
        self._properties = _with_places(record.properties, numbers)

    def render(self, numbers: Numbers, now: int) -> PendingMessage:
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


class RecordTemplates:
    """The templates of one broker, by the names in them."""

    def __init__(self, records_per_template: int = RECORDS_PER_TEMPLATE) -> None:
        self._by_names: dict[tuple[str, ...], RecordTemplate | None] = {}
        self._records_per_template = records_per_template
        self._without = 0

    def find(
        self, names: tuple[str, ...], samples: Callable[[], Iterable[tuple[PendingMessage, Numbers]]]
    ) -> RecordTemplate | None:
        """The template of records with these names; None if this record has to be made in full.

        `samples` gives two records with other numbers: one to make the template of, one to try it with.
        """
        if names in self._by_names:
            return self._by_names[names]
        if sum(map(len, names)) > MOST_NAME_CHARACTERS:
            return None
        self._without += 1
        if self._without % self._records_per_template:
            return None
        (record, numbers), (wanted, others) = samples()
        template = RecordTemplate(record, numbers)
        is_alike = template.render(others, wanted.born_timestamp) == wanted
        if len(self._by_names) >= MOST_TEMPLATES:
            del self._by_names[next(iter(self._by_names))]
        found = self._by_names[names] = template if is_alike else None
        return found
