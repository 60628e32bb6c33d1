"""Messages of every size around the limits, on every way on which a broker copies them.

Each comes to where it is to go, or is kept as a dead letter; and what is behind it comes too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.admin.dead_letters.dead_letter import dead_letter_of
from orbitmq.admin.dead_letters.outgoing import Edit, outgoing
from orbitmq.broker.mastership.escape import escaping, moved
from orbitmq.broker.stats.passed_over import UNDELIVERED_TOPIC
from orbitmq.handling.call import Wait
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import (
    HALF_TOPIC,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TIMER_TOPIC,
    TRANSACTION_CHECK_TOPIC,
)
from orbitmq.protocol.records.message import (
    MAX_PROPERTIES_BYTES,
    MAX_SENT_PROPERTIES_BYTES,
    StoredMessage,
)
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from orbitmq.store import PendingMessage, PutStatus
from tests.kit.pop import GROUP, NOW, TOPIC, PopWorld
from tests.kit.real_broker import HOST, RealBroker, resumed
from tests.kit.store import read_queue
from tests.kit.transactions import COMMIT, INTERVAL, Transacting

SIZES = (
    *(100, 20_000),
    *range(MAX_SENT_PROPERTIES_BYTES - 3, MAX_SENT_PROPERTIES_BYTES + 4),
    *range(MAX_SENT_PROPERTIES_BYTES + 40, MAX_PROPERTIES_BYTES - 420, 97),
    *range(MAX_PROPERTIES_BYTES - 420, MAX_PROPERTIES_BYTES - 30, 13),
    *range(MAX_PROPERTIES_BYTES - 30, MAX_PROPERTIES_BYTES + 1),
)
OWN = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
"""Properties that a broker adds when it accepts a message."""


def sized(size: int, number: int, *, own: str = OWN, **properties: str) -> bytes:
    """Properties of so many bytes; some have values that are no text."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    head = f"UNIQ_KEY\x01ID{number:04d}\x02{text}".encode()
    filler = (b"x", "é".encode(), b"\xff")[number % 3] * size
    left = size - len(head) - len(own) - 3
    return head + b"K\x01" + filler[:left] + b"\x02" + own.encode()


def append(broker: RealBroker, topic: str, properties: bytes, queue_id: int = 0, now: int = NOW) -> None:
    """Stores a message as another broker may have accepted it."""
    message = PendingMessage(topic, queue_id, 0, 0, now, HOST, HOST, 0, 0, b"body", properties)
    assert broker.store.append(message, now).status is PutStatus.PUT_OK


def ids(*queues: list[StoredMessage]) -> set[str]:
    return {one.unique_id or "" for queue in queues for one in queue}


ALL = {f"ID{number:04d}" for number in range(len(SIZES))}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path, {"popFromRetryProbability": 0, "fileReservedTime": 72})
    yield world
    world.close()


def test_a_message_is_accepted_as_long_as_it_leaves_the_broker_its_room(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path)
    for kind in (
        "",
        "TRAN_MSG\x01true\x02PGROUP\x01PG\x02",
        "DELAY\x013\x02",
        f"TIMER_DELIVER_MS\x01{NOW + 60_000}\x02",
    ):
        accepted: list[int] = []
        for size in range(MAX_SENT_PROPERTIES_BYTES - 300, MAX_SENT_PROPERTIES_BYTES + 4):
            text = f"UNIQ_KEY\x01AB\x02{kind}K\x01"
            end = broker.store.max_physical
            result = broker.send(properties=text + "x" * (size - len(text) - len(OWN) - 1) + "\x02", body=b"")
            if isinstance(result, Refused):
                assert result.code == 13
                assert "of which the broker keeps 1024" in (result.remark or "")
                continue
            record = next(iter(broker.store.log.records(end)))
            accepted.append(len(record.properties))
        assert max(accepted) == MAX_SENT_PROPERTIES_BYTES, kind
        assert sorted(accepted) == accepted
    broker.close()


def test_pops_and_revivals(world: PopWorld) -> None:
    for number, size in enumerate(SIZES):
        append(world.real, TOPIC, sized(size, number, RETRY_TOPIC="forged"))
    for _ in range(20):
        world.pop(invisible_time=3_000)
    world.wait(8_000)
    retry, dead = f"%RETRY%{GROUP}_{TOPIC}", f"%DLQ%{GROUP}"
    retried, letters = read_queue(world.store, retry), read_queue(world.store, dead)
    assert ids(retried, letters) == ALL
    assert len(retried) + len(letters) == len(SIZES), "none comes twice"
    assert {one.unique_id for one in letters} <= {
        f"ID{number:04d}" for number, size in enumerate(SIZES) if size > MAX_SENT_PROPERTIES_BYTES
    }
    assert world.broker.passed.counts["revival", "dead letter"] == len(letters) > 0
    assert all(one.property_map().get("RETRY_TOPIC") != "forged" for one in retried + letters)
    again = {got.record.unique_id for _ in range(20) for got in world.pop()}
    assert again == ids(retried), "each has room for the handle of its next pop"


def send_back(world: PopWorld, record: StoredMessage, level: int) -> None:
    result = world.real.handle(
        ConsumerSendMsgBack(record.physical_offset, GROUP, level, max_reconsume_times=16), world.now
    )
    if isinstance(result, Wait):
        resumed(result, now=world.now)


