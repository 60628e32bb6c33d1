"""Errors of sends: those that time mends, those that an operator mends, those that nobody does."""

from __future__ import annotations

import pytest

from orbitmq import IllegalMessage, MessageTooLarge, SendFailed, TopicNotFound
from orbitmq.errors import BrokerUnknown, CallTimeout, IllegalName, NoMasterNow, NoNameServer
from orbitmq.outbox.verdicts import FIRST_PAUSE_MS, Pauses, Verdict, verdict_of
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import broker_refused


def refused(code: ResponseCode) -> Exception:
    return broker_refused(int(code), "no")


def failed(*errors: Exception) -> SendFailed:
    return SendFailed("t", [("broker-a", error) for error in errors], 0)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (CallTimeout("127.0.0.1:1", "send", 1), Verdict.AWAY),
        (NoNameServer([]), Verdict.AWAY),
        (NoMasterNow("t"), Verdict.AWAY),
        (failed(BrokerUnknown("x")), Verdict.AWAY),
        (failed(refused(ResponseCode.SYSTEM_BUSY)), Verdict.AWAY),
        (refused(ResponseCode.FLOW_CONTROL), Verdict.AWAY),
        (failed(refused(ResponseCode.NO_PERMISSION), CallTimeout("a:1", "send", 1)), Verdict.AWAY),
        (failed(refused(ResponseCode.NO_PERMISSION)), Verdict.LATER),
        (refused(ResponseCode.TOPIC_NOT_EXIST), Verdict.LATER),
        (TopicNotFound("t"), Verdict.LATER),
        (refused(ResponseCode.MESSAGE_ILLEGAL), Verdict.NEVER),
        (IllegalMessage("x"), Verdict.NEVER),
        (MessageTooLarge(2, 1), Verdict.NEVER),
        (IllegalName("x"), Verdict.NEVER),
        (ZeroDivisionError(), Verdict.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.value,
)
def test_verdicts(error: Exception, verdict: Verdict) -> None:
    assert verdict_of(error) is verdict


def test_pauses_double_up_to_the_longest_and_end_with_a_success() -> None:
    pauses = Pauses(1000)
    lengths = []
    now = 0.0
    for _ in range(6):
        pauses.failed("t", now, 0, some_sent=False)
        left = pauses.left_ms(now)
        assert left is not None
        assert pauses.waiting(now) == {"t"}
        lengths.append(left)
        now += left
        assert pauses.waiting(now) == set()
    assert lengths == [100, 200, 400, 800, 1000, 1000]
    pauses.sent("t")
    pauses.failed("t", now, 0, some_sent=False)
    assert pauses.left_ms(now) == FIRST_PAUSE_MS


def test_a_topic_of_which_some_is_sent_has_short_pauses() -> None:
    pauses = Pauses(1000)
    for _ in range(5):
        pauses.failed("t", 0, 0, some_sent=False)
    pauses.failed("t", 0, 1, some_sent=True)
    assert pauses.left_ms(0) == FIRST_PAUSE_MS / 2
