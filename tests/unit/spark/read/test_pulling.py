import struct
from typing import Any

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import ConnectionLost, NetError
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.schema.declare import Request
from orbitmq.spark.errors import DataLost
from orbitmq.spark.read import pulling
from orbitmq.spark.read.planning import OffsetRange, Queue
from orbitmq.spark.read.pulling import QueuePuller, log_loss, refuse_loss
from tests.kit.spark_broker import (
    FOUND,
    NOT_FOUND,
    OFFSET_MOVED,
    RETRY_AT_ONCE,
    Answer,
    FakeBroker,
    pull_answer,
)


class Queueful:
    """A queue of the offsets low..high-1 whose "records" are the offsets as 8 bytes."""

    def __init__(self, low: int, high: int, *, at_once: int = 32) -> None:
        self.low, self.high, self.at_once = low, high, at_once

    def __call__(self, request: Command) -> Answer:
        assert request.ext is not None
        first, count = int(request.ext["queueOffset"]), int(request.ext["maxMsgNums"])
        if first < self.low:
            return pull_answer(OFFSET_MOVED, self.low)
        if first >= self.high:
            return pull_answer(NOT_FOUND if first == self.high else OFFSET_MOVED, self.high)
        last = min(first + min(count, self.at_once), self.high)
        body = b"".join(struct.pack(">q", offset) for offset in range(first, last))
        return pull_answer(FOUND, last, body)


def offsets_read(
    broker: FakeBroker, low: int, high: int, *, subscription: str = "*", lenient: bool = False
) -> list[int]:
    work = OffsetRange(Queue("t", "b", 0, broker.address), low, high)
    puller = QueuePuller(
        work, group="g", subscription=subscription, on_loss=log_loss if lenient else refuse_loss
    )
    seen: list[int] = []
    position = low
    for body, start, end in puller:
        assert start >= position
        assert end > start
        position = end
        found = [offset for (offset,) in struct.iter_unpack(">q", body)]
        seen += [offset for offset in found if start <= offset < end]
    pulling.close_idle_connections()
    return seen


@pytest.mark.parametrize("at_once", [1, 5, 8, 32, 1000])
@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "out of order"])
def test_every_offset_once_and_in_order(at_once: int, reverse: bool) -> None:
    with FakeBroker(Queueful(0, 5000, at_once=at_once), reverse=reverse) as broker:
        assert offsets_read(broker, 17, 3001) == list(range(17, 3001))


def test_the_count_follows_what_the_broker_hands_out() -> None:
    with FakeBroker(Queueful(0, 100_000, at_once=256)) as broker:
        assert len(offsets_read(broker, 0, 50_000)) == 50_000
        assert len(broker.requests) < 50_000 / 32


def test_answers_that_end_early_now_and_then_make_the_others_no_smaller() -> None:
    """As with the files of a queue: reads came down to 15 messages for a request, and a tenth of the rate."""

    def ends_with_each_file(request: Command) -> Answer:
        assert request.ext is not None
        first = int(request.ext["queueOffset"])
        return Queueful(0, first - first % 1000 + 1000, at_once=256)(request)

    with FakeBroker(ends_with_each_file) as broker:
        assert len(offsets_read(broker, 0, 50_000)) == 50_000
        assert len(broker.requests) < 50 * 6  # 224 at a time, and what is left of a file


def test_the_count_follows_a_broker_that_hands_out_less_and_then_more() -> None:
    def by_place(request: Command) -> Answer:
        assert request.ext is not None
        few = 10_000 <= int(request.ext["queueOffset"]) < 20_000
        return Queueful(0, 100_000, at_once=8 if few else 256)(request)

    with FakeBroker(by_place) as broker:
        assert len(offsets_read(broker, 0, 100_000)) == 100_000
        by_eight = [r for r in broker.requests if 10_000 <= int((r.ext or {})["queueOffset"]) < 20_000]
        assert len(by_eight) < 1.1 * 10_000 / 8
        assert len(broker.requests) - len(by_eight) < 1.5 * 90_000 / 256


def test_a_filtered_read_asks_for_one_stretch_at_a_time() -> None:
    def every_tenth(request: Command) -> Answer:
        assert request.ext is not None
        first = int(request.ext["queueOffset"])
        if 300 <= first < 600:
            return pull_answer(RETRY_AT_ONCE, 600)
        found = [offset for offset in range(first, first + 100) if offset % 10 == 0]
        return pull_answer(FOUND, first + 100, b"".join(struct.pack(">q", offset) for offset in found))

    with FakeBroker(every_tenth) as broker:
        expected = [offset for offset in range(0, 950, 10) if not 300 <= offset < 600]
        assert offsets_read(broker, 0, 950, subscription="A") == expected
        assert [int((r.ext or {})["queueOffset"]) for r in broker.requests] == [
            *range(0, 301, 100),
            *range(600, 901, 100),
        ]
        assert {(r.ext or {})["subscription"] for r in broker.requests} == {"A"}


def test_offsets_that_are_gone_before_and_behind() -> None:
    with FakeBroker(Queueful(100, 200)) as broker:
        with pytest.raises(DataLost, match=r"t b\|0: offsets 50 to "):
            offsets_read(broker, 50, 150)
        with pytest.raises(DataLost, match="offsets 200 to"):
            offsets_read(broker, 150, 250)
        assert offsets_read(broker, 50, 250, lenient=True) == list(range(100, 200))


