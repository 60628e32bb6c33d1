"""A delivery's result, made when somebody asks for it."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.producer.deliveries_cy import Delivery, body_of, complete_stored, delivery_of, take_batch
from orbitmq.client.sending.results import BatchResults
from orbitmq.protocol.records.batch_cy import split_batch
from orbitmq.protocol.requests.send import SendReply
from tests.kit.client_messages import QUEUE


def deliveries(*bodies: bytes) -> list[Delivery]:
    return [delivery_of(Message("T", body), f"id{place}") for place, body in enumerate(bodies)]


async def test_all_who_ask_get_one_and_the_same_result() -> None:
    before, after, last = batch = deliveries(b"a", b"bb", b"ccc")
    waiting = asyncio.ensure_future(before)
    heard: list[Delivery] = []
    before.add_done_callback(heard.append)
    await asyncio.sleep(0)
    assert complete_stored(batch, BatchResults(SendReply("A,B,C", 0, 7), QUEUE, 3)) == 6
    results: list[SendResult] = [await waiting, await after, last.result()]
    assert [(one.message_id, one.offset_message_id, one.queue_offset) for one in results] == [
        ("id0", "A", 7),
        ("id1", "B", 8),
        ("id2", "C", 9),
    ]
    assert before.result() is results[0]
    assert last.result() is results[2]
    assert last.exception() is None
    assert heard == [before]


def test_an_outcome_is_final() -> None:
    (delivery,) = deliveries(b"a")
    delivery.complete(RuntimeError("lost"))
    assert delivery.is_unseen
    complete_stored([delivery], BatchResults(SendReply("A", 0, 7), QUEUE, 1))
    with pytest.raises(RuntimeError):
        delivery.result()
    assert not delivery.is_unseen


def test_a_result_is_not_known_before_the_answer() -> None:
    (delivery,) = deliveries(b"a")
    assert not delivery.done()
    with pytest.raises(asyncio.InvalidStateError):
        delivery.result()


def test_a_batch_has_messages_up_to_its_limits_in_their_order() -> None:
    waiting = deque(deliveries(b"a", b"b", b"c"))
    first = take_batch(waiting, 2, 10_000)
    assert [body for _, body, _ in split_batch(body_of(first))] == [b"a", b"b"]
    assert [one.message.body for one in take_batch(waiting, 2, 10_000)] == [b"c"]
    waiting = deque(deliveries(b"x" * 100, b"y" * 100))
    assert len(take_batch(waiting, 2, 250)) == 1
    assert len(waiting) == 1
