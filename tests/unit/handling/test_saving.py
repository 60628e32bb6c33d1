import pytest

from orbitmq.handling.call import Outcome, Saved, Wait
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.handling.saving import after_saving
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.schema.declare import Void


def test_only_what_is_about_to_be_written_is_waited_for() -> None:
    dirty_tables = DirtyTables()
    dirty_tables.mark("offsets", soon=False)
    reply = Void()
    assert after_saving(dirty_tables, reply, 0, "topics", "offsets") is reply
    dirty_tables.mark("topics")
    wait = after_saving(dirty_tables, reply, 0, "topics", "offsets")
    assert isinstance(wait, Wait)
    assert wait.on == (Saved("topics"),)
    assert wait.then(Outcome(timed_out=False), 5) is reply


def test_a_change_that_cannot_be_saved_is_no_success() -> None:
    dirty_tables = DirtyTables()
    assert isinstance(after_saving(dirty_tables, Void(), 1000, "topics"), Void)
    dirty_tables.mark("topics")
    wait = after_saving(dirty_tables, Void(), 1000, "topics")
    assert isinstance(wait, Wait)
    assert wait.deadline == 4000
    with pytest.raises(Refused, match="was not saved in time"):
        wait.then(Outcome(timed_out=True), 4000)
