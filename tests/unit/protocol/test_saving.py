import pytest

from orbitmq.broker.unsaved import Unsaved
from orbitmq.nameserver.unsaved import Unsaved as UnsavedOfNamesrv
from orbitmq.protocol.call import Outcome, Saved, Wait
from orbitmq.protocol.declare import Void
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.saving import after_saving


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


@pytest.mark.parametrize("unsaved", [Unsaved(), UnsavedOfNamesrv()])
def test_a_change_that_cannot_be_saved_is_no_success(unsaved: Unsaved | UnsavedOfNamesrv) -> None:
    assert isinstance(after_saving(unsaved, Void(), 1000, "topics"), Void)
    unsaved.mark("topics")
    wait = after_saving(unsaved, Void(), 1000, "topics")
    assert isinstance(wait, Wait)
    assert wait.deadline == 4000
    with pytest.raises(Refused, match="could not be saved"):
        wait.then(Outcome(timed_out=True), 4000)
