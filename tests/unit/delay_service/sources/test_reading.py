from orbitmq.delay_service.sources.reading import SourceState, begin_at
from tests.kit.delay_world import QUEUE


class Taker:
    """The one who has read a queue up to a position."""

    def __init__(self, position):
        self.at = position

    def position(self, queue):
        return self.at

    def go_back(self, queue, offset):
        self.at = offset


def test_reading_begins_where_it_ended():
    state = SourceState("main/orbitmq_delay")
    assert begin_at(state, Taker(None), QUEUE, 3, 10) == 3
    assert begin_at(state, Taker(7), QUEUE, 3, 10) == 7
    assert state.lost == 0


def test_messages_that_were_deleted_before_they_were_read_are_counted(caplog):
    state = SourceState("main/orbitmq_delay")
    assert begin_at(state, Taker(2), QUEUE, 7, 10) == 7
    assert state.lost == 5
    assert "retention" in caplog.text


def test_a_queue_that_lost_its_end_is_read_from_its_new_end(caplog):
    state = SourceState("main/orbitmq_delay")
    taker = Taker(12)
    assert begin_at(state, taker, QUEUE, 0, 10) == taker.at == 10
    assert "lost messages" in caplog.text


def test_a_source_is_read_once_every_queue_is():
    state = SourceState("s")
    assert not state.is_read
    state.problem = ""
    state.behind = {QUEUE: True}
    assert not state.is_read
    state.behind[QUEUE] = False
    assert state.is_read
