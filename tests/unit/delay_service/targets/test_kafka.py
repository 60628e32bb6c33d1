"""Batches to Kafka whose producer does not answer."""

import asyncio
from types import SimpleNamespace

from orbitmq.delay_service.options import parse_cluster
from orbitmq.delay_service.rules.delivery import Outgoing, Result
from orbitmq.delay_service.store.keys import pending_key
from orbitmq.delay_service.store.records import Content, Pending
from orbitmq.delay_service.targets import kafka


class Producer:
    """One that takes records, and is ended before it sends them."""

    def __init__(self):
        self.client = SimpleNamespace(cluster=SimpleNamespace(partitions_for_topic=lambda _: {0}))
        self.is_ended = False

    async def send(self, *_, **__):
        return asyncio.get_running_loop().create_future()

    async def stop(self):
        self.is_ended = True


async def test_records_that_are_never_answered_are_sent_again(monkeypatch):
    """A batch to another topic that fails ends the producer of both: the lane waited for ever."""
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 0.05, raising=False)
    target = kafka.KafkaTarget(parse_cluster("events=kafka://127.0.0.1:1"))
    target._producer = producer = Producer()
    pending = Pending("n", 1, 1000, Content(b"x", None, 0, []))
    async with asyncio.timeout(5):
        found = await target.deliver("t", [Outgoing(pending_key(1, 1000, 1, n), pending) for n in range(2)])
    assert [one.result for one in found] == [Result.FAILED] * 2
    assert producer.is_ended
