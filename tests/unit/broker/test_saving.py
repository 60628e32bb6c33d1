import pytest

from orbitmq.broker.saving import after_saving
from orbitmq.broker.unsaved import Unsaved
from orbitmq.protocol.call import Outcome, Saved, Wait
from orbitmq.protocol.declare import Void
from orbitmq.protocol.errors import Refused


def test_only_what_is_about_to_be_written_is_waited_for() -> None:
    unsaved = Unsaved()
    unsaved.mark("offsets", soon=False)
    reply = Void()
    assert after_saving(unsaved, reply, 0, "topics", "offsets") is reply
    unsaved.mark("topics")
    wait = after_saving(unsaved, reply, 0, "topics", "offsets")
    assert isinstance(wait, Wait)
    assert wait.on == (Saved("topics"),)
    assert wait.then(Outcome(timed_out=False), 5) is reply


def test_a_change_that_cannot_be_saved_is_no_success() -> None:
    unsaved = Unsaved()
    unsaved.mark("topics")
    wait = after_saving(unsaved, Void(), 0, "topics")
    assert isinstance(wait, Wait)
    with pytest.raises(Refused):
        wait.then(Outcome(timed_out=True), 3000)
