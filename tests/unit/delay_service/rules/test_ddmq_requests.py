"""The checks of DDMQ's producer proxy, one by one."""

from dataclasses import replace

import pytest

from orbitmq.delay_service.rules.ddmq_requests import (
    Code,
    DelayRequest,
    RequestRefused,
    cancelled_id,
    check_action,
    check_message,
    new_id,
)

NOW = 1_800_000_000
UUID = "c1a2b3d4-0000-11f0-8000-0123456789ab"
PLAIN = DelayRequest("orders", b"x", 1, timestamp=NOW + 60, type=2, uuid=UUID)
LOOP = replace(PLAIN, type=3, times=5, expire=NOW + 600, interval=3)
POWERS = replace(LOOP, type=4, interval=2)


def never():
    raise AssertionError("the sender gave a uuid")


def refused(check, *given):
    with pytest.raises(RequestRefused) as caught:
        check(*given)
    return caught.value.code


@pytest.mark.parametrize(
    ("tags", "properties", "body"),
    [
        ("t" * 256, {}, b"x"),
        ("", {"KEYS": "k"}, b"x"),
        ("", {"delay.at": "1"}, b"x"),
        ("", {" ": "v"}, b"x"),
        ("", {"p": " "}, b"x"),
        ("", {}, b""),
        ("", {}, b"x" * 11),
    ],
)
def test_messages_that_no_topic_takes(tags, properties, body):
    assert refused(check_message, tags, properties, body, 10) is Code.ILLEGAL


def test_a_message_may_fill_its_limits():
    check_message("t" * 255, {"p": "v"}, b"x" * 10, 10)


@pytest.mark.parametrize(
    ("id", "code"),
    [
        ("", Code.ID),
        (f"1800000060-2-1800172860-0-0-0-0-{UUID.upper()}", Code.ID),
        (f"180000006-2-1800172860-0-0-0-0-{UUID}", Code.ID),
        (f"1800000060-2-1800172860-0-0-0-0-{UUID}\n", Code.ID),
        (f"1800000060-2-1800172860-99999999999-0-0-0-{UUID}", Code.ID),
        (f"1800000060-1-1800172860-0-0-0-0-{UUID}", Code.TYPE),
        (f"1800000060-2-1800172860-0-0-0-2-{UUID}", Code.INNER_TOPIC),
    ],
)
def test_ids_that_cannot_be_cancelled(id, code):
    assert refused(cancelled_id, replace(PLAIN, action=2, id=id), 2) is code


def test_an_id_is_cancelled_by_its_name():
    id = f"1800000060-3-1800172860-5-2-3-1-{UUID}"
    assert cancelled_id(replace(PLAIN, action=2, id=id), 2).uuid == UUID


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (replace(PLAIN, timestamp=999_999_999), Code.TIMESTAMP),
        (replace(PLAIN, timestamp=NOW + 62 * 86_400 + 1), Code.TIMESTAMP),
        (replace(PLAIN, type=1), Code.TYPE),
        (replace(PLAIN, type=5), Code.TYPE),
        (replace(PLAIN, times=1), Code.TIMES),
        (replace(LOOP, times=0), Code.TIMES),
        (replace(POWERS, times=-1), Code.TIMES),
        (replace(LOOP, expire=NOW + 60), Code.EXPIRE),
        (replace(LOOP, interval=2), Code.INTERVAL),
        (replace(POWERS, interval=1), Code.BASE),
        (replace(LOOP, interval=2**31), Code.ILLEGAL),
        (replace(PLAIN, uuid="u" * 256), Code.ILLEGAL),
    ],
)
def test_times_that_are_refused(request_, code):
    assert refused(new_id, request_, never, NOW) is code


def test_an_earlier_check_wins():
    assert refused(new_id, replace(LOOP, timestamp=0, type=7, times=0), never, NOW) is Code.TIMESTAMP
    assert refused(new_id, replace(LOOP, times=0, expire=0, interval=0), never, NOW) is Code.TIMES


def test_ids_have_ddmqs_form():
    assert str(new_id(PLAIN, never, NOW)) == f"1800000060-2-1800172860-0-0-0-0-{UUID}"
    assert str(new_id(LOOP, never, NOW)) == f"1800000060-3-1800000600-5-0-3-0-{UUID}"
    assert new_id(replace(POWERS, uuid=""), lambda: UUID, NOW).uuid == UUID
    past = replace(PLAIN, timestamp=1_000_000_000)
    assert new_id(past, never, NOW).second == 1_000_000_000
    last = replace(PLAIN, timestamp=NOW + 62 * 86_400)
    assert cancelled_id(replace(PLAIN, id=str(new_id(last, never, NOW))), 1).second == last.timestamp


def test_other_actions_are_refused():
    check_action(1)
    check_action(2)
    assert refused(check_action, 0) is Code.ACTION
