import json

import pytest

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules import ddmq
from orbitmq.delay_service.rules.orders import Cancel, read_order
from orbitmq.delay_service.rules.repeats import Time, following

UUID = "c1a2b3d4-0000-11f0-8000-0123456789ab"


def vector(id, now=0):
    """The seconds at which an id is due, and its ids then."""
    order = ddmq.schedule_of(ddmq.parse_id(id), "t")
    time, found = Time(order.due, order.occurrence), []
    while time is not None and len(found) < 10:
        found.append((time.due // 1000, ddmq.at_time(id, time.due, time.occurrence)))
        time = following(order.repeat, time) if order.repeat else None
    return found


def test_a_plain_delay_comes_once_and_its_expiry_is_not_looked_at():
    id = f"1700000000-2-1700000010-0-0-0-0-{UUID}"
    assert vector(id) == [(1_700_000_000, id)]
    assert ddmq.schedule_of(ddmq.parse_id(id), "t").expires == -1


def test_a_loop_comes_as_often_as_it_says():
    assert vector(f"1700000000-3-1700001000-3-0-5-0-{UUID}") == [
        (1_700_000_000, f"1700000000-3-1700001000-3-0-5-0-{UUID}"),
        (1_700_000_005, f"1700000005-3-1700001000-3-1-5-0-{UUID}"),
        (1_700_000_010, f"1700000010-3-1700001000-3-2-5-0-{UUID}"),
    ]


def test_a_loop_ends_with_its_expiry_which_is_itself_a_time():
    assert [s for s, _ in vector(f"1700000000-3-1700000010-100-0-5-0-{UUID}")] == [
        1_700_000_000, 1_700_000_005, 1_700_000_010,
    ]  # fmt: skip


def test_powers_grow_up_to_a_day():
    found = [s for s, _ in vector(f"1700000000-4-1900000000-4-0-100-0-{UUID}")]
    assert found == [1_700_000_000, 1_700_000_100, 1_700_010_100, 1_700_096_500]


def test_an_id_of_a_later_occurrence_goes_on_from_there():
    assert len(vector(f"1700000005-3-1700001000-3-1-5-0-{UUID}")) == 2


def body(**fields):
    return json.dumps(fields).encode()


def test_an_add_becomes_a_message():
    id = f"1700000000-2-1700172800-0-0-0--1-{UUID}"
    order, content, found = ddmq.read_body(
        body(action=1, body="Grüße", topic="orders", tags="a||b", uniqDelayMsgId=id, properties={"p": "1"})
    )
    assert (order.name, order.target, order.due, found) == (f"1-{UUID}", "orders", 1_700_000_000_000, id)
    assert ddmq.at_time(id, order.due, 1) == id
    assert content.body == "Grüße".encode()
    assert content.properties == {"p": "1", "TAGS": "a||b"}
    assert ddmq.delivered(content, id).properties == {
        "p": "1", "TAGS": "a||b", "KEYS": id, "from_chronos": "from_chronos",
    }  # fmt: skip


def test_halves_of_surrogate_pairs_become_what_java_makes_of_them():
    id = f"1700000000-2-1700172800-0-0-0-0-{UUID}"
    half = "a\ud800"
    data = body(action=1, body="b", topic=half, tags=half, uniqDelayMsgId=id + half, properties={half: half})
    order, content, found = ddmq.read_body(data)
    assert (order.target, order.name, found) == ("a?", f"{UUID}a?", f"{id}a?")
    assert content.properties == {"a?": "a?", "TAGS": "a?"}


def test_a_cancel_names_the_message():
    id = f"1700000000-3-1700001000-3-0-5-0-{UUID}"
    assert ddmq.read_body(body(action=2, body="c", topic="t", uniqDelayMsgId=id))[0] == Cancel(UUID)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b"[" * 100_000, body(action=1), body(action=1, uniqDelayMsgId="1-2-3"),
     body(action=3, uniqDelayMsgId=f"1-2-3-0-0-0-0-{UUID}", topic="t", body="b"),
     body(action=1, uniqDelayMsgId=f"1-0-3-0-0-0-0-{UUID}", topic="t", body="b"),
     body(action=1, uniqDelayMsgId=f"1-3-3-1-0-0-0-{UUID}", topic="t", body="b"),
     body(action=1, uniqDelayMsgId=f"x-2-3-0-0-0-0-{UUID}", topic="t", body="b"),
     body(action=1, uniqDelayMsgId=f"1-2-3-0-0-0-0-{UUID}", topic="t"),
     body(action=1, uniqDelayMsgId=f"1-2-3-0-0-0-0-{UUID}", body="b")],
)  # fmt: skip
def test_other_bodies_are_refused(data):
    with pytest.raises(NotSchedulable):
        ddmq.read_body(data)


def test_an_id_in_a_control_property_has_the_times_of_the_order():
    id = f"1700000000-3-1700001000-3-0-5-0-{UUID}"
    given = {"delay.ddmq": id, "delay.topic": "t"}
    order, found = ddmq.read_order({**given, "delay.id": UUID, "delay.owner": "ann"})
    assert (order.name, order.target, order.due, order.owner) == (UUID, "t", 1_700_000_000_000, "ann")
    assert (order.repeat.every_ms, found) == (5000, id)
    for name, wrong in (("id", "another"), ("action", "cancel"), ("topic", " "), ("ddmq", "x")):
        with pytest.raises(NotSchedulable):
            ddmq.read_order({**given, f"delay.{name}": wrong})
    with pytest.raises(NotSchedulable, match="RocketMQ"):
        read_order(given, None, 0)