def test_a_connection_that_breaks_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling.time, "sleep", lambda _: None)
    queue = Queueful(0, 1000, at_once=10)
    count = 0

    def break_now_and_then(request: Command) -> Answer:
        nonlocal count
        count += 1
        return None if count % 30 == 0 else queue(request)

    with FakeBroker(break_now_and_then) as broker:
        assert offsets_read(broker, 0, 1000) == list(range(1000))


@pytest.mark.parametrize("every", range(pulling.UNDER_WAY + 1, 25))
def test_nothing_is_passed_over_where_asking_for_more_fails(
    monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """An answer that held less than was asked for was lost where the connection broke before the rest was."""
    monkeypatch.setattr(pulling.time, "sleep", lambda _: None)
    send, count = BlockingConnection.send, 0

    def send_or_break(self: BlockingConnection, request: Request[Any]) -> int:
        nonlocal count
        count += 1
        if count % every == 0:
            raise ConnectionLost("broker", "broken pipe")
        return send(self, request)

    monkeypatch.setattr(BlockingConnection, "send", send_or_break)
    with FakeBroker(Queueful(0, 400, at_once=10)) as broker:
        assert offsets_read(broker, 0, 400) == list(range(400))


def test_a_broker_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling.time, "sleep", lambda _: None)
    with FakeBroker(lambda _: None) as broker, pytest.raises(NetError):
        offsets_read(broker, 0, 10)


def test_a_refusal_is_handed_on_at_once() -> None:
    def refuse(_: Command) -> Answer:
        return Command(16, 0, 1, None, None, "the topic is not readable")

    with FakeBroker(refuse) as broker:
        with pytest.raises(BrokerRefused, match="not readable"):
            offsets_read(broker, 0, 10)
        assert len(broker.requests) <= 8


def test_a_task_that_is_cut_short_leaves_no_connection_behind() -> None:
    pulling.close_idle_connections()
    with FakeBroker(Queueful(0, 10_000)) as broker:
        work = OffsetRange(Queue("t", "b", 0, broker.address), 0, 10_000)
        answers = iter(QueuePuller(work, group="g", subscription="*", on_loss=refuse_loss))
        next(answers)
        answers.close()  # type: ignore[attr-defined]
        assert next(iter(QueuePuller(work, group="g", subscription="*", on_loss=refuse_loss)))
        assert broker.connections == 2, "the next task opens its own"


def test_a_connection_is_used_again_by_the_next_task() -> None:
    pulling.close_idle_connections()
    with FakeBroker(Queueful(0, 100)) as broker:
        work = OffsetRange(Queue("t", "b", 0, broker.address), 0, 100)
        for _ in range(2):
            assert len(list(QueuePuller(work, group="g", subscription="*", on_loss=refuse_loss))) >= 1
        assert broker.connections == 1
        pulling.close_idle_connections()


@pytest.mark.parametrize("code", [17, 29], ids=["topic", "queue"])
def test_a_topic_or_queue_that_is_gone_is_data_loss(code: int) -> None:
    queue = Queueful(0, 1000)

    def gone_in_the_middle(request: Command) -> Answer:
        assert request.ext is not None
        if int(request.ext["queueOffset"]) >= 320:
            return Command(code, 0, 1, None, None, "not here")
        return queue(request)

    with FakeBroker(gone_in_the_middle) as broker:
        with pytest.raises(DataLost, match=r"offsets .* to 999 were planned to be read and are gone"):
            offsets_read(broker, 0, 1000)
        found = offsets_read(broker, 0, 1000, lenient=True)
        assert found == list(range(len(found)))


def test_a_group_whose_offsets_were_reset_is_read_on() -> None:
    queue = Queueful(0, 100)
    resets = 2

    def sent_elsewhere(request: Command) -> Answer:
        nonlocal resets
        assert request.ext is not None
        if resets and int(request.ext["queueOffset"]) == 32:
            resets -= 1
            return pull_answer(OFFSET_MOVED, 3, low=0, high=100)
        return queue(request)

    with FakeBroker(sent_elsewhere) as broker:
        assert offsets_read(broker, 0, 100) == list(range(100))
    assert resets == 0


def test_the_queue_is_looked_for_where_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave that is behind is no data loss; a new master is found."""
    monkeypatch.setattr(pulling.time, "sleep", lambda _: None)
    with FakeBroker(Queueful(0, 50)) as slave, FakeBroker(Queueful(0, 200)) as master:
        there = iter([Queue("t", "b", 0, slave.address, False)] * 3 + [Queue("t", "b", 0, master.address)])
        work = OffsetRange(Queue("t", "b", 0, slave.address, False), 0, 200)
        puller = QueuePuller(
            work,
            group="g",
            subscription="*",
            on_loss=refuse_loss,
            relocate=lambda _: next(there),
        )
        seen = [
            offset
            for body, low, high in puller
            for (offset,) in struct.iter_unpack(">q", body)
            if low <= offset < high
        ]
        assert seen == list(range(200))
        pulling.close_idle_connections()
