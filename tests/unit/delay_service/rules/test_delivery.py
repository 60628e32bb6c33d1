"""The due loop."""

from orbitmq.delay_service.rules import delivery
from orbitmq.delay_service.rules.delivery import Result, Sent, outgoing_content
from orbitmq.delay_service.rules.lanes import LONGEST_PAUSE_MS, Lanes
from orbitmq.delay_service.store import keys


def test_messages_leave_in_the_order_of_their_times(world):
    for n in (5, 1, 4, 2, 3):
        world.send(b"%d" % n, topic="t", after=f"{n * 10}ms")
    world.take_in()
    world.now += 1000
    world.deliver(most=2)
    assert world.bodies("main/t") == [b"1", b"2", b"3", b"4", b"5"]


def test_a_time_in_the_past_is_delivered_at_once_and_tells_its_time(world):
    world.send(b"old", topic="t", at="-5000")
    world.run(100)
    assert world.bodies("main/t") == [b"old"]
    assert outgoing_content(world.sent[-1][2]).properties["delay.due"] == "-5000"


def test_one_dead_target_holds_up_nobody(world):
    world.down["main/dead"] = Result.FAILED
    for n in range(20):
        world.send(b"%d" % n, topic="dead", after=f"{n * 100}ms")
        world.send(b"%d" % n, topic="alive", after=f"{n * 100}ms")
    world.run(5000)
    assert len(world.bodies("main/alive")) == 20
    assert max(now - one.pending.due for now, to, one in world.sent) <= 200
    del world.down["main/dead"]
    world.run(2 * LONGEST_PAUSE_MS)
    assert world.bodies("main/dead") == [b"%d" % n for n in range(20)]


def test_pauses_grow_while_a_target_fails(world):
    world.down["main/t"] = Result.FAILED
    world.send(topic="t", after="1s")
    world.run(3_600_000, 1000)
    assert 100 < world.delivery.counts.failed["main/t"] < 200


def test_a_refusal_for_good_is_a_dead_letter(world):
    world.down["main/t"] = Result.NO_TARGET
    world.send(b"x", topic="t", after="1s", id="n")
    world.run(1500)
    ((_, to, one),) = world.sent
    assert to == "main/orbitmq_delay_dead"
    assert outgoing_content(one).properties == {
        "p": "1", "delay.topic": "main/t", "delay.id": "n", "delay.reason": "as told",
        "delay.due": "1700000001000", "delay.occurrence": "1",
    }  # fmt: skip
    assert world.store.pending_count == 0


def test_dead_letters_wait_for_their_topic(world):
    world.down["main/orbitmq_delay_dead"] = Result.NO_TARGET
    world.send(b"x", topic="t", at="never")
    world.run(5000)
    assert world.store.pending_count == 1
    del world.down["main/orbitmq_delay_dead"]
    world.run(LONGEST_PAUSE_MS)
    assert len(world.reasons()) == 1
    assert outgoing_content(world.sent[-1][2]).properties["p"] == "1"


def test_a_dead_letter_that_is_too_large_loses_its_properties_first(world):
    world.send(b"x" * 5000, topic="t", at="never")
    world.take_in()
    lane = world.lanes.due(world.now)
    batch = world.delivery.take(lane, world.now)
    world.delivery.done(lane, batch, [Sent(Result.REFUSED, "too large")], world.now)
    world.deliver()
    content = outgoing_content(world.sent[-1][2])
    assert len(content.body) == 5000
    assert set(content.properties) == {"delay.id", "delay.reason"}


def test_a_dead_letter_that_nobody_takes_blocks_no_other(world):
    world.down["main/orbitmq_delay_dead"] = Result.REFUSED
    world.send(b"x" * 5000, topic="t", at="never")
    world.run(30_000)
    assert world.store.pending_count == 0
    assert world.delivery.counts.letters_lost == 1


def test_an_expired_message_is_not_delivered(world):
    world.send(b"x", topic="t", after="2s", expires=world.now + 2000)
    world.send(b"y", topic="t", after="2s", expires=world.now + 2500)
    world.run(4000)
    assert world.bodies("main/t") == [b"y"]
    assert world.delivery.counts.expired["main/t"] == 1
    assert world.store.pending_count == 0


def test_very_many_expired_messages_go_in_steps(world, monkeypatch):
    monkeypatch.setattr(delivery, "MOST_LOOKED_AT", 10)
    for _ in range(35):
        world.send(b"x", topic="t", after="1s", expires=world.now + 500)
    world.send(b"y", topic="t", after="1s")
    world.take_in()
    world.now += 2000
    lane = world.lanes.due(world.now)
    assert world.delivery.take(lane, world.now) == []
    assert world.delivery.counts.expired["main/t"] == 10
    world.deliver()
    assert world.bodies("main/t") == [b"y"]
    assert world.store.pending_count == 0


def test_a_repetition_keeps_its_name_and_counts(world):
    world.send(b"x", topic="t", after="1s", every="1s", times="3", id="n")
    world.run(10_000)
    assert [(one.pending.name, one.pending.occurrence) for _, _, one in world.sent] == [
        ("n", 1), ("n", 2), ("n", 3),
    ]  # fmt: skip


def test_after_a_pause_a_repetition_goes_on_with_the_last_missed_time(world):
    world.send(b"x", topic="t", after="1s", every="1s", id="n")
    world.run(1100)
    world.now += 60_000
    world.run(1000)
    assert [one.pending.occurrence for _, _, one in world.sent] == [1, 61, 62]


