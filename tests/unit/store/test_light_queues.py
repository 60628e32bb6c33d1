"""Records in light message queues: appended, read, deleted, and found again after crashes and by slaves."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from orbitmq.protocol.lite_topics import lite_queue
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.store import MessageStore, PendingMessage, PutStatus
from tests.kit.store import NOW, bodies, crash, message, opened, read_queue, write_queues

LMQS = [lite_queue("T", name) for name in "abcde"] + ["%LMQ%x"]


def light(number: int, *lmqs: str, topic: str = "T", size: int = 20) -> PendingMessage:
    """A message for light queues, as a broker makes it."""
    made = message(number, topic, number % 2, body=b"%d " % number + bytes(size))
    made.properties += b"INNER_MULTI_DISPATCH\x01" + ",".join(lmqs).encode() + b"\x02"
    made.lmqs = lmqs
    return made


def same(store: MessageStore, expected: dict[str, list[bytes]]) -> None:
    """Each light queue has these bodies, and each record says at which offset it stands there."""
    for name in LMQS:
        found = read_queue(store, name)
        assert [record.body for record in found] == expected[name], name
        for offset, record in enumerate(found, store.max_offset(name, 0) - len(found)):
            properties = decode_properties(record.properties)
            names = properties["INNER_MULTI_DISPATCH"].split(",")
            offsets = properties["INNER_MULTI_QUEUE_OFFSET"].split(",")
            assert int(offsets[names.index(name)]) == offset
    assert store.lmq_count == sum(name in store.lmqs() for name in LMQS)


@pytest.mark.parametrize("seed", range(4))
def test_light_queues_survive_crashes_lost_files_and_slaves(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    expected: dict[str, list[bytes]] = defaultdict(list)
    store, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    number = sent = 0
    for _ in range(60):
        match dice.randrange(8):
            case 0:
                crash(store)
                if dice.random() < 0.3:
                    shutil.rmtree(tmp_path / "master" / "consumequeue")
                store = opened(tmp_path / "master")
            case 1:
                store.close()
                store = opened(tmp_path / "master")
            case 2:
                write_queues(store, NOW + number)
            case 3:
                name = dice.choice(LMQS)
                assert store.structures.delete_queues(name) == (name in store.lmqs() or bool(expected[name]))
                expected[name] = []
                write_queues(store, NOW + number * 100_000)
            case _:
                for _ in range(dice.randrange(1, 30)):
                    number += 1
                    names = dice.sample(LMQS, dice.randrange(3))
                    pending = light(number, *names, size=dice.randrange(2000)) if names else message(number)
                    assert store.append(pending, NOW + number).status is PutStatus.PUT_OK
                    for name in names:
                        expected[name].append(bytes(pending.body))
        while sent < store.max_physical:
            data = store.log.read(sent, 50_000)
            slave.replica.append(sent, data)
            sent += len(data)
        same(store, expected)
    for name in LMQS:
        assert bodies(slave, name)[-len(expected[name]) :] == expected[name]
    store.close()
    slave.close()


def test_a_record_has_apaches_bytes(tmp_path: Path) -> None:
    """Its unit is the same in all its queues, and its offsets stand behind the properties it came with."""
    store = opened(tmp_path)
    made = light(0, "%LMQ%$P$l", "%LMQ%x", topic="P")
    made.properties += b"WAIT\x01true\x02"
    at = store.append(made, NOW)
    unit = (at.physical_offset, at.size, 0)
    assert [store.physical_offset_of(name, 0, 0) for name in ("P", "%LMQ%$P$l", "%LMQ%x")] == [unit] * 3
    write_queues(store)
    files = {path.read_bytes()[:20] for path in (tmp_path / "consumequeue").glob("*/0/00000000000000000000")}
    assert len(files) == 1
    (record,) = read_queue(store, "%LMQ%x")
    assert record.properties.endswith(b"WAIT\x01true\x02INNER_MULTI_QUEUE_OFFSET\x010,0\x02")
    store.close()


def test_no_light_queue_beyond_the_quota(tmp_path: Path) -> None:
    store = opened(tmp_path, enable_lmq_quota=True, max_lmq_consume_queue_num=1)
    statuses = [
        store.append(light(n, name), NOW).status for n, name in enumerate(("%LMQ%a", "%LMQ%b", "%LMQ%a"))
    ]
    assert statuses == [PutStatus.PUT_OK, PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED, PutStatus.PUT_OK]
    assert bodies(store, "T", 1) == []
    store.structures.delete_queues("%LMQ%a")
    assert store.append(light(9, "%LMQ%b"), NOW).status is PutStatus.PUT_OK
    store.close()


def test_a_light_queue_is_no_topic(tmp_path: Path) -> None:
    """A record is never stored under the name of a light queue, and nobody takes one for a topic."""
    store = opened(tmp_path)
    store.append(light(0, "%LMQ%a"), NOW)
    assert store.append(message(1, "%LMQ%a"), NOW).status is PutStatus.MESSAGE_ILLEGAL
    assert store.topics() == ["T"]
    store.close()
