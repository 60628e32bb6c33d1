"""The master's side of replication: where a slave starts, what is sent, whose acknowledgements count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.ha.following import Following
from orbitmq.broker.role.links import (
    MAX_GROWTH_NOTES,
    Links,
    LogGrowth,
    Send,
    SlaveLink,
    TransferLimit,
)
from orbitmq.protocol.replication import BadStream, encode_header, encode_report

SEGMENT = 1000


def link(report: int | None = None, *, begin: int = 0, end: int = 5000, now: int = 0) -> SlaveLink:
    made = SlaveLink("10.0.0.1:5", now)
    if report is not None:
        made.heard(encode_report(report), begin, end, now)
    return made


def test_nothing_is_sent_before_the_first_report() -> None:
    assert link().next_send(5000, SEGMENT, 300, 1000, 10_000) is None


def test_an_empty_slave_gets_the_whole_log() -> None:
    assert link(0, begin=2000).next_send(5000, SEGMENT, 300, 1000, 0) == Send(2000, 300)


def test_a_slave_goes_on_where_its_log_ends() -> None:
    assert link(4321).next_send(5000, SEGMENT, 300, 1000, 0) == Send(4321, 300)


@pytest.mark.parametrize(("report", "says"), [(5001, "different ways"), (1999, "what lies between is gone")])
def test_a_slave_with_another_log_is_told_what_to_do(report: int, says: str) -> None:
    with pytest.raises(BadStream, match=says) as raised:
        link(report, begin=2000)
    assert "empty store" in str(raised.value)


@given(st.integers(1, 4999), st.integers(1, 2000))
def test_pieces_cover_the_log_once_and_cross_no_segment(start: int, batch: int) -> None:
    slave, at = link(start), start
    while (send := slave.next_send(5000, SEGMENT, batch, 1000, 0)) is not None:
        assert send.physical_offset == at
        assert 0 < send.size <= batch
        assert at // SEGMENT == (at + send.size - 1) // SEGMENT
        slave.sent(send, 0)
        at += send.size
    assert at == 5000


def test_a_slave_that_acknowledges_more_than_it_was_sent_counts_for_nothing() -> None:
    slave = link(1000)
    slave.sent(Send(1000, 300), 0)
    slave.heard(encode_report(1300), 0, 5000, 0)
    with pytest.raises(BadStream, match="acknowledges the log up to 1301, and was sent it only up to 1300"):
        slave.heard(encode_report(1301), 0, 5000, 0)
    assert slave.acknowledged == 1300


def test_growth_tells_when_the_log_had_reached_an_offset() -> None:
    growth = LogGrowth()
    assert growth.time_of(0) is None
    for log_end, now in ((100, 10), (100, 20), (250, 30), (400, 40)):
        growth.note(log_end, now)
    assert [growth.time_of(at) for at in (99, 100, 249, 250, 400, 9000)] == [None, 20, 20, 30, 40, 40]


def test_growth_stays_small_and_never_makes_a_gap_younger() -> None:
    growth = LogGrowth()
    for step in range(10 * MAX_GROWTH_NOTES):
        growth.note(step, step)
    assert len({growth.time_of(at) for at in range(10 * MAX_GROWTH_NOTES)}) <= MAX_GROWTH_NOTES
    assert growth.time_of(0) == 0
    for at in range(0, 10 * MAX_GROWTH_NOTES, 997):
        time = growth.time_of(at)
        assert time is not None
        assert time <= at


def test_a_heartbeat_leaves_when_nothing_else_did_for_long() -> None:
    slave = link(5000)
    slave.sent(Send(5000, 0), 100)
    assert slave.next_send(5000, SEGMENT, 300, 1000, 1099) is None
    assert slave.next_send(5000, SEGMENT, 300, 1000, 1100) == Send(5000, 0)


def test_a_slave_that_does_not_report_is_silent() -> None:
    slave = link(10, now=50)
    assert not slave.is_silent(20_050, 20_000)
    assert slave.is_silent(20_051, 20_000)


def test_in_sync_are_those_that_lack_less_than_the_gap() -> None:
    links = Links()
    for report in (5000, 4901, 4900):
        links.add(link(report))
    assert links.in_sync(5000, 100) == 2


def test_enough_slaves_hold_the_log_up_to_what_the_last_of_them_holds() -> None:
    links = Links()
    assert links.reached_by(1) == -1
    for report in (4000, 5000, 4500):
        links.add(link(report))
    assert [links.reached_by(count) for count in (1, 2, 3, 4)] == [5000, 4500, 4000, -1]
    links.remove(links.all[1])
    assert links.reached_by(1) == 4500


def test_the_limit_of_a_second_is_that_of_all_slaves() -> None:
    limit = TransferLimit()
    limit.use(80)
    assert limit.left(100, 999) == 20
    limit.use(30)
    assert limit.left(100, 999) == 0
    assert limit.left(100, 1000) == 100


class Log:
    """A slave's log that keeps whole pieces."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.dropped = 0

    def append(self, physical_offset: int, data: bytes) -> None:
        self.end = physical_offset + len(data)

    def drop_partial(self) -> None:
        self.dropped += 1


def test_a_slave_reports_at_first_when_it_advanced_and_after_an_interval() -> None:
    following = Following(Log(10), "master:1", 0)
    assert following.report(10, 0, 1000) == encode_report(10)
    assert following.report(10, 999, 1000) is None
    assert following.report(11, 999, 1000) == encode_report(11)
    assert following.report(11, 1999, 1000) == encode_report(11)


def test_what_comes_is_appended_and_told() -> None:
    log = Log(10)
    following = Following(log, "master:1", 0)
    following.heard(encode_header(10, 3) + b"abc" + encode_header(13, 0), 5)
    assert (log.end, following.received_bytes, following.last_heard_ms, log.dropped) == (13, 3, 5, 1)


@pytest.mark.parametrize("data", [encode_header(9, 3) + b"abc", encode_header(11, 0), encode_header(9, 100)])
def test_a_master_that_goes_on_elsewhere_is_refused_heartbeats_too(data: bytes) -> None:
    log = Log(10)
    with pytest.raises(BadStream, match="ends at 10"):
        Following(log, "master:1", 0).heard(data, 5)
    assert log.end == 10


def test_an_empty_slave_takes_a_log_that_begins_anywhere() -> None:
    log = Log(0)
    Following(log, "master:1", 0).heard(encode_header(4096, 1) + b"a", 5)
    assert log.end == 4097
