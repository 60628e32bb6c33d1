"""Timers over restarts, kills and power cuts: nothing is lost, nothing comes twice, nothing comes early."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.store.timer.check_point import decode_fields, encode_fields
from orbitmq.store.timer.wheel import WHEEL_BYTES
from tests.fault.recorded_broker import with_small_wheel
from tests.fault.recorded_disk import RecordedDisk
from tests.kit.timer_world import NOW, Open, TimerWorld


def stop(world: TimerWorld) -> None:
    world.stop()


def kill(world: TimerWorld) -> None:
    world.kill()


def lose_files(world: TimerWorld) -> None:
    """A kill, and somebody deletes log and wheel: the topic has everything."""
    world.kill()
    shutil.rmtree(world.root / "timerlog", ignore_errors=True)
    (world.root / "timerwheel").unlink(missing_ok=True)


def lose_wheel(world: TimerWorld) -> None:
    world.kill()
    (world.root / "timerwheel").unlink(missing_ok=True)


ENDS = [stop, kill, lose_files, lose_wheel]


def read_again(world: TimerWorld) -> int:
    """Number of bytes of the log that the last start has searched for earlier deliveries."""
    assert world.store.timers is not None
    return world.store.max_physical - world.store.timers.start.delivered_from


def test_a_start_after_a_kill_reads_only_what_came_since_the_last_mark(world_of: Open) -> None:
    world = world_of()
    world.send("far", TIMER_DELIVER_MS=NOW + 90_000)
    for _ in range(10):
        world.send("now")
        world.run(world.now + 2000)
        world.flush()
    size = world.store.max_physical
    kill(world)
    world.start()
    assert read_again(world) < size / 5
    world.run(NOW + 100_000, step_ms=1000)
    assert world.bodies().count("far") == 1


def test_where_nothing_waits_a_start_reads_nothing_for_it(world_of: Open) -> None:
    world = world_of()
    for _ in range(10):
        world.send("now")
    kill(world)
    world.start()
    assert read_again(world) == 0


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("when_ms", [0, 50, 1000, 2499, 2500, 2501, 3000, 4950, 7000])
def test_every_message_comes_once_whenever_the_broker_ends(
    world_of: Open, end: Callable[[TimerWorld], None], when_ms: int
) -> None:
    world = world_of()
    due = [1200, 2100, 2500, 2500, 2900, 3000, 5100, 5100, 90_000]
    for number, after in enumerate(due):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + after)
    world.run(NOW + when_ms)
    came = [n for n, after in enumerate(due) if after <= when_ms]
    assert world.bodies() == [str(n) for n in came]
    end(world)
    world.now += 300
    world.start()
    world.send("new", TIMER_DELIVER_MS=NOW + 8_000)
    world.run(NOW + 10_000)
    assert world.bodies() == [*(str(n) for n in range(8)), "new"]
    assert world.timer.pending_by_topic == {"T": 1}
    end(world)
    world.start()
    world.run(NOW + 100_000, step_ms=1000)
    assert world.bodies() == [*(str(n) for n in range(8)), "new", "8"]
    assert world.timer.pending_by_topic == {}


@pytest.mark.parametrize("end", ENDS)
def test_a_kill_between_the_deliveries_of_a_slice(world_of: Open, end: Callable[[TimerWorld], None]) -> None:
    world = world_of()
    for number in range(300):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + 2500)
    world.run(NOW + 2000, step_ms=500)
    world.flush()
    world.now = NOW + 2500
    while not world.bodies():
        step = world.timer.step(world.now)
        if step.fetch is not None:
            step.fetch()
            world.timer.fetched()
    assert 0 < len(world.bodies()) < 300
    end(world)
    world.start()
    world.run(world.now + 3000)
    assert world.bodies() == [str(n) for n in range(300)]


@pytest.mark.parametrize("end", ENDS)
def test_recalls_are_kept(world_of: Open, end: Callable[[TimerWorld], None]) -> None:
    world = world_of()
    world.send("kept", TIMER_DELIVER_MS=NOW + 5500)
    world.send("taken back", TIMER_DELIVER_MS=NOW + 5500)
    world.recall("ID000002", NOW + 5001)
    world.run(NOW + 500)
    end(world)
    world.start()
    world.run(NOW + 9000)
    assert world.bodies() == ["kept"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("until", [5001, 5300, 5500, 5899])
def test_recalls_are_kept_in_the_middle_of_their_second(
    world_of: Open, end: Callable[[TimerWorld], None], until: int
) -> None:
    world = world_of()
    world.send("first", TIMER_DELIVER_MS=NOW + 5300)
    world.send("taken back", TIMER_DELIVER_MS=NOW + 5900)
    world.recall("ID000002", NOW + 5001)
    world.run(NOW + until)
    end(world)
    world.now += 2000
    world.start()
    world.run(NOW + 9000)
    assert world.bodies() == ["first"]


@pytest.mark.parametrize("end", ENDS)
def test_a_message_on_its_way_to_another_turn_of_the_wheel(
    world_of: Open, end: Callable[[TimerWorld], None]
) -> None:
    world = world_of(timer_roll_window_slot=10)
    world.send("m", TIMER_DELAY_SEC=35)
    for _ in range(7):
        world.run(world.now + 4900, step_ms=350)
        end(world)
        world.start()
    assert world.bodies() == []
    world.run(NOW + 35_000, step_ms=50)
    assert world.bodies() == ["m"]
    world.run(NOW + 60_000, step_ms=1000)
    assert world.bodies() == ["m"]


@pytest.mark.parametrize(
    ("end", "days"), [*((end, 1) for end in ENDS), *((end, 20) for end in (stop, kill, lose_wheel))]
)
def test_what_was_due_while_the_broker_was_away_comes_in_order(
    world_of: Open, end: Callable[[TimerWorld], None], days: int
) -> None:
    world = world_of()
    for number in (3, 1, 2, 0):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + 2000 + number * 1300)
    world.run(NOW + 500)
    end(world)
    # In twenty days the wheel has come round.
    world.now = NOW + days * 86_400_000
    world.start()
    world.send("new", TIMER_DELAY_MS=10)
    world.run(world.now + 3000)
    assert world.bodies() == ["0", "1", "2", "3", "new"]


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_loses_and_repeats_nothing_that_is_on_the_disk(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_small_wheel(monkeypatch)
    disk = RecordedDisk(tmp_path)
    world = TimerWorld(tmp_path, disk=disk)
    for number in range(8):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + 1500 + number * 500)
    world.flush()
    world.run(NOW + 1600)
    world.flush()
    world.run(NOW + 3100)
    assert world.bodies() == ["0", "1", "2", "3"]
    left = disk.played().power_cut(random.Random(seed))
    world.kill()
    after = TimerWorld(tmp_path, now=NOW + 3200, disk=left)
    on_disk = after.bodies()
    assert on_disk in ([str(n) for n in range(count)] for count in range(5))
    after.run(NOW + 9000)
    assert after.bodies() == [str(n) for n in range(8)]
    after.store.close()


def after_cut(world: TimerWorld, disk: RecordedDisk) -> tuple[TimerWorld, RecordedDisk]:
    """The next start after a power cut that took all that was not synced."""
    left = disk.played().power_cut(random.Random(1), kept=0.0)
    world.kill()
    return TimerWorld(world.root, now=world.now + 100, disk=left), left


def test_a_unit_whose_message_was_lost_never_stands_for_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two power cuts: one takes a message and leaves its unit, the other comes when a new message stands in
    its place, and has no unit on the disk yet.
    """
    with_small_wheel(monkeypatch)
    disk = RecordedDisk(tmp_path)
    world = TimerWorld(tmp_path, disk=disk)
    world.send("first", TIMER_DELAY_MS=9000)
    world.flush()
    world.send("lost", TIMER_DELAY_MS=2000)
    world.work()
    assert world.store.timers is not None
    world.store.timers.log.sync()
    world, disk = after_cut(world, disk)
    world.send("kept", TIMER_DELAY_MS=8000)
    due_ms = world.now + 8000
    world.store.flushing.flush_now()
    world, _ = after_cut(world, disk)
    world.run(world.now + 10_000)
    came = {record.body: record.store_timestamp for record in world.records()}
    assert came.keys() == {b"first", b"kept"}
    assert came[b"kept"] >= due_ms
    world.store.close()


