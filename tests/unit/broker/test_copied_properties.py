"""Properties of copies: what they say more fits, or they go without what can be made again."""

from __future__ import annotations

import pytest

from orbitmq.broker.copied_properties import MAX_COPIED_PROPERTIES_BYTES, NoRoom, copied_properties
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.names import (
    DELAY,
    FIRST_POP_TIME,
    ORIGIN_GROUP,
    ORIGIN_MESSAGE_ID,
    POP_CK,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_ROLL_TIMES,
    WAIT,
)
from orbitmq.protocol.records.message import MAX_PROPERTIES_BYTES, MAX_SENT_PROPERTIES_BYTES
from orbitmq.protocol.records.properties import BadProperty, change_properties

LONGEST_NUMBER = str((1 << 63) - 1)


def test_the_room_that_a_broker_keeps_is_enough_for_the_longest_names() -> None:
    """Everything that may be added to one message, one behind the other, with a broker's name of 150."""
    longest = LONGEST_NUMBER
    handle = PopHandle(int(longest), 1_795_000_000_000, 259_200_000, 999, 2, "b" * 150, 99_999, int(longest))
    added = {
        TIMER_ENQUEUE_MS: longest,
        TIMER_DEQUEUE_MS: "1795000000000",
        TIMER_ROLL_TIMES: "999",
        FIRST_POP_TIME: "1795000000000",
        ORIGIN_GROUP: "g" * 120,
        RETRY_TOPIC: "t" * 127,
        ORIGIN_MESSAGE_ID: "F" * 56,
        WAIT: "false",
        DELAY: "18",
        REAL_TOPIC: "%RETRY%" + "g" * 120,
        REAL_QUEUE_ID: "99999",
        POP_CK: handle.to_text(),
    }
    full = b"K\x01" + b"x" * (MAX_SENT_PROPERTIES_BYTES - 3) + b"\x02"
    assert len(change_properties(full, added)) <= MAX_COPIED_PROPERTIES_BYTES < MAX_PROPERTIES_BYTES


def test_a_copy_goes_without_what_can_be_made_again_and_never_without_what_its_user_wrote() -> None:
    own = b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
    users = b"K\x01" + b"x" * (MAX_COPIED_PROPERTIES_BYTES - 3 - 20) + b"\x02"
    made = copied_properties(users + own, {"REAL_QID": "3", "NICE": "to know"}, ("NICE",))
    assert made == users + b"REAL_QID\x013\x02"
    with pytest.raises(NoRoom):
        copied_properties(users + own, {"REAL_TOPIC": "t" * 20})
    with pytest.raises(NoRoom):
        copied_properties(users + own, {"REAL_QID": "3"}, room=30)


def test_values_that_are_no_text_stay_as_they_are() -> None:
    odd = b"K\x01\xff\xfe" * 1 + b"\xff" * 30_000 + b"\x02A\x011\x02\x02B\x01\x02A\x012\x02"
    assert (
        copied_properties(odd, {"C": "3"})
        == b"K\x01\xff\xfe" + b"\xff" * 30_000 + b"\x02A\x012\x02C\x013\x02"
    )
    with pytest.raises(BadProperty):
        copied_properties(b"", {"C": "a\x02b"})
