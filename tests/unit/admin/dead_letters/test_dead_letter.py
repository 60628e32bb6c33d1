import tracemalloc
import zlib

import pytest

from orbitmq.admin.dead_letters.dead_letter import dead_letter_of, shape_of
from orbitmq.protocol.records.message import COMPRESSED
from tests.kit.client_messages import stored


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (b"", "empty"),
        (b'{"b": 1, "a": 2}', "{a, b}"),
        (b"{}", "{}"),
        (b"[1]", "JSON array"),
        (b"17", "text"),
        (b"{", "text"),
        (b"9" * 5000, "text"),
        (b"[" * 60_000, "text"),
        (b"\xff\x00", "binary"),
        (b" " * 70_000, "large"),
    ],
)
def test_bodies_have_shapes_hostile_ones_too(body: bytes, shape: str) -> None:
    assert shape_of(body) == shape


def test_the_shape_of_many_or_long_keys_is_bounded() -> None:
    many = "{" + ",".join(f'"{"k" * 100}{number:04}": 1' for number in range(500)) + "}"
    assert len(shape_of(many.encode())) < 1000


def test_of_a_compressed_body_no_more_is_inflated_than_its_shape_takes() -> None:
    def shape(body: bytes) -> str | None:
        return dead_letter_of("b", stored(0, body, sys_flag=COMPRESSED)).cause.shape

    large = zlib.compress(bytes(16 << 20))
    tracemalloc.start()
    try:
        assert shape(large) == "large"
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert shape(zlib.compress(b'{"a": 1}')) == "{a}"
    assert shape(b"no zlib") == "binary"