def test_no_file_is_made_before_there_is_a_timer(world_of: Open) -> None:
    world = world_of()
    world.run(NOW + 2000)
    world.stop()
    assert not (world.root / "timerwheel").exists()
    assert not (world.root / "timerlog").exists()


def test_the_files_are_laid_out_as_apaches(world_of: Open) -> None:
    world = world_of()
    for number in range(45):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + 5000 + number)
    world.run()
    world.stop()
    assert (world.root / "timerwheel").stat().st_size == WHEEL_BYTES
    assert sorted(path.name for path in (world.root / "timerlog").iterdir()) == [
        f"{start:020d}" for start in (0, 1056, 2112)
    ]
    check = (world.root / "config" / "timercheck").read_bytes()
    assert len(check) == 4096
    assert int.from_bytes(check[24:32], "big") == 45


def test_segments_of_the_timer_log_go_when_nothing_in_them_waits(world_of: Open) -> None:
    world = world_of()
    for number in range(100):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + 1000 + number * 100)
    world.run(NOW + 6000)
    world.timer.find_oldest()
    assert len(list((world.root / "timerlog").iterdir())) == 3
    oldest = world.timer.oldest_waiting()
    assert oldest == world.store.physical_offset_of(TIMER_TOPIC, 0, 51)[0]  # type: ignore[index]
    world.stop()
    world.start()
    world.run(NOW + 30_000, step_ms=500)
    assert world.bodies() == [str(n) for n in range(100)]
    world.timer.find_oldest()
    assert world.timer.oldest_waiting() is None
    assert len(list((world.root / "timerlog").iterdir())) == 1


