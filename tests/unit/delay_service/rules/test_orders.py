import pytest

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.orders import Cancel, Move, Schedule, read_order
from orbitmq.delay_service.store.records import Repeat

NOW = 1_700_000_000_000


def order(stored=NOW, now=NOW, **given):
    return read_order({f"delay.{name.replace('_', '-')}": text for name, text in given.items()}, stored, now)


def test_orders():
    assert order(topic="t", at="5") == Schedule("", "t", 5)
    assert order(topic="t", after="2s", id="n", owner="o") == Schedule("n", "t", NOW + 2000, owner="o")
    assert order(action="cancel", id="n") == Cancel("n")
    assert order(action="move", id="n", after="1s") == Move("n", NOW + 1000)
    assert order(topic="t", at="7", expires="-3") == Schedule("", "t", 7, expires=0)


def test_a_span_counts_from_the_store_time():
    assert order(topic="t", after="1s", stored=5000).due == 6000
    with pytest.raises(NotSchedulable, match="LogAppendTime"):
        order(topic="t", after="1s", stored=None)


def test_repetitions():
    found = order(topic="t", at=str(NOW), every="2s", factor="1.5", times="4", until=str(NOW + 9000))
    assert found.repeat == Repeat(2000, 1.5, 4, NOW + 9000)
    assert found.due == NOW
    cron = order(topic="t", cron="0 9 * * *", zone="Asia/Tokyo", catch_up="none")
    assert cron.repeat == Repeat(cron="0 9 * * *", zone="Asia/Tokyo", catch_up="none")
    assert cron.due % 86_400_000 == 0


def test_a_repetition_that_began_long_ago_begins_with_its_last_missed_time():
    found = order(topic="t", at="0", every="1s")
    assert (found.due, found.occurrence) == (NOW, NOW // 1000 + 1)


BAD = {
    "no target": {"after": "1s"},
    "blank target": {"topic": " ", "after": "1s"},
    "no time": {"topic": "t"},
    "two times": {"topic": "t", "at": "5", "after": "1s"},
    "word": {"topic": "t", "at": "tomorrow"},
    "action": {"topic": "t", "after": "1s", "action": "explode"},
    "nameless cancel": {"action": "cancel"},
    "timeless move": {"action": "move", "id": "n"},
    "interval 0": {"topic": "t", "after": "1s", "every": "0"},
    "factor NaN": {"topic": "t", "after": "1s", "every": "1s", "factor": "NaN"},
    "factor negative": {"topic": "t", "after": "1s", "every": "1s", "factor": "-1"},
    "factor that shrinks": {"topic": "t", "after": "1s", "every": "1s", "factor": "0.5"},
    "times 0": {"topic": "t", "after": "1s", "every": "1s", "times": "0"},
    "times word": {"topic": "t", "after": "1s", "every": "1s", "times": "many"},
    "until word": {"topic": "t", "after": "1s", "every": "1s", "until": "late"},
    "until before the first": {"topic": "t", "after": "1s", "every": "1s", "until": "5"},
    "cron": {"topic": "t", "cron": "every day"},
    "empty cron": {"topic": "t", "after": "1s", "cron": ""},
    "cron never": {"topic": "t", "cron": "0 0 30 2 *"},
    "zone": {"topic": "t", "cron": "* * * * *", "zone": "Mars/Olympus"},
    "catch-up": {"topic": "t", "cron": "* * * * *", "catch_up": "some"},
    "expires": {"topic": "t", "after": "1s", "expires": "soon"},
    "a long name": {"topic": "t", "after": "1s", "id": "x" * 10_000},
    "a blank name": {"topic": "t", "after": "1s", "id": "  "},
    "a million at once": {"topic": "t", "at": str(NOW - 10**9), "every": "1s", "catch_up": "all"},
    "factor alone": {"topic": "t", "after": "1s", "factor": "2"},
    "every and cron": {"topic": "t", "every": "1s", "cron": "* * * * *"},
    "over": {"topic": "t", "at": "0", "every": "1s", "times": "3", "catch_up": "none"},
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_a_reason(given):
    with pytest.raises(NotSchedulable) as refused:
        order(**given)
    assert 10 < len(str(refused.value)) < 300
