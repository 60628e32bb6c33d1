"""A task's read of bodies that inflate: the memory of its batches, and bodies above the maximum."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from orbitmq.protocol.records.compression import deflate
from orbitmq.protocol.remoting.command import Command
from tests.kit.spark_broker import FOUND, Answer, FakeBroker, pull_answer
from tests.kit.stored_records import stored_record

pytest.importorskip("pyarrow")

from orbitmq.spark.errors import BadOption, UnreadableBody
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue
from orbitmq.spark.read.pulling import close_idle_connections
from orbitmq.spark.read.reading import read_range

MIB = 1 << 20


def bodies_read(sizes: list[int], **options: str) -> list[list[int | None]]:
    """Sizes of bodies, by batch, of messages that came in one answer."""

    def answer(request: Command) -> Answer:
        records = [stored_record(n, deflate(bytes(size)), sys_flag=1) for n, size in enumerate(sizes)]
        return pull_answer(FOUND, len(sizes), b"".join(records), 0, len(sizes))

    with FakeBroker(answer) as broker:
        work = OffsetRange(Queue("t", "b", 0, broker.address), 0, len(sizes))
        given: dict[str, Any] = {"subscribe": "t", "namesrv": broker.address, **options}
        found = []
        for batch in read_range(work, ReadOptions.parse(given), ("brokerName", "body")):
            assert batch.column(0).to_pylist() == ["b"] * batch.num_rows
            found.append([None if body is None else len(body) for body in batch.column(1).to_pylist()])
        close_idle_connections()
    return found


def test_an_answer_becomes_as_many_batches_as_its_inflated_bodies_take() -> None:
    assert bodies_read([MIB] * 7, maxBatchBytes=str(2 * MIB)) == [[MIB, MIB], [MIB, MIB], [MIB, MIB], [MIB]]
    assert bodies_read([5] * 7, maxBatchBytes=str(2 * MIB)) == [[5] * 7]


def test_a_body_above_the_maximum_fails_and_names_place_and_options() -> None:
    with pytest.raises(UnreadableBody) as refused:
        bodies_read([5, 1001, 5], maxInflatedBodyBytes="1000")
    text = str(refused.value)
    assert "t b|0: the body at offset 1 cannot be read" in text
    assert "maxInflatedBodyBytes (of a job --max-inflated-body-bytes)" in text
    assert "failOnUnreadableBody=false reads such bodies as null" in text


def test_by_an_option_it_is_null_and_the_log_tells(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = bodies_read([5, 1001, 5], maxInflatedBodyBytes="1000", failOnUnreadableBody="false")
    assert found == [[5, None, 5]]
    assert "t b|0: bodies of 1 messages are null: a zlib body inflates to more than 1000 bytes" in caplog.text


def test_the_maximum_has_a_bound() -> None:
    with pytest.raises(BadOption, match="maxInflatedBodyBytes has to be 268435456 at most"):
        ReadOptions.parse({"subscribe": "t", "maxInflatedBodyBytes": "268435457"})