@pytest.mark.parametrize("end", [kill, lose_files])
@pytest.mark.parametrize("back_ms", [2500, 3_600_000])
def test_nothing_is_repeated_where_the_clock_was_set_back(
    world_of: Open, end: Callable[[TimerWorld], None], back_ms: int
) -> None:
    """Deliveries in the time that comes once more are known until that time is over."""
    world = world_of()
    for number in range(16):
        world.send(str(number), TIMER_DELIVER_MS=NOW + 600 + number * 500)
    world.run(NOW + 2000)
    assert world.bodies() == ["0", "1", "2"]
    end(world)
    world.now -= back_ms
    world.start()
    world.send("new", TIMER_DELIVER_MS=world.now + 1500)
    world.run(world.now + 1400)
    assert world.bodies() == ["0", "1", "2"], "it is not due yet"
    world.run(world.now + 100)
    assert world.bodies() == ["0", "1", "2", "new"], "who sends now waits for no time of before"
    world.now = max(world.now, NOW + 500)
    world.run(NOW + 9000)
    assert sorted(world.bodies()) == sorted([*map(str, range(16)), "new"])


@pytest.mark.parametrize("end", ENDS)
def test_what_was_due_between_two_starts_behind_a_clock_that_was_set_back_comes(
    world_of: Open, end: Callable[[TimerWorld], None]
) -> None:
    world = world_of()
    world.send("early", TIMER_DELIVER_MS=NOW + 1000)
    world.run(NOW + 3000)
    world.flush()
    end(world)
    world.now -= 3_600_000
    world.start()
    world.send("soon", TIMER_DELIVER_MS=world.now + 1000)
    world.run(world.now + 500)
    kill(world)
    world.now += 5000
    world.start()
    world.run()
    assert world.bodies() == ["early", "soon"]


def fall_over(world: TimerWorld, passed_ms: int) -> None:
    """The master dies, and a slave with its log takes its place when so much time has passed by its clock."""
    fields = world.timer.fields()
    assert fields is not None
    world.store.flushing.flush_now()
    world.kill()
    world.now += passed_ms
    world.start()
    assert world.store.timers is not None
    world.store.timers.follow(fields)
    world.store.current_timers.reopen(world.now)
    world.timer.open(world.now)


