"""Records made of a template are those made in full, and names of clients take a bounded share of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from orbitmq.broker.pop import templates
from orbitmq.broker.pop.templates import RecordTemplate, RecordTemplates
from orbitmq.store import PendingMessage

HOST = bytes(8)
NOW = 1_700_000_000_000
Made = tuple[PendingMessage, Mapping[bytes, int | bytes]]


def record(name: str, number: int, offsets: bytes = b"1,2", now: int = 0) -> PendingMessage:
    """A record in full."""
    text = b'{"topic":"%b","so":%d,"ol":[%b],"rate":"5%%"}' % (name.encode(), number, offsets)
    return PendingMessage("REVIVE", 3, 7, 0, now, HOST, HOST, 0, 0, text, b"UNIQ_KEY\x01%d\x02" % number)


def samples(name: str) -> Iterator[Made]:
    """Two records in full, and the numbers in each."""
    for number, offsets in ((1234567, b"77,78"), (7654321, b"90,91")):
        yield record(name, number, offsets), {b"n": number, b"o": offsets}


def test_a_rendered_record_is_the_one_made_in_full() -> None:
    template = RecordTemplate(*next(samples("T")))
    assert template.render({b"n": 5, b"o": b"1"}, NOW) == record("T", 5, b"1", NOW)


def test_only_some_records_without_a_template_make_one() -> None:
    made = RecordTemplates(3)
    assert [made.find(("T",), lambda: samples("T")) is not None for _ in range(5)] == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_a_name_that_looks_like_a_number_gets_no_template() -> None:
    made = RecordTemplates(1)
    for _ in range(2):
        assert made.find(("1234567",), lambda: samples("1234567")) is None


def test_long_names_get_no_template() -> None:
    made = RecordTemplates(1)
    longest = templates.MOST_NAME_CHARACTERS
    assert made.find(("a" * longest,), lambda: samples("T")) is not None
    assert made.find(("a" * longest, "b"), lambda: samples("T")) is None


def test_the_oldest_template_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_TEMPLATES", 2)
    made, asked = RecordTemplates(1), list[str]()

    def find(name: str) -> bool:
        """True if the template had to be made."""

        def wanted() -> Iterator[Made]:
            asked.append(name)
            return samples(name)

        before = len(asked)
        assert made.find((name,), wanted) is not None
        return len(asked) > before

    assert [find(name) for name in ("A", "B", "A", "B")] == [True, True, False, False]
    assert [find(name) for name in ("C", "B", "C", "A")] == [True, False, False, True]
