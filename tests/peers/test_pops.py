"""Messages that one broker has popped another one revives, and goes on with ordered batches; in both
directions."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.pop import BatchAck, BatchAckMessageRequestBody
from orbitmq.protocol.handles.pop import PopHandle, real_topic
from orbitmq.protocol.names import POP_CK
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.pop import (
    AckMessage,
    BatchAckMessage,
    ChangeMessageInvisibletime,
    PopMessage,
    PopReply,
)
from orbitmq.protocol.requests.send import SendMessageV2
from tests.kit.brokers import others_at_night
from tests.needs import need
from tests.peers import suites
from tests.peers.apache import Apache
from tests.peers.suites import Server

pytestmark = pytest.mark.timeout(900)

SERVERS = {"apache": Apache, "orbitmq": suites.under_test()}
MOVES = [
    f"{writer} to {reader} after a {end}"
    for (writer, reader), end in itertools.product(
        [("apache", "orbitmq"), ("orbitmq", "apache"), ("orbitmq", "orbitmq")], ["stop", "kill"]
    )
]
ALWAYS = ("orbitmq to orbitmq after a kill",)
TOPIC, GROUP, ORDERED = "Pops", "PopGroup", "PopOrderGroup"
QUEUES, MESSAGES = 4, 24
INVISIBLE_MS = 50_000
LONGER_MS = 70_000
BLOCKED_MS = 600_000
LATENESS_MS = 20_000
"""Apache looks for what is due every few seconds."""


@dataclass
class Got:
    """A message that was popped, with what acknowledging it needs."""

    record: StoredMessage
    handle: PopHandle
    topic: str

    @property
    def body(self) -> str:
        return self.record.body.decode()


def taken(reply: PopReply, group: str) -> list[Got]:
    """The messages of a reply, with the handles that a client makes of its fields."""
    if not reply.body:
        return []
    starts = {
        (kind, queue_id): int(start)
        for kind, queue_id, start in (e.split(" ") for e in (reply.start_offset_info or "").split(";"))
    }
    records, bad = decode_records(bytes(reply.body))
    assert not bad
    found = []
    for record in records:
        own = record.property_map().get(POP_CK)
        if own is None:
            handle = PopHandle(
                starts["0", str(record.queue_id)], reply.pop_time, reply.invisible_time, reply.revive_qid, 0,
                "broker-a", record.queue_id, record.queue_offset,
            )  # fmt: skip
        else:
            handle = PopHandle.from_text(own)
        found.append(Got(record, handle, real_topic(TOPIC, group, handle.topic_type)))
    return found


class Member:
    """A member of both groups."""

    def __init__(self, server: Server) -> None:
        self.address = server.broker
        self.pool = ConnectionPool()

    async def pop(self, group: str = GROUP, *, order: bool = False, most: int = 32) -> list[Got]:
        invisible_ms = BLOCKED_MS if order else INVISIBLE_MS
        request = PopMessage(group, TOPIC, -1, most, invisible_ms, 0, 0, 0, order=order)
        return taken(await self.pool.call(self.address, request, timeout_ms=15_000), group)

    async def ack(self, got: Got, group: str = GROUP) -> None:
        request = AckMessage(
            group, got.topic, got.handle.queue_id, got.handle.to_text(), got.record.queue_offset
        )
        await self.pool.call(self.address, request, timeout_ms=15_000)


@dataclass
class Left:
    """Work that the first broker left for the second one."""

    due_ms: dict[str, int] = field(default_factory=dict)
    """When each message comes again that was not acknowledged."""
    ordered: list[Got] = field(default_factory=list)
    """A batch of which the first message was acknowledged."""
    following: list[str] = field(default_factory=list)
    """Messages behind it in its queue."""


async def write(server: Server) -> Left:
    """Sends, pops, acknowledges some in each way, and leaves the rest."""
    member = Member(server)
    left = Left()
    try:
        for number in range(MESSAGES):
            body = f"m{number:02}"
            properties = f"UNIQ_KEY\x01{body:0>32}\x02TAGS\x01t{number % 3}\x02WAIT\x01true\x02"
            send = SendMessageV2(
                "P", TOPIC, "TBW102", QUEUES, number % QUEUES, 0, 1, 0, properties, 0, False, None, False,
                None, body.encode(),
            )  # fmt: skip
            await member.pool.call(server.broker, send, timeout_ms=15_000)
        popped: list[Got] = []
        while len(popped) < MESSAGES:
            popped += await member.pop()
        by_queue = {
            queue_id: [got for got in popped if got.handle.queue_id == queue_id] for queue_id in range(QUEUES)
        }
        for got in by_queue[0]:
            await member.ack(got)
        handle = by_queue[1][0].handle
        acked, open_ones = by_queue[1][::2], by_queue[1][1::2]
        bits = sum(1 << got.record.queue_offset - handle.start_offset for got in acked)
        ack = BatchAck(
            GROUP, TOPIC, "0", handle.start_offset, 1, handle.revive_queue_id, handle.pop_time,
            handle.invisible_ms, bits.to_bytes(4, "little").rstrip(b"\0"),
        )  # fmt: skip
        await member.pool.call(
            server.broker, BatchAckMessage(BatchAckMessageRequestBody("broker-a", [ack])), timeout_ms=15_000
        )
        hidden = by_queue[2][0]
        change = ChangeMessageInvisibletime(
            GROUP, TOPIC, 2, hidden.handle.to_text(), hidden.record.queue_offset, LONGER_MS
        )
        changed = await member.pool.call(server.broker, change, timeout_ms=15_000)
        for got in [*open_ones, *by_queue[2][1:], *by_queue[3]]:
            left.due_ms[got.body] = got.handle.visible_ms
        left.due_ms[hidden.body] = changed.pop_time + changed.invisible_time
        batch = await member.pop(ORDERED, order=True, most=3)
        left.ordered = [got for got in batch if got.handle.queue_id == batch[0].handle.queue_id]
        await member.ack(left.ordered[0], ORDERED)
        queue = by_queue[left.ordered[0].handle.queue_id]
        left.following = sorted(got.body for got in queue)[len(left.ordered) :]
        await until_saved(server.store / "config", time.time())
    finally:
        await member.pool.close()
    return left


async def until_saved(config: Path, since: float) -> None:
    """Offsets and batches are in their files some seconds after they changed."""
    async with asyncio.timeout(120):
        for name in ("consumerOffset.json", "consumerOrderInfo.json"):
            path = config / name
            while not path.exists() or path.stat().st_mtime <= since:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.1)
    # The file may be named before it is whole.
    await asyncio.sleep(1)


@dataclass
class Read:
    """Messages that the second broker gave."""

    came_ms: dict[str, int] = field(default_factory=dict)
    times: list[int] = field(default_factory=list)
    """Number of earlier deliveries of each."""
    twice: list[str] = field(default_factory=list)
    while_blocked: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


async def read(server: Server, left: Left) -> Read:
    """Pops until everything should have come."""
    member = Member(server)
    result = Read()
    queue_id = left.ordered[0].handle.queue_id

    async def of_ordered_queue() -> list[str]:
        request = PopMessage(ORDERED, TOPIC, queue_id, 32, BLOCKED_MS, 0, 0, 0, order=True)
        return [got.body for got in taken(await member.pool.call(server.broker, request), ORDERED)]

    try:
        result.while_blocked = await of_ordered_queue()
        for got in left.ordered[1:]:
            await member.ack(got, ORDERED)
        result.after = await of_ordered_queue()
        end_ms = max(left.due_ms.values()) + LATENESS_MS
        while (now := time.time_ns() // 1_000_000) < end_ms:
            for got in await member.pop():
                if got.body in result.came_ms:
                    result.twice.append(got.body)
                result.came_ms[got.body] = now
                result.times.append(got.record.reconsume_times)
                await member.ack(got)
            if result.came_ms.keys() == left.due_ms.keys() and now > min(left.due_ms.values()) + 5_000:
                break
            await asyncio.sleep(0.2)
    finally:
        await member.pool.close()
    return result


def moved(move: str, folder: Path, stack: ExitStack) -> tuple[Left, Read]:
    writer, _, reader, _, _, end = move.split()
    first = SERVERS[writer].start(folder / "store")
    try:
        left = asyncio.run(write(first))
    except BaseException:
        first.kill()
        raise
    first.kill() if end == "kill" else first.stop()
    second = SERVERS[reader].start(folder / "store")
    stack.callback(second.kill)
    return left, asyncio.run(read(second, left))


@pytest.fixture(scope="module")
def moves(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[tuple[Left, Read]]]]:
    """Every move that was asked for, all at once: nearly all of each is waiting."""
    need("java", "mvn")
    wanted = [item.callspec.params["move"] for item in request.session.items if item.path == Path(__file__)]  # type: ignore[attr-defined]
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=len(MOVES)) as pool:
        yield {move: pool.submit(moved, move, tmp_path_factory.mktemp("pops"), stack) for move in wanted}


@pytest.mark.parametrize("move", others_at_night(MOVES, ALWAYS))
def test_what_was_popped_is_known_to_the_next_broker(
    moves: dict[str, Future[tuple[Left, Read]]], move: str
) -> None:
    left, found = moves[move].result()
    assert left.due_ms.keys() <= found.came_ms.keys(), "lost"
    early = [body for body, due_ms in left.due_ms.items() if found.came_ms[body] < due_ms - 1000]
    assert early == []
    assert found.came_ms.keys() == left.due_ms.keys(), "acknowledged, and here again"
    assert found.twice == []
    assert set(found.times) == {1}
    assert (found.while_blocked, found.after) == ([], left.following)
