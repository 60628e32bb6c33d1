"""Delivery of delayed messages: when, in which order, and what a restart or a crash leaves to do."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from orbitmq.broker.delay import level_delivery as delay
from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.store import Appended, PendingMessage, PutStatus
from tests.kit.memory_store import MemoryStore

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
NOW = 1_795_000_000_000


def waiting(levels: DelayLevels, level: int, *, topic: str = "T", now: int = NOW) -> PendingMessage:
    rerouted = levels.reroute(topic, 2, {"DELAY": str(level), "TAGS": "a"}, now)
    assert rerouted is not None
    return PendingMessage(
        rerouted.topic, rerouted.queue_id, 7, 1, now - 5, HOST, HOST, 1, 0, b"body",
        encode_properties(rerouted.properties), rerouted.tags_code,
    )  # fmt: skip


class World:
    def __init__(self, levels: str = "1s 5s 10s") -> None:
        self.levels = DelayLevels(levels)
        self.store = MemoryStore()
        self.dirty_tables = DirtyTables()
        self.delay = DelayDelivery(self.levels, self.store, self.dirty_tables, NOW)

    def put(self, level: int, count: int = 1, now: int = NOW) -> None:
        for _ in range(count):
            self.store.append(waiting(self.levels, level, now=now), now)

    def delivered(self) -> int:
        return self.store.max_offset("T", 2)


def test_a_message_comes_when_it_is_due_and_not_before() -> None:
    world = World()
    world.put(1)
    assert not world.delay.deliver_due(NOW + 999)
    assert world.delivered() == 0
    world.delay.deliver_due(NOW + 1000)
    assert world.delivered() == 1
    world.delay.deliver_due(NOW + 9000)
    assert world.delivered() == 1


def test_each_level_has_its_own_time() -> None:
    world = World()
    for level in (3, 2, 1):
        world.put(level)
    for after, want in ((1000, 1), (5000, 2), (10_000, 3)):
        world.delay.deliver_due(NOW + after)
        assert world.delivered() == want
    assert world.delay.positions == {1: 1, 2: 1, 3: 1}


def test_all_but_topic_and_queue_stays_as_it_was() -> None:
    world = World()
    world.put(1)
    world.delay.deliver_due(NOW + 1000)
    unit = world.store.physical_offset_of("T", 2, 0)
    assert unit is not None
    message = decode_record(world.store.by_offset[unit[0]])
    assert (message.topic, message.queue_id, message.body) == ("T", 2, b"body")
    assert (message.flag, message.sys_flag, message.reconsume_times) == (7, 1, 1)
    assert (message.born_timestamp, message.born_host) == (NOW - 5, HOST)
    assert message.property_map() == {"DELAY": "1", "TAGS": "a", "REAL_TOPIC": "T", "REAL_QID": "2"}
    assert unit[2] == ord("a"), "consumers filter by the tag again"


def test_a_time_of_a_clock_that_was_set_back_is_due_at_once() -> None:
    world = World()
    world.store.append(waiting(world.levels, 1, now=NOW + 3_600_000), NOW + 3_600_000)
    world.delay.deliver_due(NOW)
    assert world.delivered() == 1


def test_a_message_waits_though_the_clock_of_the_new_master_is_a_little_behind() -> None:
    world = World("1s 2h")
    world.store.append(waiting(world.levels, 2, now=NOW + 100), NOW + 100)
    world.delay.deliver_due(NOW + 50)
    assert world.delivered() == 0
    world.delay.deliver_due(NOW + 100 + 7_200_000)
    assert world.delivered() == 1


def with_levels(world: World, levels: str) -> None:
    """A restart with other levels."""
    world.store.durable_offset = world.store.end
    text = world.delay.snapshot()()
    world.levels = DelayLevels(levels)
    world.delay = DelayDelivery(world.levels, world.store, DirtyTables(), NOW)
    world.delay.load_text(text)
    world.delay.start()


def test_a_time_that_was_promised_holds_when_its_level_gets_shorter() -> None:
    world = World("1s 1h")
    world.put(2)
    with_levels(world, "1s 5s")
    world.put(2)
    world.delay.deliver_due(NOW + 5000)
    assert world.delivered() == 0, "the second one waits behind the first one"
    world.delay.deliver_due(NOW + 3_600_000)
    assert world.delivered() == 2


def test_a_level_that_gets_longer_leaves_what_waits_as_it_is() -> None:
    world = World("1s 5s")
    world.put(2)
    with_levels(world, "1s 1h")
    world.delay.deliver_due(NOW + 4999)
    assert world.delivered() == 0
    world.delay.deliver_due(NOW + 5000)
    assert world.delivered() == 1


def test_messages_of_a_level_that_is_gone_come_when_they_are_due() -> None:
    world = World("1s 5s 10s")
    world.put(3)
    with_levels(world, "1s 5s")
    assert world.delay.oldest_waiting() is None or world.delay.oldest_waiting() == 0
    world.delay.deliver_due(NOW + 9999)
    assert world.delivered() == 0
    assert world.delay.oldest_waiting() == 0
    world.delay.deliver_due(NOW + 10_000)
    assert world.delivered() == 1
    assert world.delay.oldest_waiting() is None


def test_a_level_that_is_added_is_used_and_the_others_go_on() -> None:
    world = World("1s")
    world.put(1)
    with_levels(world, "1s 3s")
    world.put(2)
    world.delay.deliver_due(NOW + 1000)
    assert world.delivered() == 1
    world.delay.deliver_due(NOW + 3000)
    assert world.delivered() == 2
    assert world.delay.positions == {1: 1, 2: 1}


def test_a_turn_delivers_so_many_and_asks_to_be_called_again() -> None:
    world = World()
    world.put(1, 5)
    assert world.delay.deliver_due(NOW + 1000, limit=3)
    assert world.delivered() == 3
    assert not world.delay.deliver_due(NOW + 1000, limit=3)
    assert world.delivered() == 5


def test_what_the_store_refuses_is_tried_again() -> None:
    world = World()
    world.put(1, 2)
    world.store.refuse = PutStatus.SERVICE_NOT_AVAILABLE
    assert not world.delay.deliver_due(NOW + 1000)
    assert world.delay.positions.get(1, 0) == 0
    world.store.refuse = None
    world.delay.deliver_due(NOW + 1100)
    assert world.delivered() == 2


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_stored_behind_a_message_that_was_refused_is_not_stored_again(restarts: bool) -> None:
    world = World()
    world.delay.start()
    file = world.delay.snapshot()()
    bodies = [b"0", b"1", b"2", b"3", b"4"]
    for body in bodies:
        world.store.append(replace(waiting(world.levels, 1), body=body), NOW)
    counted: list[str] = []
    world.delay.on_delivered = lambda topic, queue_id, size, count: counted.append(topic)
    world.store.refuse_bodies = {b"1", b"3"}
    world.delay.deliver_due(NOW + 1000)
    assert world.delay.positions[1] == 1
    if restarts:
        world.store.durable_offset = world.store.end
        file = world.delay.snapshot()()
        world.delay = DelayDelivery(world.levels, world.store, DirtyTables(), NOW + 1000)
        world.delay.load_text(file)
        world.delay.start()
        world.delay.on_delivered = lambda topic, queue_id, size, count: counted.append(topic)
    world.delay.deliver_due(NOW + 1100)
    world.store.refuse_bodies = {b"3"}
    world.delay.deliver_due(NOW + 1200)
    assert world.delay.positions[1] == 3
    world.store.refuse_bodies = set()
    world.delay.deliver_due(NOW + 1300)
    delivered_bodies = [message.body for message in world.store.appended if message.topic == "T"]
    assert sorted(delivered_bodies) == bodies
    assert len(counted) == len(bodies)
    assert world.delay.positions[1] == 5


def test_no_more_than_some_bytes_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.put(1, 10)
    together: list[int] = []
    append_many = world.store.append_many

    def noted(batch: Sequence[PendingMessage], now: int, answers: list[Appended]) -> list[Appended]:
        together.append(len(batch))
        return append_many(batch, now, answers)

    monkeypatch.setattr(world.store, "append_many", noted)
    monkeypatch.setattr(delay, "BATCH_BYTES", 3 * len(b"body"))
    world.delay.deliver_due(NOW + 1000)
    assert together == [3, 3, 3, 1]
    assert world.delivered() == 10


def test_what_cannot_be_delivered_is_counted_and_passed() -> None:
    world = World()
    world.put(1, 2)
    first = world.store.queues[(SCHEDULE, 0)][0][0]
    world.store.by_offset[first] = b"\x00" * 40
    world.store.append(waiting(world.levels, 1, topic="RMQ_SYS_TRANS_HALF_TOPIC"), NOW)
    world.delay.deliver_due(NOW + 1000)
    assert world.delay.skipped == 2
    assert world.delivered() == 1
    assert world.store.max_offset("RMQ_SYS_TRANS_HALF_TOPIC", 2) == 0
    assert world.delay.positions[1] == 3


def test_positions_outside_their_queue_are_brought_back() -> None:
    world = World()
    world.put(1, 2)
    world.delay.load_text(
        '{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":5},"offsetTable":{1:9,2:4}}'
    )
    world.delay.start()
    assert world.delay.positions == {1: 2, 2: 0}


def test_the_file_never_runs_ahead_of_the_disk() -> None:
    world = World()
    world.put(1, 2)
    world.delay.deliver_due(NOW + 1000)
    assert '"offsetTable":{\n\t\t\n\t}' in world.delay.snapshot()()
    world.store.durable_offset = world.store.end
    assert "1:2" in world.delay.snapshot()()
    world.put(1)
    world.delay.deliver_due(NOW + 2000)
    assert "1:2" in world.delay.snapshot()()
    world.store.durable_offset = world.store.end
    assert "1:3" in world.delay.snapshot()()


def test_the_oldest_message_that_waits() -> None:
    world = World()
    assert world.delay.oldest_waiting() is None
    world.put(2)
    second = world.store.end
    world.put(1)
    world.delay.deliver_due(NOW)
    assert world.delay.oldest_waiting() == 0
    world.delay.deliver_due(NOW + 5000)
    assert world.delay.oldest_waiting() is None
    assert second > 0


def test_positions_are_the_same_after_a_restart() -> None:
    world = World()
    world.put(1, 2)
    world.delay.deliver_due(NOW + 1000)
    world.store.durable_offset = world.store.end
    again = DelayDelivery(world.levels, world.store, DirtyTables(), NOW)
    again.load_text(world.delay.snapshot()())
    again.start()
    again.deliver_due(NOW + 2000)
    assert world.delivered() == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_at_any_moment_repeats_nothing_and_skips_nothing(seed: int) -> None:
    chance = random.Random(seed)
    world = World("1s 2s 3s")
    world.delay.start()
    assert world.dirty_tables.drain_soon() == {"delay"}, "nothing is delivered before the file has the offset"
    file, now, sent = world.delay.snapshot()(), NOW, 0
    for _ in range(60):
        now += chance.randint(1, 900)
        for _ in range(chance.randint(0, 4)):
            # Some cannot be told from one another: same properties, same body, same time.
            world.put(chance.randint(1, 3), now=now)
            sent += 1
        world.delay.deliver_due(now, limit=chance.choice((1, 3, 100)))
        if chance.random() < 0.5:
            world.store.durable_offset = world.store.end
        if chance.random() < 0.3:
            file = world.delay.snapshot()()
        if chance.random() < 0.3:
            world.delay = DelayDelivery(world.levels, world.store, DirtyTables(), now)
            world.delay.load_text(file)
            world.delay.start()
    while world.delay.deliver_due(now + 10_000):
        pass
    assert world.delivered() == sent


def followed(world: World) -> DelayDelivery:
    """A replica with the same log, once its master has told it how far it has got."""
    again = DelayDelivery(world.levels, world.store, DirtyTables(), NOW)
    again.follow(world.delay.to_body().to_json_text(), world.store.end, world.store.end)
    return again


def test_a_replica_repeats_nothing_that_its_master_recognised_after_a_crash_of_its_own() -> None:
    world = World("1s 5s")
    world.delay.start()
    file = world.delay.snapshot()()
    world.put(1, 2)
    world.put(2)
    world.delay.deliver_due(NOW + 1000)
    world.delay = DelayDelivery(world.levels, world.store, DirtyTables(), NOW)
    world.delay.load_text(file)
    world.delay.start()  # it knows two deliveries, and has met none of them when it is asked
    again = followed(world)
    again.start()
    again.deliver_due(NOW + 9000)
    assert world.delivered() == 3


def test_a_replica_goes_on_from_what_it_was_told_however_much_came_since() -> None:
    world = World("1s 5s")
    world.delay.start()
    world.put(1, 2)
    world.put(2, 2)
    world.delay.deliver_due(NOW + 1000)
    again = followed(world)
    world.put(1, now=NOW + 2000)
    world.delay.deliver_due(NOW + 4000)
    assert world.delivered() == 3
    again.start()
    again.deliver_due(NOW + 9000)
    assert world.delivered() == 5


def test_known_deliveries_count_until_readers_see_all_that_waits() -> None:
    """A new master's readers see less than its log has, until its own slaves have it."""
    world = World("1s")
    world.delay.start()
    file = world.delay.snapshot()()
    world.put(1, 2)
    world.delay.deliver_due(NOW + 1000)
    again = DelayDelivery(world.levels, world.store, DirtyTables(), NOW)
    again.load_text(file)
    again.start()
    world.store.visible[SCHEDULE, 0] = 0
    again.deliver_due(NOW + 5000)
    del world.store.visible[SCHEDULE, 0]
    again.deliver_due(NOW + 5000)
    assert world.delivered() == 2