def test_after_a_pause_every_missed_time_comes_if_asked_for(world):
    world.send(b"x", topic="t", after="1s", every="1s", catch_up="all", id="n")
    world.run(1100)
    world.now += 5000
    world.run(500)
    assert [one.pending.occurrence for _, _, one in world.sent] == [1, 2, 3, 4, 5, 6]


def test_a_missed_daily_time_may_be_passed_over(world):
    world.send(b"x", topic="t", cron="0 9 * * *", catch_up="none", id="n")
    world.take_in()
    first = keys.due_of(world.store.entry(world.store.number("cluster main"), "n").key)
    world.now = first + 3_600_000
    world.run(1000)
    assert world.sent == []
    world.now = first + 86_400_000
    world.run(100)
    assert [one.pending.due for _, _, one in world.sent] == [first + 86_400_000]


def test_a_rate_limits_a_topic(world):
    world.lanes = Lanes(world.store, {"main/t": 10.0})
    world.intake._lanes = world.delivery._lanes = world.lanes
    for _ in range(100):
        world.send(topic="t", at="0")
        world.send(topic="free", at="0")
    world.run(1000)
    assert 10 <= len(world.bodies("main/t")) <= 21
    assert len(world.bodies("main/free")) == 100
    world.run(10_000)
    assert len(world.bodies("main/t")) == 100


def test_what_came_due_while_the_service_was_down_is_late(world):
    world.send(b"x", topic="t", after="1s")
    world.take_in()
    world.now += 3_600_000
    world.run(100)
    assert world.delivery.counts.late["main/t"] == 1


def test_a_burst_due_before_the_start_starves_no_other_target(world):
    for n in range(2000):
        world.send(b"%d" % n, topic="burst", after="1ms")
    world.send(b"x", topic="calm", after="2ms")
    world.take_in(3000)
    world.crash()
    world.now += 3_600_000
    world.open()
    first = [str(world.lanes.due(world.now).target) for _ in range(2)]
    assert sorted(first) == ["main/burst", "main/calm"], "each target has a batch before one has its second"


def test_after_a_crash_what_may_have_left_leaves_again_and_is_not_cancelled(world):
    world.send(b"x", topic="t", after="1s", id="n")
    world.send(b"far", topic="t", after="1h", id="far")
    world.take_in()
    world.now += 1000
    lane = world.lanes.due(world.now)
    assert len(world.delivery.take(lane, world.now)) == 1
    world.crash()
    world.open()
    world.send(action="cancel", id="n", reply="replies")
    world.send(action="cancel", id="far", reply="replies")
    world.run(100)
    assert world.bodies("main/t") == [b"x"]
    assert world.outcomes() == [("n", "too-late"), ("far", "cancelled")]


def test_a_batch_that_is_claimed_ahead_leaves_the_one_before_it_claimed(world):
    for name, after in (("second", "2s"), ("third", "3s")):
        world.send(name.encode(), topic="t", after=after, id=name)
    world.take_in()
    world.now += 5000
    lane = world.lanes.due(world.now)
    assert len(world.delivery.take(lane, world.now, 1)) == 1
    assert world.delivery.may_claim_ahead(lane, world.now)
    world.send(b"first", topic="t", at=world.now - 4000, id="first")
    world.take_in()
    (ahead,) = world.delivery.take(lane, world.now, 1)
    assert ahead.pending.name == "first"
    world.crash()
    world.open()
    for name in ("first", "second", "third"):
        world.send(action="cancel", id=name, reply="replies")
    world.run(100)
    assert world.outcomes() == [("first", "too-late"), ("second", "too-late"), ("third", "cancelled")]
    assert world.bodies("main/t") == [b"first", b"second"]


def test_a_batch_that_was_claimed_ahead_of_a_failure_waits_in_the_store(world):
    for n in range(4):
        world.send(b"%d" % n, topic="t", after="1s", id=f"{n}")
    world.take_in()
    world.down["main/t"] = Result.FAILED
    world.now += 1000
    world.deliver(most=2)
    (lane,) = world.lanes
    assert not world.delivery.may_claim_ahead(lane, world.now)
    for n in (1, 2):
        world.send(action="cancel", id=f"{n}", reply="replies")
    world.down.clear()
    world.run(1000)
    assert world.bodies("main/t") == [b"0", b"1", b"3"]
    assert world.outcomes() == [("1", "too-late"), ("2", "cancelled")]


def test_form_of_ddmq_moves_on_with_each_time(world):
    from orbitmq.delay_service.rules import ddmq
    from orbitmq.delay_service.rules.intake import SourceMessage
    from tests.kit.delay_world import QUEUE

    second = world.now // 1000 + 1
    ids = [f"{second + 3 * n}-3-{second + 1000}-3-{n}-3-0-u-u-i-d" for n in range(3)]
    body = (
        f'{{"action":1,"body":"b","topic":"t","uniqDelayMsgId":"{ids[0]}","properties":{{"x":"1"}}}}'
    ).encode()
    order, content, text = ddmq.read_body(body)
    world.intake.take(QUEUE, [SourceMessage(0, world.now, {}, content, order=order, ddmq=text)], 1, world.now)
    world.run(20_000)
    sent = [outgoing_content(one).properties for _, _, one in world.sent]
    assert sent == [
        {
            "x": "1",
            "KEYS": id,
            "from_chronos": "from_chronos",
            "delay.id": "u-u-i-d",
            "delay.due": f"{second + 3 * n}000",
            "delay.occurrence": str(n + 1),
        }
        for n, id in enumerate(ids)
    ]
