"""Breaches of promises are found from the answers that clients got, and nothing else is called a breach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.testing.load.history import RULES, History, Promise

T = ("T", 0)


def sent(history: History, name: str, *, place: int = -1, now_ms: float = 0, **more: Any) -> Promise:
    """A message that was sent to T:0 and acknowledged."""
    promise = history.promise(name, "T", 0, more.pop("kind", "plain"), **more)
    history.acknowledge(promise, now_ms, place)
    return promise


def rules(history: History, *names: str) -> list[str]:
    """The rules that are broken when T:0 holds these messages in the end."""
    return [one.rule for one in history.check({T: list(names)})]


def test_what_was_kept_is_no_breach() -> None:
    history = History()
    for number in range(3):
        sent(history, f"a-{number}")
        assert history.saw("T", 0, number, f"a-{number}", 100 * number, 0)
    assert history.outstanding() == []
    assert rules(history, "a-0", "a-1", "a-2") == []


def test_an_acknowledged_message_that_is_not_there_is_lost() -> None:
    history = History()
    sent(history, "a-0")
    sent(history, "a-1")
    assert rules(history, "a-0") == ["lost"]


def test_a_message_without_an_answer_may_be_there_or_not() -> None:
    for names in ((), ("a-1",)):
        history = History()
        sent(history, "a-0")
        history.promise("a-1", "T", 0, "plain")
        assert rules(history, "a-0", *names) == []


def test_a_message_that_is_there_twice_was_doubled() -> None:
    history = History()
    sent(history, "half-0", kind="transaction")
    assert rules(history, "half-0", "half-0") == ["doubled"]


def test_a_message_that_nobody_sent_was_invented() -> None:
    history = History()
    sent(history, "a-0")
    assert rules(history, "a-0", "stranger-0") == ["invented"]
    history.saw("T", 0, 0, "another-0", 0, 0)
    history.pop("a third-0")
    assert [one.rule for one in history.broken] == ["invented"] * 3


def test_a_queue_that_shows_another_message_at_an_offset_has_changed() -> None:
    history = History()
    for number in range(2):
        sent(history, f"a-{number}")
        history.saw("T", 0, number, f"a-{number}", 100 * number, 0)
    assert "changed" in rules(history, "a-1", "a-0")


def test_a_queue_without_a_message_at_an_offset_has_a_gap() -> None:
    history = History()
    sent(history, "a-0")
    assert not history.saw("T", 0, 1, "a-0", 0, 0)
    assert str(history.broken[0]) == "gaps: T:0 gave offset 1 where 0 was next"


def test_messages_of_one_sender_stand_in_the_order_of_their_answers() -> None:
    history = History()
    for name in ("a-0", "b-0", "a-1"):
        sent(history, name)
    assert rules(history, "b-0", "a-1", "a-0") == ["order"]


def test_a_message_before_its_time_is_early_and_one_at_its_time_is_not() -> None:
    history = History()
    for number, seen_ms in enumerate((998, 999, 1_000)):  # two clocks may differ by a ms
        sent(history, f"timer-{number}", kind="timer", not_before_ms=1_000)
        history.saw("T", 0, number, f"timer-{number}", 0, seen_ms)
    assert [str(one) for one in history.broken] == ["early: timer-0 came 2 ms before its time"]


def test_what_was_rolled_back_must_not_be_there() -> None:
    history = History()
    sent(history, "half-0", kind="transaction", visible=False)
    assert rules(history) == []
    assert rules(history, "half-0") == ["undone"]


def test_a_message_that_was_acknowledged_in_time_is_not_popped_again_in_the_same_life() -> None:
    history = History()
    sent(history, "pop-0", kind="popped")
    history.pop("pop-0")
    history.pop_acknowledged("pop-0", in_time=False, life=0)
    history.pop("pop-0")
    assert history.broken == []
    history.pop_acknowledged("pop-0", in_time=True, life=0)
    history.pop("pop-0")
    assert [one.rule for one in history.broken] == ["acked again"]
    history.life_ended("kill", 0)
    history.pop("pop-0")
    assert len(history.broken) == 1, "the acknowledgement may have gone with that life of the broker"


def test_a_popped_message_that_never_comes_again_is_starved() -> None:
    history = History()
    sent(history, "pop-0", kind="popped")
    history.saw("T", 0, 0, "pop-0", 0, 0)
    assert history.outstanding() == ["pop-0"]
    assert rules(history, "pop-0") == ["starved"]


def test_a_broker_that_acknowledges_nothing_is_stuck() -> None:
    history = History()
    history.promise("a-0", "T", 0, "plain")
    assert rules(history) == ["stuck"]


@pytest.mark.parametrize(
    ("found", "end", "broken"),
    [(7, None, 0), (6, None, 1), (9, None, 1), (8, 8, 0), (8, 7, 1)],
    ids=["as noted", "behind what was noted", "beyond what was committed", "at the end", "beyond the end"],
)
def test_offsets_stay_between_what_was_noted_and_what_was_committed(
    found: int, end: int | None, broken: int
) -> None:
    history = History()
    history.committed[T] = 8
    history.offset_committed("T", 0, 7, is_sure=True)
    history.offset_found("T", 0, found, end)
    assert [one.rule for one in history.broken] == ["offsets"] * broken


@pytest.mark.parametrize(("kind", "broken"), [("kill", 0), ("stop", 1)])
def test_offsets_go_back_in_crashes_only(kind: str, broken: int) -> None:
    history = History()
    history.committed[T] = 8
    history.offset_committed("T", 0, 8, is_sure=True)
    history.life_ended(kind, 0)
    history.offset_found("T", 0, 5)
    assert len(history.broken) == broken


def test_an_offset_whose_commit_got_no_answer_holds_nothing() -> None:
    history = History()
    history.committed[T] = 8
    history.offset_committed("T", 0, 8, is_sure=True)
    history.offset_committed("T", 0, 3, is_sure=False)
    history.offset_found("T", 0, 3)
    assert history.broken == []


def test_a_power_cut_may_take_what_is_not_on_the_disk_and_that_is_counted() -> None:
    history = History()
    for number, place in enumerate((100, 500, 600)):
        sent(history, f"a-{number}", place=place, now_ms=10 * number)
        history.saw("T", 0, number, f"a-{number}", place, 0)
    history.life_ended("cut", 60, durable=500)
    assert history.outstanding() == []
    assert rules(history, "a-0") == []
    assert (history.cuts, history.loss.messages, history.loss.most_ms) == (1, 2, 50)
    assert dict(history.loss.by_kind) == {"plain": 2}


def test_a_power_cut_takes_nothing_that_is_on_the_disk() -> None:
    history = History()
    sent(history, "a-0", place=100)
    history.life_ended("cut", 60, durable=500)
    assert rules(history) == ["lost"]


def test_an_answer_that_comes_behind_a_power_cut_is_of_the_life_before_it() -> None:
    history = History()
    late = history.promise("a-0", "T", 0, "plain")
    history.life_ended("cut", 60, durable=500)
    history.acknowledge(late, 61, 700)
    sent(history, "a-1", place=700)
    assert rules(history, "a-1") == []


def test_a_kill_without_a_power_cut_takes_nothing() -> None:
    history = History()
    sent(history, "a-0", place=600)
    history.life_ended("kill", 60)
    assert rules(history) == ["lost"]


def _early(history: History) -> None:
    sent(history, "timer-0", kind="timer", not_before_ms=1_000)
    history.saw("T", 0, 0, "timer-0", 0, 0)


@pytest.mark.parametrize("breach", [_early, lambda history: history.pop("nobody's")])
def test_breaches_are_named_by_a_rule_that_is_explained(breach: Callable[[History], None]) -> None:
    history = History()
    breach(history)
    assert {one.rule for one in history.broken} <= set(RULES)
    assert history.broken


def test_a_recall_of_a_message_that_was_not_acknowledged_is_excused_by_a_power_cut_as_well() -> None:
    for is_cut in (False, True):
        history = History()
        sent(history, "a-0")
        history.recalled(history.promise("t-0", "T", 0, "timed"))
        if is_cut:
            history.life_ended("cut", 0, 0)
        assert rules(history, "a-0", "t-0") == ([] if is_cut else ["undone"])
