"""Fields that nobody may read: masked at any depth, or the body is not shown."""

import pytest

from orbitmq.admin.bodies import ShownBody
from orbitmq.console.masking import BY_SCHEMA, MAX_DEPTH, MAX_MASKED_BYTES, NOT_JSON, TOO_LARGE, Masks

MASKS = Masks(["Card", " pin "])


@pytest.mark.parametrize(
    ("body", "masked"),
    [
        (b'{"card": "4111", "n": 1.50}', b'{"card":"***","n":1.50}'),
        (b' [{"CARD": {"a": 1}}, 12345678901234567890123]', b'[{"CARD":"***"},12345678901234567890123]'),
        (b'{"c\\u0061rd": "4111"}', b'{"card":"***"}'),
        (b'{"card": "4111", "card": "4222"}', b'{"card":"***"}'),
        (b'{"inner": "{\\"pin\\": 7}"}', b'{"inner":"{\\"pin\\":\\"***\\"}"}'),
        (b'{"inner": "{\\"pin\\": 7"}', b'{"inner":"***"}'),
        (b'{"type": "card"}', b'{"type":"card"}'),
        (b"7", b"7"),
        ("plain, grüß".encode(), "plain, grüß".encode()),
        (b"PIN=7", None),
        (b'{"card": "4111"} {"card": "4222"}', None),
        (b'{"c\\u0061rd": 1} {"c\\u0061rd": 2}', None),
        ("card=1".encode("utf-16"), None),
        (b"\x00\xff", None),
        (b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2), None),
        (b"[" * 500_000, None),
    ],
)
def test_json_is_masked_and_what_may_hold_a_field_otherwise_is_not_shown(
    body: bytes, masked: bytes | None
) -> None:
    assert MASKS.masked(body) == masked


def test_the_reason_is_given_in_place_of_a_body_that_is_not_shown() -> None:
    whole = ShownBody(b'{"card": 1}', 11, False)
    assert MASKS.shown(whole).data == b'{"card":"***"}'
    assert MASKS.shown(whole, by_schema=True) == ShownBody(b"", 11, True, BY_SCHEMA)
    assert MASKS.shown(ShownBody(b"\xff", 1, False)).problem is NOT_JSON
    assert MASKS.shown(ShownBody(b"{", MAX_MASKED_BYTES + 1, True)) == ShownBody(
        b"", MAX_MASKED_BYTES + 1, True, TOO_LARGE
    )
    long = b'"' + b"x" * MAX_MASKED_BYTES + b'"'
    assert MASKS.shown(ShownBody(long, len(long), False)).problem is TOO_LARGE
    assert not Masks()
    assert Masks().shown(whole) is whole


def test_properties_are_masked_by_their_names() -> None:
    assert MASKS.properties({"PIN": "7", "KEYS": "k"}) == {"PIN": "***", "KEYS": "k"}
