"""Consumers that get every message: all queues, offsets of their own, and nothing handed out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.local_offsets import read_offsets
from orbitmq.client.core.handlers import Retry
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET, LAST_OFFSET, ConsumerOptions
from orbitmq.protocol.bodies.offset import ResetOffsetBody
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.requests.client import GetConsumerListByGroup, GetConsumerRunningInfo, Heartbeat
from orbitmq.protocol.requests.offset import (
    QueryConsumerOffset,
    ResetConsumerClientOffset,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


def consumer(broker: FakeBroker, folder: Path, **options: Any) -> PushConsumer:
    options.setdefault("consume_from_where", FIRST_OFFSET)
    return PushConsumer(
        "g",
        broker.address,
        broadcasting=True,
        client_ip="10.0.0.9",
        local_offsets_folder=str(folder),
        **options,
    )


def file_of(folder: Path, instance: str = "DEFAULT") -> Path:
    return folder / f"10.0.0.9@{instance}" / "g" / "offsets.json"


async def test_it_takes_every_queue_and_tells_no_broker_how_far_it_is(
    broker: FakeBroker, tmp_path: Path
) -> None:
    queues, seen = Queues(broker, "T", queues=3), Seen()
    for queue_id in range(3):
        queues.put(b"%d" % queue_id, queue_id=queue_id)
    broker.members["g"] = ["somebody@else"]
    async with consumer(broker, tmp_path) as reader:
        reader.subscribe("T", "*", seen)
        await seen.count(3)
        assert reader.client_id == "10.0.0.9@DEFAULT"
        assert len(reader.queues) == 3
        connection = next(one for one in broker.connections if not one.is_closed)
        info = (await connection.call(GetConsumerRunningInfo("g", reader.client_id), 30_000)).body
        assert info.properties["messageModel"] == "BROADCASTING"
    [group] = json.loads(broker.of(Heartbeat)[-1].body.to_json())["consumerDataSet"]
    assert group["messageModel"] == "BROADCASTING"
    assert [row["topic"] for row in group["subscriptionDataSet"]] == ["T"]
    for kind in (GetConsumerListByGroup, QueryConsumerOffset, UpdateConsumerOffset):
        assert not broker.of(kind)
    assert all(not request.sys_flag & 1 for request in broker.of(PullMessage))
    assert set(read_offsets(file_of(tmp_path)).values()) == {1}


async def test_after_a_restart_it_goes_on_from_its_file(broker: FakeBroker, tmp_path: Path) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1")
    first, second = Seen(), Seen()
    async with consumer(broker, tmp_path) as reader:
        reader.subscribe("T", "*", first)
        await first.count(2)
    queues.put(b"2")
    async with consumer(broker, tmp_path) as reader:
        reader.subscribe("T", "*", second)
        await second.count(1)
    assert [message.body for message in second] == [b"2"]


async def test_a_file_of_a_java_client_is_gone_on_from(broker: FakeBroker, tmp_path: Path) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0", b"1", b"2")
    file = file_of(tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text('{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:2}}')
    async with consumer(broker, tmp_path) as reader:
        reader.subscribe("T", "*", seen)
        await seen.count(1)
    assert [message.body for message in seen] == [b"2"]


async def test_without_a_file_the_last_offset_is_the_end(broker: FakeBroker, tmp_path: Path) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1")
    async with consumer(broker, tmp_path, consume_from_where=LAST_OFFSET, instance_name="second") as reader:
        reader.subscribe("T", "*", Seen())
        await broker.until(lambda: broker.of(PullMessage))
    assert broker.of(PullMessage)[0].queue_offset == 2
    assert list(read_offsets(file_of(tmp_path, "second")).values()) == [2]


async def test_what_fails_is_not_handed_out_again(broker: FakeBroker, tmp_path: Path) -> None:
    queues = Queues(broker, "T")
    queues.put(b"raise", b"retry", b"fine")
    seen: list[bytes] = []
    told: list[Exception] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        seen.append(message.body)
        if message.body == b"raise":
            raise RuntimeError("cannot")
        return Retry() if message.body == b"retry" else None

    async with consumer(broker, tmp_path, on_error=told.append) as reader:
        reader.subscribe("T", "*", handle)
        await until(lambda: len(seen) == 3)
        await until(lambda: reader.healthy)
    assert sorted(seen) == [b"fine", b"raise", b"retry"]
    assert [str(error) for error in told] == ["cannot"]
    assert not broker.of(ConsumerSendMsgBack)
    assert not broker.of(SendMessageV2)
    assert list(read_offsets(file_of(tmp_path)).values()) == [3]


async def test_it_goes_where_a_broker_resets_it_to(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.request_handler.RESET_WAIT_SECONDS", 0.01)
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0", b"1", b"2")
    async with consumer(broker, tmp_path) as reader:
        reader.subscribe("T", "*", seen)
        await seen.count(3)
        reset = ResetConsumerClientOffset("g", "T", 0, True)
        reset.body = ResetOffsetBody({MessageQueue("T", "broker-a", 0): 1})
        broker.push(reset)
        await seen.count(5)
    assert [message.body for message in seen] == [b"0", b"1", b"2", b"1", b"2"]


def test_order_and_broadcasting_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="not both"):
        ConsumerOptions("g", ordered=True, broadcasting=True)
    assert ConsumerOptions("g").instance_name is None
