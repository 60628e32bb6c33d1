"""Timers from the send to the delivery, on a clock that the test sets."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from orbitmq.broker.delay.timer_records import waited
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import decode_properties
from tests.kit.timer_world import NOW, Open, TimerWorld

VECTORS = Path(__file__).parents[3] / "wire" / "vectors" / "delivered_records.json"


@pytest.fixture
def world(world_of: Open) -> TimerWorld:
    return world_of()


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        ({"TIMER_DELAY_SEC": 2}, 2000),
        ({"TIMER_DELAY_MS": 1234}, 1234),
        ({"TIMER_DELIVER_MS": NOW + 777}, 777),
        ({"TIMER_DELIVER_MS": NOW + 1}, 1),
        ({"TIMER_DELIVER_MS": NOW + 5000}, 5000),
        ({"TIMER_DELAY_SEC": 3, "TIMER_DELAY_MS": 1, "TIMER_DELIVER_MS": NOW + 2}, 3000),
        ({"TIMER_DELAY_MS": 700, "TIMER_DELIVER_MS": NOW + 2}, 700),
    ],
)
def test_a_message_comes_at_its_millisecond(
    world: TimerWorld, properties: dict[str, object], due_ms: int
) -> None:
    world.send("m", **properties)
    world.run(NOW + due_ms - 1, step_ms=100)
    assert world.bodies() == []
    world.now = NOW + due_ms
    world.run()
    assert world.bodies() == ["m"]
    world.run(NOW + due_ms + 5000)
    assert world.bodies() == ["m"], "once"


@pytest.mark.parametrize(
    "properties", [{"TIMER_DELIVER_MS": NOW}, {"TIMER_DELAY_SEC": 0}, {"TIMER_DELAY_MS": -5}]
)
def test_a_time_that_has_passed_is_no_timer(world: TimerWorld, properties: dict[str, object]) -> None:
    world.send("m", **properties)
    assert world.bodies() == ["m"]
    assert "TIMER_OUT_MS" not in world.records()[0].property_map()


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "soon"},
        {"TIMER_DELIVER_MS": ""},
        {"TIMER_DELAY_MS": "1.5"},
        {"TIMER_DELAY_MS": "9" * 30},
        {"TIMER_DELAY_SEC": 259_201},
        {"TIMER_DELAY_SEC": 9_223_372_036_854_775},
        {"TIMER_DELIVER_MS": NOW + 259_200_001},
    ],
)
def test_times_that_are_refused(world: TimerWorld, properties: dict[str, object]) -> None:
    with pytest.raises(Refused) as refused:
        world.send("m", **properties)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert "should not be bigger than the max delay 259200000ms" in refused.value.remark


def test_the_longest_delay_is_taken(world: TimerWorld) -> None:
    world.send("m", TIMER_DELAY_SEC=259_200)
    world.run()
    assert world.timer.pending_by_topic == {"T": 1}


def test_what_is_due_before_it_can_wait_is_delivered_at_once(world: TimerWorld) -> None:
    world.settings.timer_stop_enqueue = True
    world.send("m", TIMER_DELIVER_MS=NOW + 1500)
    world.run(NOW + 5000)
    assert world.bodies() == []
    world.settings.timer_stop_enqueue = False
    world.run()
    (record,) = world.records()
    assert record.property_map()["TIMER_ENQUEUE_MS"] == str((1 << 63) - 1)
    assert world.timer.pending_by_topic == {}


def test_a_message_is_stored_and_delivered_as_apache_does(world: TimerWorld) -> None:
    records = json.loads(VECTORS.read_text())["records"]
    waiting, came = (
        decode_record(bytes.fromhex(record["record_hex"]))
        for record in records
        if "TIMER_DELAY_SEC" in record["properties"]
    )
    sent = decode_properties(waiting.properties)
    for name in ("TIMER_OUT_MS", "REAL_TOPIC", "REAL_QID"):
        del sent[name]
    rerouted = world.timer.reroute("DTest", 0, sent, waiting.store_timestamp)
    assert rerouted is not None
    assert (rerouted.topic, rerouted.queue_id) == (waiting.topic, waiting.queue_id) == (TIMER_TOPIC, 0)
    assert rerouted.properties == decode_properties(waiting.properties)
    want = decode_properties(came.properties)
    message = waited(waiting, int(want["TIMER_ENQUEUE_MS"]), int(want["TIMER_DEQUEUE_MS"]))
    assert message is not None
    assert decode_properties(message.properties) == want
    for name in (
        "topic", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "body",
        "reconsume_times", "prepared_transaction_offset",
    ):  # fmt: skip
        assert getattr(message, name) == getattr(came, name), name


def test_a_message_that_has_waited_does_not_wait_again(world: TimerWorld) -> None:
    world.send("m", TIMER_DELAY_SEC=1)
    world.run(NOW + 1000)
    properties = world.records()[0].property_map()
    assert world.timer.reroute("%RETRY%G", 0, properties, world.now) is None


def test_a_recalled_message_does_not_come(world: TimerWorld) -> None:
    for body in ("kept", "taken back", "kept too"):
        world.send(body, TIMER_DELIVER_MS=NOW + 3500)
    world.run(NOW + 1000)
    world.recall("ID000002", NOW + 3001)
    world.run(NOW + 9000)
    assert world.bodies() == ["kept", "kept too"]
    assert world.timer.metrics.recalled == 1
    assert world.timer.pending_by_topic == {}


def test_a_recall_up_to_the_second_of_the_message_is_in_time(world: TimerWorld) -> None:
    world.send("m", TIMER_DELIVER_MS=NOW + 3001)
    world.run(NOW + 2999)
    world.now = NOW + 3000
    world.recall("ID000001", NOW + 3001)
    world.run(NOW + 9000)
    assert world.bodies() == []


def test_a_recall_in_time_counts_though_slaves_get_both_only_when_the_time_has_passed(
    world: TimerWorld,
) -> None:
    """The timers see only what slaves hold, too; and went on to the next second without these messages."""
    store = world.store
    store.arrivals.replicas_reached(store.max_physical)
    for body in ("kept", "taken back"):
        world.send(body, TIMER_DELIVER_MS=NOW + 3500)
    world.recall("ID000002", NOW + 3001)
    world.run(NOW + 10_000)
    store.arrivals.replicas_reached(store.max_physical)
    world.run(NOW + 20_000)
    store.arrivals.replicas_reached(store.max_physical)
    assert world.bodies() == ["kept"]


def test_a_recall_without_its_message_does_nothing(world: TimerWorld) -> None:
    world.recall("NOSUCH", NOW + 3001)
    world.send("m", TIMER_DELIVER_MS=NOW + 3500)
    world.run(NOW + 9000)
    assert world.bodies() == ["m"]


def test_a_recall_of_what_has_passed_is_refused(world: TimerWorld) -> None:
    with pytest.raises(Refused) as refused:
        world.recall("ID000001", NOW - 1)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_recall_names_the_topic_where_it_is_told_to(world_of: Open) -> None:
    world = world_of(append_topic_for_timer_delete_key=True)
    for topic in ("T", "U"):
        world.send("m", topic=topic, UNIQ_KEY="SAME", TIMER_DELIVER_MS=NOW + 3500)
    world.send("0", UNIQ_KEY="SAME", TIMER_DEL_UNIQKEY="T+SAME", TIMER_DELIVER_MS=NOW + 3001)
    world.run(NOW + 9000)
    assert (world.bodies("T"), world.bodies("U")) == ([], ["m"])


def test_a_message_beyond_the_window_is_stored_again_on_its_way(world_of: Open) -> None:
    world = world_of(timer_roll_window_slot=10, timer_max_delay_sec=100_000)
    world.send("m", TIMER_DELAY_SEC=35, USER="kept")
    world.run(NOW + 34_999, step_ms=250)
    assert world.bodies() == []
    waiting = world.records(TIMER_TOPIC)
    assert [record.property_map().get("TIMER_ROLL_TIMES") for record in waiting] == [None, "1", "2", "3"]
    assert world.timer.pending_by_topic == {"T": 1}
    world.run(NOW + 35_000)
    assert world.bodies() == ["m"]
    assert world.records()[0].property_map()["USER"] == "kept"
    assert world.timer.pending_by_topic == {}


def test_years_are_no_problem(world_of: Open) -> None:
    world = world_of(timer_max_delay_sec=(1 << 31) - 1)
    years = 60 * 365 * 86_400
    world.send("m", TIMER_DELAY_SEC=years)
    for _ in range(30):
        # Two days of which nothing is seen, again and again.
        world.now += 2 * 86_400_000
        world.run()
    assert world.bodies() == []
    assert world.timer.metrics.rolled >= 29
    assert world.timer.pending_by_topic == {"T": 1}
    assert world.records(TIMER_TOPIC)[-1].property_map()["TIMER_OUT_MS"] == str(NOW + years * 1000 - 1000)


def test_a_recall_finds_its_message_beyond_the_window(world_of: Open) -> None:
    world = world_of(timer_roll_window_slot=10)
    world.send("m", TIMER_DELIVER_MS=NOW + 35_500)
    world.run(NOW + 17_000, step_ms=500)
    world.recall("ID000001", NOW + 35_001)
    world.run(NOW + 40_000, step_ms=500)
    assert world.bodies() == []
    assert world.timer.pending_by_topic == {}


def test_a_crowded_second_sheds_sends(world_of: Open) -> None:
    world = world_of(timer_congest_num_each_slot=10)
    for number in range(60):
        with suppress(Refused):
            world.send(f"m{number}", TIMER_DELIVER_MS=NOW + 5500)
        world.run()
    assert world.timer.pending_by_topic == {"T": 20}
    with pytest.raises(Refused, match="flow control, max num limit is 20") as refused:
        world.send("m", TIMER_DELIVER_MS=NOW + 5500)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    world.send("another second", TIMER_DELIVER_MS=NOW + 6500)


def test_figures(world: TimerWorld) -> None:
    metrics = world.timer.metrics
    for number in range(4):
        world.send(f"m{number}", TIMER_DELAY_SEC=30 + number * 100)
    world.send("other", topic="U", TIMER_DELAY_SEC=5)
    assert world.timer.offset_behind == 5
    world.run()
    assert world.timer.offset_behind == 0
    assert world.timer.pending_by_topic == {"T": 4, "U": 1}
    assert metrics.enqueued_by_topic == {"T": 4, "U": 1}
    assert metrics.delays_by_topic["T"] == [1, 3, 0, 0, 0, 0, 0, 720, 4]
    ends = [world.now + seconds * 1000 for seconds in (5, 60, 300, 3600)]
    assert [world.timer.pending_between(world.timer.read_ms, end) for end in ends] == [1, 2, 4, 5]
    world.run(NOW + 10_000, step_ms=1000)
    metrics.tick(world.now)
    assert (metrics.enqueue_tps, metrics.dequeue_tps) == (0.5, 0.1)
    assert metrics.delivered_by_topic == {"U": 1}


def test_without_the_wheel_timers_are_refused(world_of: Open) -> None:
    world = world_of(timer_wheel_enable=False)
    with pytest.raises(Refused, match="timerWheelEnable is false"):
        world.send("m", TIMER_DELAY_SEC=5)
    assert world.timer.step(NOW) == (False, None)


@pytest.mark.parametrize("number", ["²", "9" * 5000])
@pytest.mark.parametrize("name", ["TIMER_OUT_MS", "REAL_QID"])
def test_a_number_that_is_none_in_the_timer_topic_stops_no_other_timer(
    world: TimerWorld, name: str, number: str
) -> None:
    right = {"REAL_TOPIC": "T", "REAL_QID": 0, "TIMER_OUT_MS": NOW + 1000}
    world.send("wrong", topic=TIMER_TOPIC, **{**right, name: number})
    world.send("right", TIMER_DELIVER_MS=NOW + 3000)
    world.run(NOW + 6000, step_ms=500)
    assert world.bodies() == ["right"]


def test_a_number_that_is_none_in_the_last_message_of_a_log_stops_no_start(world: TimerWorld) -> None:
    world.send("kept", TIMER_OUT_MS="9" * 5000, TIMER_DEQUEUE_MS=1)
    end = world.store.max_physical
    world.send("cut", TIMER_DELIVER_MS=NOW + 6000)
    world.run(NOW + 1000)
    world.flush()  # the mark of the timers is beyond what stays
    assert world.store.truncation.run(end, world.now) == end
    assert world.bodies() == ["kept"]
