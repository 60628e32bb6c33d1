"""Orders, and what becomes of them."""

from dataclasses import replace

from orbitmq.delay_service.http.metrics import exposition
from orbitmq.delay_service.rules.delivery import Result
from orbitmq.delay_service.rules.intake import Intake, Queue, SourceMessage, way_of
from orbitmq.delay_service.rules.targets import Known
from orbitmq.delay_service.store.records import Content
from tests.kit.delay_world import KNOWN, QUEUE

REPLY = {"reply": "replies"}


def test_a_message_comes_at_its_time_with_its_name(world):
    world.send(b"x", topic="t", after="2s", id="n", **REPLY)
    world.run(1900)
    assert world.outcomes() == [("n", "scheduled")]
    assert world.bodies("main/t") == []
    world.run(100)
    ((_, _, one),) = [sent for sent in world.sent if sent[1] == "main/t"]
    assert (one.pending.name, one.pending.due, one.pending.occurrence) == ("n", 1_700_000_002_000, 1)
    assert world.store.pending_count == 0


def test_the_same_name_replaces(world):
    for n in range(3):
        world.send(b"%d" % n, topic="t", after=f"{3 - n}s", id="n", **REPLY)
    world.run(5000)
    assert world.bodies("main/t") == [b"2"]
    assert [outcome for _, outcome in world.outcomes()] == ["scheduled", "replaced", "replaced"]


def test_the_names_of_two_clusters_are_two(world):
    world.send(topic="t", after="1s", id="n")
    world.take_in()
    assert world.store.entry(world.store.number("cluster main"), "n") is not None
    assert world.store.number("cluster events") is None


def test_a_cancel_in_time_and_one_too_late(world):
    world.send(b"x", topic="t", after="1s", id="n")
    world.send(b"y", topic="t", after="1s", id="m")
    world.send(action="cancel", id="n", **REPLY)
    world.run(1500)
    world.send(action="cancel", id="m", **REPLY)
    world.send(action="move", id="m", after="1s", **REPLY)
    world.send(action="cancel", id="nobody", **REPLY)
    world.send(action="cancel", id="n", **REPLY)
    world.run(200)
    assert world.bodies("main/t") == [b"y"]
    assert [outcome for _, outcome in world.outcomes()] == [
        "cancelled", "too-late", "too-late", "unknown", "unknown",
    ]  # fmt: skip


def test_a_name_is_known_for_a_day_after_its_message_has_left(world):
    world.send(topic="t", after="1s", id="n")
    world.run(1100)
    world.now += 23 * 3_600_000
    world.store.forget(world.now)
    world.send(action="cancel", id="n", **REPLY)
    world.run(100)
    world.now += 3 * 3_600_000
    world.store.forget(world.now)
    world.send(action="cancel", id="n", **REPLY)
    world.run(100)
    assert [outcome for _, outcome in world.outcomes()] == ["too-late", "unknown"]


def test_a_move_keeps_the_message(world):
    world.send(b"x", topic="t", after="1s", id="n")
    world.send(b"y", topic="t", after="9s", id="m")
    world.send(b"c", action="move", id="n", after="5s", **REPLY)
    world.send(b"c", action="move", id="m", after="2s", **REPLY)
    world.run(2500)
    assert world.bodies("main/t") == [b"y"]
    world.run(3000)
    assert world.bodies("main/t") == [b"y", b"x"]
    assert [outcome for _, outcome in world.outcomes()] == ["moved", "moved"]


def test_a_cancel_ends_a_repetition(world):
    world.send(b"x", topic="t", after="1s", every="1s", id="n")
    world.run(2500)
    world.send(action="cancel", id="n", **REPLY)
    world.run(5000)
    assert len(world.bodies("main/t")) == 2
    assert world.outcomes() == [("n", "cancelled")]


def test_what_is_on_its_way_is_neither_moved_nor_cancelled(world):
    world.send(b"x", topic="t", after="1s", id="n")
    world.down["main/t"] = Result.FAILED
    world.run(1100)
    world.send(action="cancel", id="n", **REPLY)
    world.send(action="move", id="n", after="1h", **REPLY)
    world.send(b"new", topic="t", after="1h", id="n", **REPLY)
    world.run(200)
    del world.down["main/t"]
    world.run(60_000)
    assert world.bodies("main/t") == [b"x"]
    assert [outcome for _, outcome in world.outcomes()] == ["too-late", "too-late", "scheduled"]
    world.run(3_600_000, 60_000)
    assert world.bodies("main/t") == [b"x", b"new"]


def test_what_has_surely_not_left_can_be_cancelled(world):
    world.send(b"x", topic="t", after="1s", id="n")
    world.down["main/t"] = Result.NOT_SENT
    world.run(1100)
    world.send(action="cancel", id="n", **REPLY)
    world.run(200)
    del world.down["main/t"]
    world.run(60_000)
    assert world.bodies("main/t") == []
    assert world.outcomes() == [("n", "cancelled")]


def test_a_cancel_on_the_way_ends_a_repetition_after_it(world):
    world.send(b"x", topic="t", after="1s", every="1s", id="n")
    world.down["main/t"] = Result.FAILED
    world.run(1100)
    world.send(action="cancel", id="n", **REPLY)
    world.run(100)
    del world.down["main/t"]
    world.run(10_000)
    assert world.bodies("main/t") == [b"x"]
    assert world.outcomes() == [("n", "cancelled")]


