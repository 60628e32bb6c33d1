from __future__ import annotations

import pytest

from orbitmq.controller.journal import COMMIT_TIMEOUT_MS, Journal
from orbitmq.handling.call import Durable, Outcome, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.schema.declare import Void

NOW = 1_000


def waiting(journal: Journal) -> Wait:
    wait = journal.after_commit(Void(), NOW)
    assert isinstance(wait, Wait)
    return wait


def test_a_batch_holds_the_last_text_of_each_key_and_is_given_once() -> None:
    journal = Journal()
    journal.put("a", "1")
    journal.put("b", "1")
    journal.put("a", None)
    batch = journal.drain()
    assert batch is not None
    assert (batch.version, batch.changes) == (3, {"a": None, "b": "1"})
    assert journal.drain() is None


def test_a_reply_without_changes_before_it_leaves_at_once() -> None:
    reply = Void()
    assert Journal().after_commit(reply, NOW) is reply


def test_a_reply_waits_until_the_store_holds_every_change_before_it() -> None:
    journal = Journal()
    journal.put("a", "1")
    wait = waiting(journal)
    assert wait.on == (Durable(1),)
    assert wait.deadline == NOW + COMMIT_TIMEOUT_MS
    batch = journal.drain()
    assert batch is not None
    journal.confirm(batch)
    assert journal.committed == 1
    assert isinstance(wait.then(Outcome(timed_out=False), NOW), Void)


def test_a_store_that_does_not_answer_in_time_is_an_error() -> None:
    journal = Journal()
    journal.put("a", "1")
    with pytest.raises(Refused) as refused:
        waiting(journal).then(Outcome(timed_out=True), NOW)
    assert refused.value.code == ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR


def test_after_a_refused_change_those_who_wait_learn_that_it_does_not_lead() -> None:
    journal = Journal()
    journal.put("a", "1")
    wait = waiting(journal)
    journal.drop()
    assert journal.drain() is None
    with pytest.raises(Refused) as refused:
        wait.then(Outcome(timed_out=False), NOW)
    assert refused.value.code == ResponseCode.CONTROLLER_NOT_LEADER
