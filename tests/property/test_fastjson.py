"""Whatever is written is read back, and whatever is read is refused in a typed way or understood."""

from __future__ import annotations

import contextlib
import json

from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from orbitmq.protocol.bodies.topic import TopicConfig, TopicFilterType
from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.schema import fastjson
from orbitmq.protocol.schema.fastjson import ObjectKey
from tests.wire.all_bodies import BODIES

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
numbers = st.integers(-(1 << 63), (1 << 63) - 1)
scalars = st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts
keys = texts | st.builds(ObjectKey, st.dictionaries(texts, st.booleans() | numbers | texts, max_size=3))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


def _without_nulls(value):
    """Entries that are null are not written."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


@given(values)
def test_compact_text(value) -> None:
    assert fastjson.parse(fastjson.write(value)) == _without_nulls(value)


@given(values)
def test_pretty_text(value) -> None:
    assert fastjson.parse(fastjson.write_pretty(value)) == _without_nulls(value)


@given(values)
def test_standard_text_is_json(value) -> None:
    text = fastjson.write_standard(value)
    assert text.isascii()
    json.loads(text)


@given(st.dictionaries(numbers, numbers | texts, max_size=6))
def test_number_keys(value) -> None:
    assert fastjson.parse(fastjson.write(value)) == {str(key): item for key, item in value.items()}


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=15))
def test_json_is_read_as_json(value) -> None:
    assert fastjson.parse(json.dumps(value)) == value
    assert fastjson.parse(json.dumps(value, ensure_ascii=False, indent=1)) == value


@given(st.text("{}[]\"',:\\/0123456789.-+eEtrufalsn \n\tux", max_size=60))
@example('{"a\\')
@example("{0:{{'':0}:0,},}")
def test_noise(text) -> None:
    try:
        value = fastjson.parse(text)
    except MalformedJson:
        return
    assert fastjson.parse(fastjson.write(value)) == _without_nulls(value)


@given(st.binary(max_size=80))
def test_bytes(data) -> None:
    with contextlib.suppress(MalformedJson):
        fastjson.parse(data)


@given(st.floats())
def test_doubles(number) -> None:
    text = fastjson.double_text(number)
    assert text == "null" or (float(text) == number and "." in text)


queues = st.builds(MessageQueue, texts, texts, st.integers(-(1 << 31), (1 << 31) - 1))
stats = st.builds(
    ConsumeStats,
    st.dictionaries(queues, st.builds(OffsetWrapper, numbers, numbers, numbers, numbers), max_size=4),
    st.floats(allow_nan=False, allow_infinity=False),
)
topics = st.builds(
    TopicConfig,
    texts,
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 15),
    st.sampled_from(TopicFilterType),
    st.integers(0, 3),
    st.booleans(),
    st.dictionaries(texts, texts, max_size=3),
)


@given(stats | topics)
def test_bodies(body) -> None:
    cls = type(body)
    for text in (body.to_json(), body.to_pretty_json(), body.to_standard_json()):
        assert cls.from_json(text) == body


@given(st.sampled_from(sorted(BODIES)), values)
def test_any_value_is_a_body_or_refused(name, value) -> None:
    cls = BODIES[name]
    for text in (fastjson.write(value), fastjson.write(dict.fromkeys(cls().to_value(), value))):
        try:
            body = cls.from_json(text)
        except MalformedJson:
            continue
        body.to_json()