def test_a_refused_order_is_a_dead_letter_with_its_reason(world):
    world.send(b"x", topic="t", at="never", id="n", **REPLY)
    world.run(100)
    assert world.outcomes() == [("n", "refused")]
    (reason,) = world.reasons()
    assert reason.startswith("delay.at: 'never'")
    ((_, _, one),) = [sent for sent in world.sent if sent[1].endswith("_dead")]
    assert one.pending.content.properties == {
        "p": "1", "delay.topic": "t", "delay.at": "never", "delay.id": "n", "delay.reply": "replies",
    }  # fmt: skip


def test_targets_that_cannot_be(world):
    for target in ("orbitmq_delay", "main/orbitmq_delay", "events/orbitmq_delay", "nowhere/t", "a b", "/t",
                   "events/" + "x" * 250, "events/.."):  # fmt: skip
        world.send(topic=target, after="1s")
    world.run(3000)
    assert len(world.reasons()) == 8
    assert world.store.pending_count == 0


def test_a_message_without_a_form_at_its_target_is_refused_at_once(world):
    record = SourceMessage(
        0, world.now, {"delay.topic": "main/t", "delay.after": "1s"}, Content(None, headers=[])
    )
    world.intake.take(QUEUE, [record], 1, world.now)
    world.deliver()
    assert "needs a body" in world.reasons()[0]


def test_a_reply_that_cannot_be_sent_harms_nothing(world):
    world.send(b"x", topic="t", after="1s", reply="nowhere/t")
    world.down["main/replies"] = Result.NO_TARGET
    world.send(b"y", topic="t", after="1s", **REPLY)
    world.run(1100)
    assert world.bodies("main/t") == [b"x", b"y"]
    assert world.delivery.counts.replies_lost == 1


def test_a_queue_is_read_once_whatever_comes_again(world):
    world.send(b"x", topic="t", after="1s")
    world.take_in()
    world.intake.take(QUEUE, world.log, 1, world.now)
    world.run(1100)
    assert world.bodies("main/t") == [b"x"]


def test_names_of_the_service_are_the_same_in_every_instance(world):
    assert world.intake.name_of(QUEUE, 7) == Intake(world.store, world.lanes, KNOWN).name_of(QUEUE, 7)


def test_a_name_of_one_owner_is_not_anothers(world):
    world.send(b"x", topic="t", after="1s", id="n", owner="ann")
    world.send(b"y", topic="t", after="1s", id="n", owner="bob", **REPLY)
    world.send(action="cancel", id="n", **REPLY)
    world.run(1100)
    assert world.bodies("main/t") == [b"x"]
    assert [outcome for _, outcome in world.outcomes()] == ["refused", "refused"]


def test_names_of_an_owner_with_a_topic_are_reached_through_it_alone(world):
    own = Queue("main", "of_ann", "b:0")
    known = replace(KNOWN, owners={own.target: "ann"})
    world.intake = Intake(world.store, world.lanes, known)

    def outcome(queue, offset, **control):
        given = {f"delay.{name}": value for name, value in control.items()}
        found = []
        world.intake.on_outcome = lambda *heard: found.append(heard[2])
        world.intake.take(
            queue, [SourceMessage(offset, world.now, given, Content(b"x", {}))], offset + 1, world.now
        )
        return found[0].word

    schedule = {"topic": "t", "after": "1h", "id": "n"}
    assert outcome(own, 0, **schedule) == "scheduled"
    assert outcome(QUEUE, 0, action="cancel", id="n") == "refused"
    assert outcome(QUEUE, 1, action="cancel", id="n", owner="ann") == "refused"
    assert outcome(QUEUE, 2, action="move", after="2h", id="n", owner="ann") == "refused"
    assert outcome(QUEUE, 3, owner="ann", **schedule) == "refused"
    assert outcome(own, 1, owner="bob", **schedule) == "refused"
    assert outcome(own, 2, owner="ann", **schedule) == "replaced"
    assert outcome(own, 3, action="move", after="2h", id="n") == "moved"
    assert outcome(own, 4, action="cancel", id="n") == "cancelled"
    # Another cluster has names of its own.
    assert (
        outcome(Queue("events", "q", "0"), 0, owner="ann", topic="main/t", after="1h", id="n") == "scheduled"
    )


def test_the_service_writes_to_the_topic_of_an_owner_for_that_owner_alone():
    ann, shared = Queue("main", "of_ann", "b:0"), Queue("main", "more", "b:1")
    known = replace(KNOWN, owners={ann.target: "ann"})
    for owner, came, way in (
        ("", None, ("usual", None)),
        ("", shared, ("more", shared)),
        ("", ann, ("usual", None)),
        ("bob", ann, ("usual", None)),
        ("ann", ann, ("of_ann", ann)),
        ("ann", shared, ("of_ann", None)),
        ("ann", None, ("of_ann", None)),
    ):
        assert way_of(known, "main", owner, came, "usual") == way
    assert way_of(known, "events", "ann", None, "usual") == ("usual", None)


def test_targets_are_limited(world):
    few = Known(KNOWN.kafka, KNOWN.sources, KNOWN.dead_topic, max_targets=2)
    world.intake = Intake(world.store, world.lanes, few)
    for n in range(4):
        world.send(topic=f"t{n}", after="1s")
    world.run(1500)
    assert len(world.reasons()) >= 1
    assert "targets" in world.reasons()[0]


def test_the_clocks_of_senders_are_compared_with_their_sources(world):
    world.send(topic="t", after="3m").sent = world.now - 300_000
    world.take_in()
    given = world.store, world.intake.counts, world.delivery.counts
    text = exposition(*given, {}, 0, world.now).decode()
    assert 'orbitmq_delay_producer_skew_seconds{source="main/orbitmq_delay"} 300.0\n' in text
