"""Service as clients had it: cases worked out by hand."""

from __future__ import annotations

import pytest

from orbitmq.testing.prove.service import CONTROL, FaultRow, Service, Window

QUEUE = ("broker-a", 0)


def service_of(
    sends: list[tuple[str, float, float | None, float | None]], windows: list[Window] | None = None
) -> Service:
    """Messages with the times of their send, of its acknowledgement and of their delivery."""
    service = Service()
    service.windows = windows or [Window(CONTROL, 0.0, ended=100.0)]
    for name, sent, acknowledged, _ in sends:
        service.sent[name] = sent
        if acknowledged is not None:
            service.acknowledge(name, acknowledged)
    for name, _, _, given in sorted(
        (one for one in sends if one[3] is not None), key=lambda one: one[3] or 0
    ):
        assert given is not None
        service.give(name, given)
    return service


def row(service: Service, kind: str) -> FaultRow:
    return next(one for one in service.rows() if one.kind == kind)


def test_time_without_service_counts_from_the_fault_on() -> None:
    windows = [Window(CONTROL, 0.0, ended=4.0), Window("kill master", 4.0, 2.0, ended=12.0)]
    sends = [
        ("s0-0", 0.9, 1.0, 1.1),
        ("s0-1", 1.9, 2.0, 2.1),
        ("s0-2", 2.9, 3.0, 3.1),
        ("s0-3", 3.1, 9.0, 9.5),
        ("s0-4", 9.1, 9.2, 9.6),
    ]
    service = service_of(sends, windows)
    service.check({QUEUE: [name for name, *_ in sends]})
    assert row(service, CONTROL).producer == [1.0]
    killed = row(service, "kill master")
    assert killed.producer == [5.0], "not from the last acknowledgement before the fault"
    assert killed.consumer == [pytest.approx(0.5)], "nothing waited for a delivery before 9.0"
    assert killed.slowest == pytest.approx(0.5)
    assert killed.held == [2.0]
    assert not service.broken


def test_a_consumer_waits_from_the_oldest_message_that_it_does_not_get() -> None:
    sends = [("s0-0", 0.9, 1.0, 1.1), ("s0-1", 1.9, 2.0, 7.0), ("s0-2", 3.9, 4.0, 6.5)]
    service = service_of(sends, [Window("pause master", 0.5, ended=10.0)])
    service.check({QUEUE: ["s0-0", "s0-1", "s0-2"]})
    assert row(service, "pause master").consumer == [pytest.approx(4.5)], "6.5 - 2.0"


def test_a_lost_message_is_a_breach_and_counts_for_the_fault_in_which_it_was_promised() -> None:
    windows = [Window(CONTROL, 0.0, ended=4.0), Window("kill master", 4.0, ended=12.0)]
    service = service_of([("s0-0", 1.0, 1.1, 1.2), ("s0-1", 5.0, 5.1, None)], windows)
    service.check({QUEUE: ["s0-0"]})
    assert service.broken == {"lost": 1}
    assert "1.10 s after the fault 'kill master'" in service.examples["lost"][0]
    assert (row(service, CONTROL).lost, row(service, "kill master").lost) == (0, 1)


def test_a_message_that_was_given_and_is_gone_was_taken_back() -> None:
    service = service_of([("s0-0", 1.0, None, 1.2), ("s0-1", 2.0, 2.1, 2.2)])
    service.check({QUEUE: ["s0-1"]})
    assert service.broken == {"taken back": 1}


def test_a_message_that_nobody_sent_is_invented_wherever_it_shows() -> None:
    service = service_of([("s0-0", 1.0, 1.1, 1.2)])
    service.give("stranger", 3.0)
    service.check({QUEUE: ["s0-0", "other"]})
    assert service.broken == {"invented": 2}


def test_acknowledged_messages_that_change_places_break_the_order_and_failed_ones_do_not() -> None:
    sends = [
        ("s0-0", 1.0, 1.1, 1.2),
        ("s0-1", 2.0, 2.1, 2.2),
        ("s0-2", 3.0, None, 9.0),
        ("s1-0", 1.0, 1.1, 1.3),
    ]
    service = service_of(sends)
    service.check({QUEUE: ["s0-0", "s1-0", "s0-2", "s0-1"]})
    assert not service.broken
    service.check({QUEUE: ["s0-1", "s0-0", "s1-0", "s0-2"]})
    assert service.broken == {"order": 1}


def test_a_second_copy_behind_the_first_is_no_breach_and_counts_when_it_is_delivered_twice() -> None:
    service = service_of([("s0-0", 1.0, 1.1, 1.2), ("s0-1", 2.0, 2.1, 2.2)])
    service.give("s0-0", 5.0)
    service.check({QUEUE: ["s0-0", "s0-1", "s0-0"]})
    assert not service.broken
    assert row(service, CONTROL).twice == 1


def test_a_stored_message_that_never_came_is_told_as_not_delivered() -> None:
    service = service_of([("s0-0", 1.0, 1.1, None)])
    assert service.outstanding() == 1
    service.check({QUEUE: ["s0-0"]})
    assert service.broken == {"not delivered": 1}


def test_each_fault_stands_by_itself() -> None:
    windows = [Window("kill slave", 2.0, 1.0, ended=4.0), Window("kill slave", 4.0, 1.5, ended=9.0)]
    service = service_of([("s0-0", 2.0, 2.5, 2.6), ("s0-1", 5.0, 7.0, 7.1)], windows)
    service.check({QUEUE: ["s0-0", "s0-1"]})
    assert [(one["at"], one["held"], one["producer"]) for one in service.each_window()] == [
        (0.0, 1.0, 0.5),
        (2.0, 1.5, 3.0),
    ]
    value = row(service, "kill slave").to_value()
    assert value["times"] == 2
    assert value["producerWithoutServiceSeconds"] == {"median": 1.75, "mean": 1.75, "longest": 3.0}


@pytest.mark.parametrize(
    ("acknowledged", "is_excused"),
    [(3.4, False), (3.6, True), (4.5, True), (6.5, False)],
)
def test_masters_may_lose_what_they_said_no_slave_holds_and_no_more(
    acknowledged: float, is_excused: bool
) -> None:
    """At 4.0, before the fault, the master said that its oldest message without a replica is of 3.5."""
    windows = [Window(CONTROL, 0.0, ended=2.0), Window("kill master", 4.0, ended=6.0, may_lose_from=3.5)]
    service = service_of([("s0-0", 0.9, 1.0, 1.1), ("s0-1", 3.3, acknowledged, 3.7)], windows)
    service.check({QUEUE: ["s0-0"]})
    assert service.lost_as_reported == is_excused
    assert dict(service.broken) == ({} if is_excused else {"lost": 1, "taken back": 1})


def test_where_masters_answer_when_slaves_have_a_message_none_may_be_lost() -> None:
    windows = [Window(CONTROL, 0.0, ended=2.0), Window("kill master", 4.0, ended=6.0)]
    service = service_of([("s0-0", 3.9, 3.95, None), ("s0-1", 4.1, 4.2, None)], windows)
    service.check({QUEUE: []})
    assert service.broken["lost"] == 2
    assert service.lost_as_reported == 0