@pytest.mark.parametrize("level", [1, -1])
def test_send_backs_and_dead_letters(world: PopWorld, level: int) -> None:
    for number, size in enumerate(SIZES):
        append(world.real, TOPIC, sized(size, number))
    for record in read_queue(world.store, TOPIC):
        send_back(world, record, level)
    while world.broker.delay.deliver_due(world.now + 2_000):
        pass
    retried, letters = read_queue(world.store, f"%RETRY%{GROUP}"), read_queue(world.store, f"%DLQ%{GROUP}")
    assert ids(retried, letters) == ALL
    assert len(retried) + len(letters) == len(SIZES)
    for one in retried:
        assert one.property_map()["RETRY_TOPIC"] == TOPIC
        send_back(world, one, 1)


def test_delay_levels_and_timers(world: PopWorld) -> None:
    now = world.now
    for number, size in enumerate(SIZES):
        where = {REAL_TOPIC: TOPIC, REAL_QUEUE_ID: "0"}
        append(world.real, SCHEDULE_TOPIC, sized(size, number, own="", DELAY="1", **where))
        due = {TIMER_DELIVER_MS: str(now + 2_000), TIMER_OUT_MS: str(now + 1_000)}
        append(world.real, TIMER_TOPIC, sized(size, number, own="", **due, **where))
    world.wait(4_000)
    while world.broker.delay.deliver_due(world.now):
        pass
    arrived = read_queue(world.store, TOPIC)
    assert [sorted(one.unique_id or "" for one in arrived)] == [sorted([*ALL, *ALL])]


def test_messages_that_can_be_stored_nowhere_near_are_undelivered_and_those_behind_them_come(
    world: PopWorld,
) -> None:
    now = world.now
    wrong = {REAL_TOPIC: "a/b", REAL_QUEUE_ID: "0"}
    right = {REAL_TOPIC: TOPIC, REAL_QUEUE_ID: "0"}
    due = {TIMER_DELIVER_MS: str(now + 2_000), TIMER_OUT_MS: str(now + 1_000)}
    for number, size in enumerate(SIZES):
        where = wrong if number % 2 else right
        append(world.real, SCHEDULE_TOPIC, sized(size, number, own="", DELAY="1", **where))
        append(world.real, TIMER_TOPIC, sized(size, number, own="", **due, **where))
    append(world.real, SCHEDULE_TOPIC, b"UNIQ_KEY\x01LOST\x02DELAY\x011\x02")
    world.wait(6_000)
    while world.broker.delay.deliver_due(world.now):
        pass
    arrived, letters = read_queue(world.store, TOPIC), read_queue(world.store, UNDELIVERED_TOPIC)
    even = [one for one in ALL if not int(one[2:]) % 2]
    assert sorted(one.unique_id or "" for one in arrived) == sorted(even * 2)
    assert ids(letters) == {*ALL, "LOST"} - set(even)
    assert all(dead_letter_of("b", one).topic == "a/b" for one in letters if one.unique_id != "LOST")
    counts = world.broker.passed.counts
    half = len(SIZES) // 2
    assert (counts["delay levels", "dead letter"], counts["timers", "dead letter"]) == (half + 1, half)


@pytest.fixture
def transacting(tmp_path: Path) -> Iterator[Transacting]:
    world = Transacting(tmp_path, transactionCheckMax=3)
    yield world
    world.close()


def append_halves(world: Transacting) -> None:
    where = {REAL_TOPIC: "TopicTest", REAL_QUEUE_ID: "0", "PGROUP": "PG", "TRAN_MSG": "true"}
    for number, size in enumerate(SIZES):
        append(world.real, HALF_TOPIC, sized(size, number, **where), now=world.now)


def test_half_messages_are_asked_about_and_committed(transacting: Transacting) -> None:
    world = transacting
    append_halves(world)
    world.pass_ms(INTERVAL + 5_000)
    assert {check.msg_id for check in world.asked} == ALL
    for check in world.asked:
        world.end(world.answer(check, COMMIT))
    assert ids(world.published()) == ALL
    assert len(world.published()) == len(SIZES)


def test_half_messages_that_nobody_decides_are_given_up(transacting: Transacting) -> None:
    world = transacting
    append_halves(world)
    world.pass_ms(5 * INTERVAL)
    assert len(world.asked) == 3 * len(SIZES)
    assert ids(read_queue(world.real.store, TRANSACTION_CHECK_TOPIC)) == ALL
    assert world.open_halves() == []


def test_what_leaves_an_acting_slave_is_accepted_elsewhere(transacting: Transacting) -> None:
    world = transacting
    append_halves(world)
    for half in world.open_halves():
        size = len(half.record.properties)
        if size <= MAX_SENT_PROPERTIES_BYTES:
            assert len(escaping(moved(half).properties)) + len(OWN) <= MAX_SENT_PROPERTIES_BYTES
    grown = (
        sized(MAX_SENT_PROPERTIES_BYTES, 1, REAL_TOPIC="T")
        + b"TIMER_ENQUEUE_MS\x011\x02TIMER_ROLL_TIMES\x011\x02"
    )
    assert len(escaping(grown)) + len(OWN) <= MAX_SENT_PROPERTIES_BYTES


def test_dead_letters_that_are_sent_again(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path)
    taken: Callable[[str], object] = lambda text: broker.send(topic="TopicTest", properties=text)  # noqa: E731
    for number, size in enumerate(SIZES):
        append(broker, "%DLQ%G", sized(size, 3 * number, RETRY_TOPIC="TopicTest"))
    for record in read_queue(broker.store, "%DLQ%G"):
        letter = dead_letter_of("broker-a", record)
        properties = outgoing(letter, "TopicTest", "AB", Edit()).properties
        assert decode_properties(properties)["K"]
        fits = len(record.properties) <= MAX_SENT_PROPERTIES_BYTES - 100
        refused = isinstance(taken(properties.decode()), Refused)
        assert not (fits and refused), len(record.properties)
    broker.close()