def test_a_clock_that_was_set_back_over_a_crash_repeats_nothing() -> None:
    world = World()
    world.delay.start()
    file = world.delay.snapshot()()
    world.put(1, 2)
    world.delay.deliver_due(NOW + 1000)
    again = DelayDelivery(world.levels, world.store, DirtyTables(), NOW)
    again.load_text(file)
    again.start()
    for later in (200, 700, 1000, 5000):
        again.deliver_due(NOW + later)  # it was not due yet by this clock when the broker came up
    assert world.delivered() == 2


def test_a_crash_repeats_nothing_where_the_file_could_never_be_written() -> None:
    world = World()
    world.delay.start()
    world.put(1, 3)
    world.delay.deliver_due(NOW + 1000, limit=2)
    again = DelayDelivery(world.levels, world.store, DirtyTables(), NOW)
    again.start()
    again.deliver_due(NOW + 1000)
    assert world.delivered() == 3


def test_without_knowing_where_to_look_delivery_goes_on_from_the_positions_as_apache_does() -> None:
    world = World()
    world.put(1, 3)
    world.delay.deliver_due(NOW + 1000)
    again = DelayDelivery(world.levels, world.store, DirtyTables(), NOW)
    again.load_text('{"dataVersion":null,"offsetTable":{1:2}}')
    again.start()
    again.deliver_due(NOW + 1000)
    assert world.delivered() == 4


def test_what_an_acting_broker_has_left_is_delivered_once_over_restarts() -> None:
    world = World()
    world.put(1, 3)
    world.delay.start()
    left = [unit[0] for unit in world.store.queues["SCHEDULE_TOPIC_XXXX", 0][:2]]
    world.delay.adopt('{"offsetTable":{"1":3}}')
    world.delay.deliver_left([*left, 99_999_999])
    world.store.refuse = PutStatus.SERVICE_NOT_AVAILABLE
    world.delay.deliver_due(NOW + 1000)
    world.store.refuse = None
    world.delay.deliver_due(NOW + 1100)
    assert world.delivered() == 2
    world.store.durable_offset = world.store.end
    file = world.delay.snapshot()()
    world.delay = DelayDelivery(world.levels, world.store, DirtyTables(), NOW + 1000)
    world.delay.load_text(file)
    world.delay.start()
    world.delay.deliver_left(left)
    world.delay.deliver_due(NOW + 1200)
    assert world.delivered() == 2