def test_a_slave_of_a_master_whose_clock_was_ahead_delivers_at_its_own_time(world_of: Open) -> None:
    """It went on from the master's time: for an hour messages came at once, and no recall took one back."""
    world = world_of()
    world.send("delivered", TIMER_DELIVER_MS=NOW + 1000)
    world.send("waits", TIMER_DELIVER_MS=NOW + 4000)
    world.run(NOW + 2000)
    fall_over(world, -3_600_000)
    due_ms = world.now + 1500
    world.send("new", TIMER_DELIVER_MS=due_ms)
    world.recall(world.send("recalled", TIMER_DELIVER_MS=due_ms), due_ms)
    world.run(due_ms - 1)
    assert world.bodies() == ["delivered"]
    world.run(due_ms + 1000)
    assert world.bodies() == ["delivered", "new"]
    world.now = NOW + 500
    world.run(NOW + 5000)
    assert world.bodies() == ["delivered", "new", "waits"]


@pytest.mark.parametrize("days", [0, 6, 8])
def test_a_slave_that_becomes_master_late_passes_over_nothing(world_of: Open, days: int) -> None:
    """Behind half a turn of the wheel, all that had become due since its master died counted as delivered."""
    world = world_of()
    world.send("delivered", TIMER_DELIVER_MS=NOW + 1000)
    world.send("waits", TIMER_DELIVER_MS=NOW + 60_000)
    world.run(NOW + 2000)
    fall_over(world, days * 86_400_000)
    world.run(world.now + 70_000, step_ms=1000)
    assert world.bodies() == ["delivered", "waits"]


def test_a_new_master_that_is_stopped_while_it_takes_in_the_topic_repeats_nothing(world_of: Open) -> None:
    world = world_of()
    for number in range(300):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + (1000 if number % 2 else 90_000))
    world.run(NOW + 3000)
    fall_over(world, 0)
    world.timer.step(world.now)
    assert 0 < world.timer.queue_offset < 300
    world.stop()
    world.start()
    world.run(NOW + 100_000, step_ms=1000)
    assert world.bodies() == [str(n) for n in (*range(1, 300, 2), *range(0, 300, 2))]


@pytest.mark.parametrize("kept", ["a blank page", "all units"])
def test_a_new_master_that_loses_power_early_delivers_what_its_master_had_taken_in(
    world_of: Open, kept: str
) -> None:
    """Its file still says how far its master was, and its own timer log has none of these messages."""
    world = world_of()
    world.send("delivered", TIMER_DELIVER_MS=NOW + 1000)
    world.send("waits", TIMER_DELIVER_MS=NOW + 4000)
    world.run(NOW + 2000)
    fall_over(world, 0)
    check = world.root / "config" / "timercheck"
    fields = decode_fields(check.read_bytes()[:56])
    world.send("new", TIMER_DELIVER_MS=NOW + 5000)
    world.run(world.now + 100)
    world.kill()
    check.write_bytes(encode_fields(fields._replace(log_flushed=0)))  # its master had flushed nothing, either
    if kept == "a blank page":
        (segment,) = (world.root / "timerlog").iterdir()
        segment.write_bytes(bytes(segment.stat().st_size))
    world.start()
    world.run(NOW + 6000)
    assert world.bodies() == ["delivered", "waits", "new"]


def test_a_slave_says_how_far_the_timers_of_its_master_are(world_of: Open) -> None:
    """It does nothing with its own: they seemed to be behind for as long as it ran."""
    world = world_of()
    world.send("waits", TIMER_DELIVER_MS=NOW + 90_000)
    world.run(NOW + 2000)
    fields = world.timer.fields()
    assert fields is not None
    world.kill()
    world.start()
    assert world.store.timers is not None
    world.store.timers.follow(fields._replace(read_ms=NOW + 60_000))
    assert (world.timer.read_behind_ms(NOW + 61_000), world.timer.offset_behind) == (1000, 0)
