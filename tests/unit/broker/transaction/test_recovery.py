"""Open half messages outlive restarts and kills, those that Apache's broker has left, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orbitmq.broker.transaction.records import copied
from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC
from orbitmq.protocol.records.properties import change_properties, decode_properties, encode_properties
from orbitmq.store import PutStatus
from tests.kit.transactions import COMMIT, INTERVAL, ROLLBACK, Transacting


def test_open_halves_outlive_restart_and_kill(world: Transacting) -> None:
    sent = [world.half() for _ in range(4)]
    world.decide(sent[0], COMMIT)
    world.decide(sent[1], ROLLBACK)
    world.restart()
    world.decide(sent[2], COMMIT)
    world.kill()
    assert world.bodies() == [b"body 1", b"body 3"]
    assert [half.unique_id for half in world.open_halves()] == ["ID000004"]
    world.pass_ms(INTERVAL)
    world.kill()
    world.end(world.answer(world.asked[0], COMMIT))
    assert world.bodies() == [b"body 1", b"body 3", b"body 4"]
    world.kill()
    world.pass_ms(INTERVAL * 2)
    assert len(world.asked) == 1


def test_a_commit_that_a_crash_cut_off_from_its_op_record_counts(
    world: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [world.half(), world.half()]
    with monkeypatch.context() as broken:
        broken.setattr(world.broker.transactions, "write_ops", lambda offsets, now: None)
        world.decide(sent[0], COMMIT)
    assert world.ops() == []
    world.kill()
    assert world.ops() == [[0]]
    assert [half.offset for half in world.open_halves()] == [1]
    world.pass_ms(INTERVAL * 2)
    assert {check.msg_id for check in world.asked} == {"ID000002"}
    assert "has ended already" in world.refusal(world.request(sent[0], COMMIT)).remark


def test_a_copy_that_a_crash_cut_off_from_its_op_record_takes_the_place_of_the_old_one(
    world: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = world.half()
    with monkeypatch.context() as broken:
        broken.setattr(world.broker.transactions, "write_ops", lambda offsets, now: None)
        world.pass_ms(INTERVAL)
    world.kill()
    assert [half.offset for half in world.open_halves()] == [1]
    assert world.ops() == [[0]]
    assert world.broker.transactions.figures.open_count == 1
    world.decide(sent, COMMIT)
    assert world.bodies() == [b"body 1"]
    assert world.open_halves() == []


def apaches_copy(world: Transacting, offset: int, check_times: int) -> None:
    """Copies a half message as Apache's broker does: it does not say of which it is a copy."""
    half = world.broker.transactions.half(offset)
    assert half is not None
    message = copied(half, check_times, half.record.store_host)
    properties = decode_properties(message.properties)
    del properties["TRAN_PREPARED_QUEUE_OFFSET"]
    message.properties = encode_properties(properties)
    assert world.real.store.append(message, world.now).status is PutStatus.PUT_OK


def test_what_apache_published_and_copied_all_the_same_is_not_asked_about(
    world: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [world.half(), world.half()]
    with monkeypatch.context() as batching:
        batching.setattr(world.broker.transactions, "write_ops", lambda offsets, now: None)
        world.decide(sent[0], COMMIT)
    apaches_copy(world, 0, 1)
    apaches_copy(world, 1, 1)
    # An orderly stop of that broker: it has passed the first ones.
    world.broker.offsets.store("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0, 2, world.now)
    world.save()
    world.kill()
    assert [half.unique_id for half in world.open_halves()] == ["ID000002"]
    world.pass_ms(INTERVAL)
    assert [check.msg_id for check in world.asked] == ["ID000002"]
    world.end(world.answer(world.asked[0], COMMIT))
    assert world.bodies() == [b"body 1", b"body 2"]


def test_of_apaches_copies_the_newest_counts_after_a_crash(world: Transacting) -> None:
    world.half()
    world.half()
    for check_times in (1, 2):
        apaches_copy(world, 0, check_times)
    world.kill()
    assert [half.offset for half in world.open_halves()] == [1, 3]
    assert world.broker.transactions.figures.open_count == 2
    world.pass_ms(INTERVAL)
    assert sorted(check.msg_id or "" for check in world.asked) == ["ID000001", "ID000002"]
    for check in world.asked:
        world.end(world.answer(check, COMMIT))
    assert sorted(world.bodies()) == [b"body 1", b"body 2"]


def test_a_half_message_that_apache_lost_on_a_delay_is_stepped_over(world: Transacting) -> None:
    world.half()
    half = world.broker.transactions.half(0)
    assert half is not None
    lost = change_properties(half.record.properties, {"REAL_TOPIC": HALF_TOPIC})
    half = replace(half, record=replace(half.record, properties=lost))
    world.real.store.append(copied(half, 1, half.record.store_host), world.now)
    world.kill()
    assert [half.offset for half in world.open_halves()] == [0]
    assert world.broker.transactions.figures.unreadable == 1


def test_an_offset_behind_the_end_of_the_log_is_brought_back(world: Transacting) -> None:
    world.half()
    world.broker.offsets.store("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0, 99, world.now)
    world.broker.offsets.store("CID_RMQ_SYS_TRANS", OP_HALF_TOPIC, 0, 99, world.now)
    world.save()
    world.kill()
    sent = world.half()
    world.decide(sent, COMMIT)
    assert world.bodies() == [b"body 2"]


def test_properties_of_the_checked_half_reach_the_consumer(world: Transacting) -> None:
    world.half(properties="user\x01value\x02")
    world.pass_ms(INTERVAL)
    world.end(world.answer(world.asked[0], COMMIT))
    properties = decode_properties(world.published()[0].properties)
    assert properties["user"] == "value"
