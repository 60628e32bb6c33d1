"""Answers are derived from results: a field of a result is in the page's answer without another line."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest

from orbitmq.admin.admin import BrokerAt
from orbitmq.admin.diagnosis.phrases import Phrase, phrase
from orbitmq.admin.results import INTERNAL
from orbitmq.console.api.derived import derived
from orbitmq.protocol.bodies.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class Lag:
    queue: MessageQueue
    consumer_offset: int
    secret: str = field(metadata=INTERNAL)

    @property
    def behind_ms(self) -> int | None:
        return self.consumer_offset * 2 or None


@dataclass(slots=True)
class Lags:
    at: BrokerAt
    last: deque[Lag]
    numbers: deque[int]
    by_name: Mapping[str, Lag]
    worst: Lag | None = None
    reasons: list[Phrase] = field(default_factory=list)


class Page(msgspec.Struct, rename="camel"):
    """A page of results."""

    row_count: int
    lags: Lags | None


LAG = Lag(MessageQueue("orders", "broker-a", 3), 7, "hidden")
SHOWN = {"topic": "orders", "broker": "broker-a", "queueId": 3, "consumerOffset": 7, "behindMs": 14}


def as_json(kind: object, value: object) -> object:
    shape, convert = derived(kind)
    assert convert is not None
    shown = convert(value)
    assert msgspec.convert(msgspec.to_builtins(shown), shape) == shown
    return msgspec.json.decode(msgspec.json.encode(shown))


def test_a_result_has_its_fields_and_properties_in_camel_case_and_nothing_internal() -> None:
    assert as_json(Lag, LAG) == SHOWN


def test_results_within_lists_maps_and_structures_are_derived_too() -> None:
    lags = Lags(
        BrokerAt("c", "a", 0, "h:1"),
        deque([LAG]),
        deque([1, 2, 3]),
        {"x": LAG},
        None,
        [phrase("{n} left", n=1000)],
    )
    assert as_json(Page, Page(1, lags)) == {
        "rowCount": 1,
        "lags": {
            "cluster": "c",
            "name": "a",
            "brokerId": 0,
            "address": "h:1",
            "last": [SHOWN],
            "numbers": [3, 2, 1],
            "byName": {"x": SHOWN},
            "worst": None,
            "reasons": [{"text": "{n} left", "values": {"n": "1,000"}}],
        },
    }
    assert as_json(Page, Page(0, None)) == {"rowCount": 0, "lags": None}


@pytest.mark.parametrize("kind", [int, list[str], dict[str, int], Phrase, tuple[str, int], None])
def test_plain_types_stay_as_they_are(kind: object) -> None:
    assert derived(kind) == (kind, None)


def test_a_schema_has_the_text_of_the_result() -> None:
    shape, _ = derived(Page)
    _, components = msgspec.json.schema_components([shape])
    assert components["Page"]["description"] == "A page of results."
    assert list(components["Lag"]["properties"]) == list(SHOWN)
