from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.consumer.gathering import Gathering, Taken, parts
from orbitmq.client.consumer.offsets import QueueProgress
from orbitmq.client.consumer.process_queue import ProcessQueue
from orbitmq.protocol.bodies.queue import MessageQueue
from tests.kit.client_messages import received

HOURS_MS = 36_000_000


def queue(queue_id: int = 0) -> ProcessQueue:
    return ProcessQueue(MessageQueue("T", "b", queue_id), 0, QueueProgress(0))


class Handler:
    """Batches that a handler would get."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.came = asyncio.Event()
        self.gathering = Gathering(self.put)

    def put(self, batch: Taken) -> None:
        self.batches.append([message.queue_offset for _, message in batch])
        self.came.set()


@pytest.fixture
async def handler() -> Handler:
    return Handler()


async def test_a_full_batch_goes_at_once(handler: Handler) -> None:
    held = queue()
    for number in range(5):
        handler.gathering.add(held, received(number), 2, HOURS_MS)
    assert handler.batches == [[0, 1], [2, 3]]
    handler.gathering.cancel()


async def test_one_that_is_not_full_goes_after_its_time(handler: Handler) -> None:
    handler.gathering.add(queue(), received(7), 10, 1)
    await handler.came.wait()
    assert handler.batches == [[7]]


async def test_without_a_time_to_wait_messages_of_one_answer_go_together(handler: Handler) -> None:
    held = queue()
    for number in range(3):
        handler.gathering.add(held, received(number), 10, 0)
    assert handler.batches == []
    await handler.came.wait()
    assert handler.batches == [[0, 1, 2]]


async def test_messages_of_a_queue_that_is_given_up_are_left_out(handler: Handler) -> None:
    lost, kept = queue(0), queue(1)
    handler.gathering.add(lost, received(1), 3, HOURS_MS)
    handler.gathering.add(kept, received(2), 3, HOURS_MS)
    handler.gathering.leave_out(lost)
    handler.gathering.add(kept, received(3), 3, HOURS_MS)
    handler.gathering.add(kept, received(4), 3, HOURS_MS)
    assert handler.batches == [[2, 3, 4]]


async def test_parts_have_at_most_so_many_messages() -> None:
    held = queue()
    taken = [(held, received(number)) for number in range(5)]
    assert [len(part) for part in parts(taken, 2)] == [2, 2, 1]
