"""Each cause by itself: the evidence that shows it, and a near miss that does not."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from orbitmq.admin.diagnosis.evidence import Evidence, Handling, HeldQueue, LoopBlocks, Member, QueueEvidence
from orbitmq.admin.diagnosis.rules import RULES, diagnose
from orbitmq.protocol.bodies.queue import MessageQueue

NOW = 1_000_000_000
QUEUES = [MessageQueue("orders", "a", number) for number in range(2)]
FRESH = HeldQueue(last_pull_ms=NOW - 1000, last_consume_ms=NOW - 1000)


def member(name: str = "c1", **changes: Any) -> Member:
    healthy = Member(
        name,
        threads=2,
        subscriptions={"orders": "*"},
        held=dict.fromkeys(QUEUES, FRESH),
        handling={"orders": Handling(handler_ms=5, ok_tps=10, pull_tps=10)},
    )
    return replace(healthy, **changes)


def queue(number: int = 0, **changes: Any) -> QueueEvidence:
    return replace(
        QueueEvidence(QUEUES[number], 500, consumed=20, arrived=10, consumer_offset=100), **changes
    )


def evidence(**changes: Any) -> Evidence:
    return replace(Evidence("billing", NOW, 1.0, [queue(0), queue(1)], [member()]), **changes)


def retried(**changes: Any) -> QueueEvidence:
    return replace(QueueEvidence(MessageQueue("%RETRY%billing", "a", 0), 40), **changes)


STILL = [queue(0, consumed=0), queue(1, consumed=0)]
CASES: Mapping[str, tuple[Evidence, Evidence]] = {
    "UNKNOWN_GROUP": (evidence(known=False, queues=[], members=[]), evidence(known=False)),
    "NOT_PERMITTED": (
        evidence(forbidden={"a": "NO_PERMISSION: no"}),
        evidence(brokers_refusing={"a": "SYSTEM_BUSY: later"}),
    ),
    "BROADCASTING": (evidence(broadcasting=True), evidence()),
    "GROUP_DISABLED": (evidence(enabled=False), evidence()),
    "BROKER_GONE": (
        evidence(brokers_gone={"a": "cannot connect"}),
        evidence(forbidden={"a": "NO_PERMISSION: no"}, brokers_refusing={"b": "SYSTEM_BUSY: later"}),
    ),
    "BROKER_REFUSES": (
        evidence(brokers_refusing={"a": "SYSTEM_BUSY: later"}),
        evidence(brokers_gone={"a": "cannot connect"}),
    ),
    "NO_CONTROLLER": (evidence(brokers_blind={"a": 1_000}), evidence()),
    "NO_CONSUMER": (evidence(members=[]), evidence(members=[], queues=[queue(lag=0)])),
    "TOPIC_NOT_READABLE": (
        evidence(unreadable=frozenset({"orders"})),
        evidence(unreadable=frozenset({"orders"}), queues=[queue(lag=0)]),
    ),
    "SUBSCRIPTIONS_DIFFER": (
        evidence(members=[member(), member("c2", subscriptions={"orders": "new"})]),
        evidence(members=[member(), member("c2"), member("c3", answered=False, subscriptions={})]),
    ),
    "NOT_SUBSCRIBED": (
        evidence(members=[member(subscriptions={"payments": "*"})]),
        evidence(members=[member(subscriptions={"payments": "*"}), member("c2", answered=False)]),
    ),
    "LOCKED_BY_ANOTHER": (
        evidence(members=[member(ordered=True, held={QUEUES[0]: replace(FRESH, locked=False)})]),
        evidence(members=[member(ordered=True)]),
    ),
    "PAUSED": (
        evidence(queues=STILL, members=[member(held={QUEUES[0]: replace(FRESH, last_pull_ms=NOW - 90_000)})]),
        evidence(members=[member(held={QUEUES[0]: replace(FRESH, last_pull_ms=NOW - 20_000)})], queues=STILL),
    ),
    "STUCK_QUEUE": (
        evidence(
            queues=STILL,
            members=[member(held={QUEUES[0]: replace(FRESH, cached=32, last_consume_ms=NOW - 90_000)})],
        ),
        evidence(members=[member(held={QUEUES[0]: replace(FRESH, cached=32, last_consume_ms=NOW - 90_000)})]),
    ),
    "HANDLER_FAILS": (
        evidence(members=[member(handling={"orders": Handling(5, ok_tps=1, failed_tps=9)})]),
        evidence(members=[member(handling={"orders": Handling(5, ok_tps=99, failed_tps=1)})]),
    ),
    "RETRIES_GROW": (
        evidence(queues=[*STILL, retried(arrived=9, consumed=2)], retry_lag=40),
        evidence(queues=[*STILL, retried(arrived=2, consumed=9)], retry_lag=40),
    ),
    "FLOW_CONTROL": (
        evidence(members=[member(held={QUEUES[0]: replace(FRESH, cached=1000)})]),
        evidence(members=[member(held={QUEUES[0]: replace(FRESH, cached=500)})]),
    ),
    "SLOW_HANDLER": (
        evidence(members=[member(handling={"orders": Handling(800, ok_tps=2)})]),
        evidence(
            members=[member(handling={"orders": Handling(800, ok_tps=2)})],
            queues=[queue(lag=3), queue(1, lag=3)],
        ),
    ),
    "QUEUE_WITHOUT_READER": (
        evidence(members=[member(held={QUEUES[0]: FRESH})]),
        evidence(members=[member(held={QUEUES[0]: FRESH}), member("c2", answered=False)]),
    ),
    "MORE_MEMBERS_THAN_QUEUES": (
        evidence(members=[member(), member("c2", held={}), member("c3", held={})]),
        evidence(members=[member(held={QUEUES[0]: FRESH}), member("c2", held={QUEUES[1]: FRESH})]),
    ),
    "FILTER_DROPS_ALL": (
        evidence(members=[member(subscriptions={"orders": "old"}, handling={})]),
        evidence(
            members=[member(subscriptions={"orders": "old"}, handling={"orders": Handling(5, ok_tps=1)})]
        ),
    ),
    "DELETED_BEFORE_READ": (
        evidence(queues=[queue(min_offset=150), queue(1)]),
        evidence(queues=[queue(min_offset=100), queue(1)]),
    ),
    "LOOP_BLOCKED": (
        evidence(members=[member(blocks=LoopBlocks(3, 2500, NOW - 5000, "worker.py:7 in handle"))]),
        evidence(members=[member(blocks=LoopBlocks(3, 2500, NOW - 500_000, "worker.py:7 in handle"))]),
    ),
    "MEMBER_SILENT": (
        evidence(queues=STILL, members=[member(), member("c2", answered=False)]),
        evidence(members=[member(), member("c2", answered=False)]),
    ),
    "CATCHING_UP": (evidence(), evidence(queues=[queue(consumed=5), queue(1, consumed=5)])),
    "TOO_MUCH_COMES_IN": (evidence(queues=[queue(consumed=5), queue(1, consumed=5)]), evidence()),
}


@pytest.mark.parametrize("cause", CASES)
def test_a_cause_is_named_first_by_its_evidence_and_not_by_a_near_miss(cause: str) -> None:
    shown, missed = CASES[cause]
    first = diagnose(shown)[0]
    assert first.cause == cause
    assert str(first.sentence).endswith(".")
    assert first.advice
    assert cause not in [one.cause for one in diagnose(missed)]


def test_every_rule_has_a_case() -> None:
    assert len(CASES) == len(RULES)


def test_a_group_without_backlog_is_not_behind_and_one_that_no_rule_explains_says_so() -> None:
    assert [one.cause for one in diagnose(evidence(queues=[queue(lag=0)]))] == ["NOT_BEHIND"]
    assert [one.cause for one in diagnose(evidence(queues=STILL))] == ["NOT_FOUND"]


def test_an_ordered_queue_that_nobody_got_is_locked_and_one_of_another_client_is_not_judged() -> None:
    ordered = member(ordered=True, held={QUEUES[0]: FRESH})
    still = [queue(), queue(1, consumed=0)]
    assert diagnose(evidence(queues=still, members=[ordered]))[0].cause == "LOCKED_BY_ANOTHER"
    silent = member("c2", answered=False)
    causes = [one.cause for one in diagnose(evidence(queues=still, members=[ordered, silent]))]
    assert "LOCKED_BY_ANOTHER" not in causes


def test_a_member_with_a_stray_filter_is_named() -> None:
    usual = [member(name) for name in ("c1", "c3")]
    found = diagnose(evidence(members=[*usual, member("c2", subscriptions={"orders": "new"})]))[0]
    assert str(found.sentence).startswith(
        "c2 reads orders by `new`, and the others of group billing by `*`: what its filter passes over"
    )


def test_new_dead_letters_are_told_even_if_nothing_is_behind() -> None:
    found = diagnose(evidence(queues=[queue(lag=0)], new_dead_letters=2, dead_letters=7))
    assert [str(one.sentence) for one in found] == ["Messages of group billing become dead letters."]
    assert "2 became dead letters" in str(found[0].evidence[0])


def test_names_in_commands_stay_single_words_of_a_shell() -> None:
    hostile = "g|$(id)'"
    found = diagnose(evidence(group=hostile, enabled=False))
    (advice,) = (str(one.advice) for one in found if one.cause == "GROUP_DISABLED")
    assert shlex.split(advice)[4] == hostile
