"""Sends with a time, and taking them back by handle, asked as clients ask."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.handles.recall import RecallHandle
from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.admin import (
    GetBrokerRuntimeInfo,
    GetTimerCheckPoint,
    GetTimerMetrics,
    SwitchTimerEngine,
)
from orbitmq.protocol.requests.send import RecallMessage, SendMessageV2, SendReply
from tests.kit.real_broker import NOW, RealBroker

Make = Callable[..., RealBroker]
UNIQUE_ID = "7F0000010001000000000000000000AA"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:

        def one(**properties: object) -> RealBroker:
            real = RealBroker(tmp_path, recallMessageEnable=True, **properties)
            stack.callback(real.close)
            return real

        yield one


def send(real: RealBroker, body: str = "m", now: int = NOW, **properties: object) -> SendReply:
    given = {"UNIQ_KEY": UNIQUE_ID, **properties}
    text = "".join(f"{name}\x01{value}\x02" for name, value in given.items())
    reply = real.handle(SendMessageV2("P", "T", "TBW102", 4, 2, 0, now, 0, text, body=body.encode()), now)
    while not isinstance(reply, SendReply):
        reply = reply.then(type("Outcome", (), {"timed_out": False}), now)
    return reply


def refusal(real: RealBroker, request: Any, now: int = NOW) -> Refused:
    with pytest.raises(Refused) as refused:
        real.handle(request, now)
    return refused.value


def run(real: RealBroker, until: int, step_ms: int = 100) -> None:
    for now in range(NOW, until + 1, step_ms):
        step = real.broker.timer.step(now)
        while step.again or step.fetch is not None:
            if step.fetch is not None:
                step.fetch()
                real.broker.timer.fetched()
            step = real.broker.timer.step(now)


def bodies(real: RealBroker) -> list[bytes]:
    store = real.store
    found = []
    for queue_offset in range(store.max_offset("T", 2)):
        unit = store.physical_offset_of("T", 2, queue_offset)
        assert unit is not None
        record = store.record_at(unit[0])
        assert record is not None
        found.append(decode_record(record).body)
    return found


def test_the_answer_to_a_timer_message_holds_its_handle(make: Make) -> None:
    reply = send(make(), TIMER_DELIVER_MS=NOW + 5500)
    assert reply.recall_handle is not None
    assert RecallHandle.decode(reply.recall_handle) == ("T", "broker-a", NOW + 5001, UNIQUE_ID)


def test_other_messages_have_no_handle(make: Make) -> None:
    real = make()
    assert send(real).recall_handle is None
    assert send(real, DELAY=3).recall_handle is None
    assert send(real, DELAY=3, TIMER_DELAY_SEC=5).recall_handle is None


def test_a_level_wins_over_a_time(make: Make) -> None:
    real = make()
    send(real, DELAY=1, TIMER_DELAY_SEC=5)
    assert real.store.max_offset("SCHEDULE_TOPIC_XXXX", 0) == 1
    unit = real.store.physical_offset_of("SCHEDULE_TOPIC_XXXX", 0, 0)
    assert unit is not None
    record = real.store.record_at(unit[0])
    assert record is not None
    assert "TIMER_DELAY_SEC" not in decode_record(record).property_map()


def test_a_recalled_message_never_comes(make: Make) -> None:
    real = make()
    reply = send(real, "taken back", TIMER_DELIVER_MS=NOW + 5500)
    send(real, "kept", UNIQ_KEY="OTHER", TIMER_DELIVER_MS=NOW + 5500)
    answer = real.handle(RecallMessage("T", reply.recall_handle or "", "P"), NOW + 100)
    assert answer.msg_id == UNIQUE_ID
    run(real, NOW + 9000)
    assert bodies(real) == [b"kept"]
    unit = real.store.physical_offset_of(TIMER_TOPIC, 0, 2)
    assert unit is not None
    record = real.store.record_at(unit[0])
    assert record is not None
    stored = decode_record(record)
    assert stored.body == b"0"
    assert stored.property_map() == {
        "TIMER_DEL_UNIQKEY": UNIQUE_ID,
        "UNIQ_KEY": UNIQUE_ID,
        "TIMER_DELIVER_MS": str(NOW + 5001),
        "TIMER_OUT_MS": str(NOW + 5000),
        "BORN_TIMESTAMP": str(NOW + 100),
        "TAGS": "_RECALL_TAG_",
        "PGROUP": "P",
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }


def test_an_unknown_message_is_recalled_without_a_word(make: Make) -> None:
    real = make()
    send(real)
    handle = RecallHandle("T", "broker-a", NOW + 5001, "NOSUCH").encode()
    assert real.handle(RecallMessage("T", handle)).msg_id == "NOSUCH"


@pytest.mark.parametrize(
    ("handle", "remark"),
    [
        ("", "recall handle is invalid"),
        ("not base64!", "recall handle is invalid"),
        (urlsafe_b64encode(b"v2 T broker-a 1 x").decode(), "recall handle is invalid"),
        (urlsafe_b64encode(b"v1 T broker-a 1").decode(), "recall handle is invalid"),
        (RecallHandle("U", "broker-a", NOW + 5001, "x").encode(), "topic not match"),
        (RecallHandle("T", "broker-b", NOW + 5001, "x").encode(), "of broker broker-b"),
        (RecallHandle("T", "broker-a", NOW, "x").encode(), "timestamp invalid"),
        (RecallHandle("T", "broker-a", NOW + 259_200_000, "x").encode(), "timestamp invalid"),
        (urlsafe_b64encode(b"v1 T broker-a soon x").decode(), "timestamp invalid"),
    ],
)
def test_handles_that_are_refused(make: Make, handle: str, remark: str) -> None:
    real = make()
    send(real)
    refused = refusal(real, RecallMessage("T", handle))
    assert refused.code == ResponseCode.ILLEGAL_OPERATION
    assert remark in refused.remark
    assert refused.extra == {"MSG_REGION": "DefaultRegion"}


def test_recalls_that_are_not_taken(make: Make) -> None:
    real = make()
    handle = send(real, TIMER_DELIVER_MS=NOW + 5500).recall_handle or ""
    settings = real.broker.settings
    assert refusal(real, RecallMessage("NOSUCH", handle)).code == ResponseCode.TOPIC_NOT_EXIST
    settings.broker_permission = 4
    assert real.handle(RecallMessage("T", handle)).msg_id == UNIQUE_ID
    settings.allow_recall_when_broker_not_writeable = False
    assert refusal(real, RecallMessage("T", handle)).code == ResponseCode.SERVICE_NOT_AVAILABLE
    settings.broker_permission = 6
    settings.start_accept_send_request_time_stamp = NOW + 1
    assert refusal(real, RecallMessage("T", handle)).code == ResponseCode.SERVICE_NOT_AVAILABLE
    settings.recall_message_enable = False
    assert refusal(real, RecallMessage("T", handle)).code == ResponseCode.NO_PERMISSION


def test_check_point_counts_and_figures(make: Make) -> None:
    real = make()
    for number in range(3):
        send(real, UNIQ_KEY=f"ID{number}", TIMER_DELAY_SEC=100)
    run(real, NOW + 1000)
    body = real.handle(GetTimerCheckPoint()).body
    assert len(body) == 56
    assert [int.from_bytes(body[at : at + 8], "big") for at in (0, 16, 24)] == [NOW + 1000, 3, 3]
    assert b'"timingCount":{"T":{"count":3' in real.handle(GetTimerMetrics()).body
    info = real.handle(GetBrokerRuntimeInfo(), NOW + 1000).body.table
    assert (info["timerCongestNum"], info["timerReadBehind"], info["timerOffsetBehind"]) == ("3", "0", "0")


def test_without_the_wheel_there_is_nothing_to_tell(make: Make) -> None:
    real = make(timerWheelEnable=False)
    assert refusal(real, GetTimerCheckPoint()).code == ResponseCode.SYSTEM_ERROR
    assert refusal(real, GetTimerMetrics()).code == ResponseCode.SYSTEM_ERROR
    assert refusal(real, SwitchTimerEngine("F")).code == ResponseCode.INVALID_PARAMETER
    with pytest.raises(Refused, match="timerWheelEnable is false"):
        send(real, TIMER_DELAY_SEC=3)


def test_the_file_wheel_is_the_only_engine(make: Make) -> None:
    real = make(timerStopEnqueue=True)
    assert real.handle(SwitchTimerEngine("F")).remark == "switch timer engine success"
    assert real.broker.settings.timer_stop_enqueue is False
    for engine in ("R", "X", None):
        assert refusal(real, SwitchTimerEngine(engine)).code == ResponseCode.INVALID_PARAMETER
