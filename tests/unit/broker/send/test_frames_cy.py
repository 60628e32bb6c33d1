"""Sends that are taken as frames: what is stored and answered is what the general path stores and answers."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.meaningful_properties import LEFT_TO_RULES, FastPath
from orbitmq.broker.send import frames_cy
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.remoting.command import FLAG_ONEWAY
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.send import SendMessageV2
from tests.kit.real_broker import NOW, PEER, RealBroker, message, told, two_brokers

IS_COMPILED = not frames_cy.__file__.endswith(".py")
compiled_only = pytest.mark.skipif(not IS_COMPILED, reason="interpreted, every send takes the general path")

ID = "UNIQ_KEY\x017F000001ABCD\x02"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


def frames(*requests: SendMessageV2, flag: int = 0) -> bytes:
    """Bytes that a peer sends in one go."""
    commands = [request.to_command(opaque=number) for number, request in enumerate(requests, 100)]
    for command in commands:
        command.flag |= flag
    return b"".join(map(encode_command, commands))


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[RealBroker, RealBroker]]:
    """One that takes frames, one that does not; both have queues 0 to 3 of the topic."""
    with two_brokers(tmp_path) as pair:
        yield pair


def compare(brokers: tuple[RealBroker, RealBroker], data: bytes) -> list[Any]:
    """Both get the same; gives the answers of the one that takes frames."""
    first, second = brokers
    answers = first.read_sends(data, NOW + 1)
    assert list(map(told, answers)) == list(map(told, second.read_sends(data, NOW + 1, at_once=False)))
    assert first.log() == second.log()
    for queue_id in range(4):
        end = first.store.max_offset("TopicTest", queue_id)
        for queue_offset in range(end):
            place = ("TopicTest", queue_id, queue_offset)
            assert first.store.physical_offset_of(*place) == second.store.physical_offset_of(*place)
    assert first.broker.stats.totals.put_messages == second.broker.stats.totals.put_messages
    assert first.broker.stats.totals.put_size_bytes == second.broker.stats.totals.put_size_bytes
    return answers


PLAIN = {
    "as Java sends it": {},
    "without the last separator": {"properties": ID + "TAGS\x01b"},
    "no tag": {"properties": ID},
    "quotes and slashes in properties": {"properties": ID + 'K\x01a"b\\c/\n\t\x02'},
    "ordered": {"properties": ID + "__SHARDINGKEY\x0117\x02"},
    "no body": {"body": b""},
    "a body that is long for one look": {"body": bytes(range(256)) * 3},
    "a body of a class of sizes above the smallest": {"body": b"x" * 9000},
    "negative numbers": {"flag": -7, "born_timestamp": -1},
    "the greatest flag": {"flag": 0x7FFFFFFF},
    "compressed": {"sys_flag": 1},
}

NOT_PLAIN = {
    "a queue that is not there": {"queue_id": 9},
    "any queue": {"queue_id": -1},
    "a topic that is not there": {"topic": "Other"},
    "a system topic": {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"},
    "a retry topic": {"topic": "%RETRY%PG"},
    "no id": {"properties": "TAGS\x01a\x02"},
    "an id that has to be quoted": {"properties": "UNIQ_KEY\x01a-b\x02"},
    "a delay level that is not there": {"properties": ID + "DELAY\x0119\x02"},
    "two delay levels": {"properties": ID + "DELAY\x013\x02DELAY\x013\x02"},
    "a timer message": {"properties": ID + "TIMER_DELAY_SEC\x013\x02"},
    "a half message of no group": {"properties": ID + "TRAN_MSG\x01true\x02", "sys_flag": 4},
    "a half message that is delayed": {"properties": f"{ID}DELAY\x013\x02{HALF}", "sys_flag": 4},
    "names the broker sets": {"properties": ID + "CLUSTER\x01x\x02"},
    "more than ASCII": {"properties": ID + "KEYS\x01gr\u00fc\u00df\x02"},
    "an escape that is rare": {"properties": ID + "K\x01\b\x02"},
    "a zero byte": {"properties": ID + "K\x01\x00\x02"},
    "no properties": {"properties": ""},
    "too many properties": {"properties": ID + "K\x01" + "x" * 33_000 + "\x02"},
    "delivered before": {"reconsume_times": 1},
    "a batch in the wrong request": {"batch": True},
    "marked as prepared": {"sys_flag": 4},
    "an inner batch": {"sys_flag": 0x80},
    "a body that is too long": {"body": bytes((4 << 20) + 1)},
    "a flag of more than 32 bits": {"flag": 1 << 31},
}


@pytest.mark.parametrize("fields", PLAIN.values(), ids=PLAIN)
def test_a_plain_send_becomes_the_same_record_and_answer(
    brokers: tuple[RealBroker, RealBroker], fields: dict[str, Any]
) -> None:
    data = frames(message(), message(**fields), message(queue_id=2))
    assert len(compare(brokers, data)) == 3
    assert brokers[0].taken_bytes(data) == (len(data) if IS_COMPILED else 0)


def test_the_last_of_two_tags_counts(brokers: tuple[RealBroker, RealBroker]) -> None:
    data = frames(message(properties=f"{ID}TAGS\x01a\x02TAGS\x01b\x02"))
    for broker, at_once in zip(brokers, (True, False), strict=True):
        broker.read_sends(data, NOW + 1, at_once=at_once)
    first, second = (broker.stored("TopicTest", 1, 1) for broker in brokers)
    assert first.property_map() == second.property_map()
    units = [broker.store.physical_offset_of("TopicTest", 1, 1) for broker in brokers]
    assert [unit and unit[2] for unit in units] == [java_hash("b")] * 2


@pytest.mark.parametrize("fields", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_no_plain_send_is_left_with_all_behind_it(
    brokers: tuple[RealBroker, RealBroker], fields: dict[str, Any]
) -> None:
    first = frames(message())
    assert len(compare(brokers, first + frames(message(**fields), message(queue_id=2)))) == 3
    assert brokers[0].taken_bytes(frames(message(**fields))) == 0


@compiled_only
def test_each_row_of_meaningful_properties_leaves_a_message_to_the_rules_and_other_names_do_not(
    brokers: tuple[RealBroker, RealBroker],
) -> None:
    first = brokers[0]
    for queue in ("DELAY\x013\x02", HALF):
        first.send(properties=ID + queue)
    first.broker.topics.note_saved()

    def is_left(*parts: str) -> bool:
        return first.taken_bytes(frames(message(properties=ID + "".join(parts)))) == 0

    for name, paths in LEFT_TO_RULES.items():
        one = f"{name}X\x01v\x02"
        assert is_left(one) == (FastPath.PLAIN in paths), name
        assert is_left(HALF, one) == (FastPath.REROUTED in paths), name
        assert not is_left(f"x{one}"), name


@pytest.mark.parametrize("size", [*range(16_320, 16_350), 32_700, 32_740, 32_760])
def test_half_messages_whose_id_stored_twice_is_as_long_as_properties_may_be(
    brokers: tuple[RealBroker, RealBroker], size: int
) -> None:
    compare(brokers, frames(message(properties=ID + HALF, sys_flag=4)))
    properties = f"UNIQ_KEY\x01{'A' * size}\x02{HALF}"
    compare(brokers, frames(message(properties=properties, sys_flag=4), message()))


@pytest.mark.parametrize("properties", ["DELAY\x013\x02", HALF], ids=["delayed", "a half message"])
def test_what_waits_elsewhere_is_taken_once_its_queue_is_there(
    brokers: tuple[RealBroker, RealBroker], properties: str
) -> None:
    waiting = frames(message(properties=ID + properties, sys_flag=4))
    assert len(compare(brokers, waiting)) == 1
    data = frames(message()) + waiting + frames(message(queue_id=2))
    assert len(compare(brokers, data)) == 3
    assert brokers[0].taken_bytes(data) == (len(data) if IS_COMPILED else 0)


@compiled_only
def test_oneway_sends_are_stored_and_get_no_answer(brokers: tuple[RealBroker, RealBroker]) -> None:
    data = frames(message(), message(), flag=FLAG_ONEWAY) + frames(message())
    taken = brokers[0].handle_sends(data, PEER, NOW)
    assert taken is not None
    assert (taken.end, taken.answered, taken.by_code) == (len(data), 1, {SendMessageV2.CODE: (1, 2)})
    assert brokers[0].store.max_offset("TopicTest", 1) == 4


@compiled_only
def test_a_frame_that_is_not_whole_is_left(brokers: tuple[RealBroker, RealBroker]) -> None:
    whole = frames(message())
    assert brokers[0].taken_bytes(whole + whole[:-1]) == len(whole)
    for end in range(len(whole)):
        assert brokers[0].taken_bytes(whole[:end]) == 0


@compiled_only
def test_who_sends_is_known_afterwards(brokers: tuple[RealBroker, RealBroker]) -> None:
    data = frames(message()).replace(b'"language":"PYTHON"', b'"language":"JAVA"  ')
    assert brokers[0].taken_bytes(data) == len(data)
    assert (PEER.language, PEER.version) == (0, 493)


@compiled_only
def test_a_full_segment_is_left_to_the_general_path(tmp_path: Path) -> None:
    brokers = RealBroker(tmp_path / "a"), RealBroker(tmp_path / "b")
    for broker in brokers:
        broker.send()
        broker.broker.topics.note_saved()
    data = frames(*[message(body=b"x" * 60_000)] * 40)
    assert len(compare(brokers, data)) == 40
    assert brokers[0].store.max_physical > 2 << 20
    for broker in brokers:
        broker.close()


@compiled_only
def test_nothing_is_taken_while_the_broker_takes_no_messages(
    brokers: tuple[RealBroker, RealBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = brokers[0]
    broker.broker.topics.dirty_names.add("TopicTest")
    assert broker.taken_bytes(frames(message())) == 0
    broker.broker.topics.note_saved()
    assert broker.taken_bytes(frames(message())) > 0
    broker.store.structures.log.flush_error = OSError(errno.EIO, "gone")
    assert broker.taken_bytes(frames(message())) == 0


@compiled_only
def test_what_ends_halfway_leaves_nothing(
    brokers: tuple[RealBroker, RealBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = brokers[0]
    before = broker.log()
    ends = [broker.store.max_offset("TopicTest", queue_id) for queue_id in range(4)]

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(broker.broker.stats, "put_typed", no_memory)
        data = frames(message(), message(properties=ID + "__SHARDINGKEY\x0117\x02"))
        with pytest.raises(MemoryError):
            broker.taken_bytes(data)
    assert broker.log() == before
    assert [broker.store.max_offset("TopicTest", queue_id) for queue_id in range(4)] == ends
    assert len(broker.read_sends(data)) == 2
    assert len(broker.log()) == len(before) + 2


@compiled_only
def test_under_sync_flush_answers_wait_for_the_disk_and_say_so_when_it_is_late(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, flushDiskType="SYNC_FLUSH", syncFlushTimeout=700)
    broker.send()
    broker.broker.topics.note_saved()
    taken = broker.handle_sends(frames(message(), message()), PEER, NOW)
    assert taken is not None
    assert (taken.durable, taken.deadline) == (broker.store.max_physical, NOW + 700)
    assert broker.store.max_offset("TopicTest", 1) == 0
    assert taken.late(taken.answers).count(b'"code":10,') == 2
    broker.store.flushing.flush_now()
    assert broker.store.max_offset("TopicTest", 1) == 3
    unhurried = ID + "WAIT\x01false\x02"
    assert broker.taken_bytes(frames(message(properties=unhurried))) == 0
    broker.close()
