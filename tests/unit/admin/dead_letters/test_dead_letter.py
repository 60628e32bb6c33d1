import pytest

from orbitmq.admin.dead_letters.dead_letter import origin_of, replays_of, shape_of


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


def test_the_first_topic_is_the_one_that_clients_brokers_and_proxies_name() -> None:
    assert origin_of({"RETRY_TOPIC": "orders"}) == "orders"
    assert origin_of({"DLQ_ORIGIN_TOPIC": "orders"}) == "orders"
    assert origin_of({"RETRY_TOPIC": "%RETRY%g"}) is None
    assert origin_of({}) is None


@pytest.mark.parametrize(("text", "count"), [("2", 2), ("-1", 0), ("x", 0), ("٣", 0), ("9" * 50, 0), ("", 0)])
def test_a_replay_count_that_is_no_number_counts_as_none(text: str, count: int) -> None:
    assert replays_of({"orbitmq.replays": text}) == count
