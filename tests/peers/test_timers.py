"""Timer messages that one broker took and another one delivers, after a clean stop and after a kill."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import RecallMessage, SendMessageV2
from tests.kit.brokers import others_at_night
from tests.needs import need
from tests.peers import suites
from tests.peers.apache import Apache
from tests.peers.suites import Server

pytestmark = pytest.mark.timeout(600)

SERVERS = {"apache": Apache, "orbitmq": suites.under_test()}
MOVES = [
    f"{writer} to {reader} after a {end}"
    for (writer, reader), end in itertools.product(
        [("apache", "orbitmq"), ("orbitmq", "apache"), ("orbitmq", "orbitmq")], ["stop", "kill"]
    )
]
ALWAYS = ("orbitmq to orbitmq after a kill",)
TOPIC = "Timers"
SETTINGS = {
    "recallMessageEnable": "true",
    # Messages due further ahead are stored again on their way.
    "timerRollWindowSlot": "30",
    "mappedFileSizeTimerLog": str(52 * 80 + 16),
}
EARLY = [1.0, 1.5]
"""Due before the move, in seconds."""
LATE = [28.0, 26.5, 38.5, 28.0, 41.001, 50.0]
WITH_SUBSCRIPTION = 4
"""The pull says itself what it wants."""
LATENESS_MS = 20_000
"""Of a busy machine. A message that missed its turn on the wheel comes a window later, which is 30 s."""
TAKEN_BACK = 27.5
"""The fate of each: in the order of these times; the last one is recalled."""


def send(body: str, due_ms: int) -> SendMessageV2:
    properties = (
        f"UNIQ_KEY\x01{body.encode().hex().upper():0>32}\x02TIMER_DELIVER_MS\x01{due_ms}\x02WAIT\x01true\x02"
    )
    return SendMessageV2(
        "P", TOPIC, "TBW102", 1, 0, 0, due_ms, 0, properties, 0, False, None, False, None, body.encode()
    )


async def write(server: Server) -> dict[str, int]:
    """Sends everything; gives the due time (ms) of each message that has to come."""
    pool = ConnectionPool()
    due: dict[str, int] = {}
    start_ms = time.time_ns() // 1_000_000
    try:
        for number, seconds in enumerate([*EARLY, *LATE, TAKEN_BACK]):
            due_ms = start_ms + round(seconds * 1000)
            body = f"{number}-{seconds}"
            reply = await pool.call(server.broker, send(body, due_ms), timeout_ms=30_000)
            if seconds == TAKEN_BACK:
                assert reply.recall_handle
                await pool.call(server.broker, RecallMessage(TOPIC, reply.recall_handle), timeout_ms=30_000)
            else:
                due[body] = due_ms
        # Those due early have come, and are noted as come: Apache does so once a second.
        await asyncio.sleep(6)
    finally:
        await pool.close()
    return due


async def read(server: Server, count: int) -> list[StoredMessage]:
    """Everything in the topic's queue, once there are so many messages, or it is too late for them."""
    pool = ConnectionPool()
    deadline = time.monotonic() + LATENESS_MS / 1000
    try:
        while True:
            pull = PullMessage("G", TOPIC, 0, 0, 32, WITH_SUBSCRIPTION, 0, 0, 0, "*", "TAG")
            reply = await pool.call(server.broker, pull, timeout_ms=30_000)
            records, bad = decode_records(reply.body or b"")
            assert not bad
            if len(records) >= count or time.monotonic() > deadline:
                return records
            await asyncio.sleep(0.2)
    finally:
        await pool.close()


class Moved(NamedTuple):
    """Messages that had to come, the time when the second broker was there (ms), and the messages that
    came."""

    due: dict[str, int]
    there_ms: int
    records: list[StoredMessage]


def moved(move: str, folder: Path, stack: ExitStack) -> Moved:
    writer, _, reader, _, _, end = move.split()
    first = SERVERS[writer].start(folder / "store", SETTINGS)
    try:
        due = asyncio.run(write(first))
    except BaseException:
        first.kill()
        raise
    first.kill() if end == "kill" else first.stop()
    second = SERVERS[reader].start(folder / "store", SETTINGS)
    stack.callback(second.kill)
    there = time.time()
    time.sleep(max(4.0, max(due.values()) / 1000 + 4 - there))
    return Moved(due, round(there * 1000), asyncio.run(read(second, len(due))))


@pytest.fixture(scope="module")
def moves(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Moved]]]:
    """Every move that was asked for, all at once: nearly all of each is waiting."""
    need("java", "mvn")
    wanted = [item.callspec.params["move"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=len(MOVES)) as pool:
        yield {move: pool.submit(moved, move, tmp_path_factory.mktemp("timers"), stack) for move in wanted}


@pytest.mark.parametrize("move", others_at_night(MOVES, ALWAYS))
def test_pending_timers_come_out_of_the_other_broker(moves: dict[str, Future[Moved]], move: str) -> None:
    due, there_ms, records = moves[move].result()
    came = [record.body.decode() for record in records]
    assert sorted(came) == sorted(due), "each once, none lost, the recalled one not"
    for record in records:
        body = record.body.decode()
        late_ms = record.store_timestamp - due[body]
        late_after_start_ms = record.store_timestamp - max(due[body], there_ms)
        assert late_ms >= 0, f"{body} came {-late_ms} ms early"
        assert late_after_start_ms < LATENESS_MS, f"{body} came {late_ms} ms late"
    by_second = [due[body] // 1000 for body in came if due[body] > there_ms]
    assert by_second == sorted(by_second), "in the order of their times"
