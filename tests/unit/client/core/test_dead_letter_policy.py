"""Time that messages wait for a retry, and the cases without one."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.options import ConsumerOptions


def test_the_last_wait_is_for_all_that_follow() -> None:
    policy = DeadLetterPolicy(delay_levels=(1, 4))
    assert [policy.delay_level(attempt) for attempt in (1, 2, 3, 9)] == [1, 4, 4, 4]


def test_without_waits_of_its_own_the_broker_decides() -> None:
    assert DeadLetterPolicy().delay_level(7) == 0


def test_gives_up_on_an_exception_and_its_subclasses() -> None:
    policy = DeadLetterPolicy(dead_letter_on=(LookupError, ValueError))
    assert policy.gives_up_on(KeyError("k"))
    assert not policy.gives_up_on(RuntimeError("r"))
    assert not policy.gives_up_on(None)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"delay_levels": (0,)}, "delay_levels"),
        ({"delay_levels": [3]}, "delay_levels"),
        ({"delay_levels": (19,)}, "delay_levels"),
        ({"dead_letter_on": (ValueError("v"),)}, "dead_letter_on"),
        ({"dead_letter_on": ValueError}, "dead_letter_on"),
        ({"when_exhausted": "forget"}, "when_exhausted"),
    ],
)
def test_an_argument_that_is_none_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=f"DeadLetterPolicy: {named}"):
        DeadLetterPolicy(**options)


def test_attempts_are_said_once() -> None:
    with pytest.raises(InvalidArgument, match="max_reconsume_times or dead_letter_policy"):
        ConsumerOptions("g", max_reconsume_times=3, dead_letter_policy=DeadLetterPolicy())


def test_a_broadcasting_consumer_takes_no_option_of_retries() -> None:
    with pytest.raises(InvalidArgument, match="dead_letter_policy is not for broadcasting consumers"):
        ConsumerOptions("g", broadcasting=True, dead_letter_policy=DeadLetterPolicy(delay_levels=(1, 2)))
    with pytest.raises(InvalidArgument, match="max_reconsume_times is not for broadcasting consumers"):
        ConsumerOptions("g", broadcasting=True, max_reconsume_times=3)
