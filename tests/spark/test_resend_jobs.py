"""The jobs `replay` and `dlq`: what goes out, and that it goes out once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.dlq.running import DlqOptions
from orbitmq.spark.jobs.dlq.running import run as run_dlq
from orbitmq.spark.jobs.job import JobFailed, JobSetup
from orbitmq.spark.jobs.replay import ReplayOptions
from orbitmq.spark.jobs.replay import run as run_replay
from tests.spark.conftest import Outgoing, create_topic, publish
from tests.spark.test_streaming import delete_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.testing import LocalBroker

HOUR_MS = 3_600_000


def now_ms() -> int:
    return int(time.time() * 1000)


def stored(spark: SparkSession, server: LocalBroker, topic: str) -> list[Any]:
    given = {"namesrv": server.namesrv, "subscribe": topic}
    rows: list[Any] = spark.read.format("orbitmq").options(**given).load().orderBy("body").collect()
    return rows


@pytest.fixture(scope="module")
def orders(orbitmq_server: LocalBroker, request: pytest.FixtureRequest) -> str:
    """A topic of twenty messages, each stored in a millisecond of its own. They have one sharding key: they
    have to stay together.

    Another module may import this: the broker is shared, so each module has a topic of its own.
    """
    topic = f"orders_of_{request.module.__name__.rpartition('.')[2]}"
    create_topic(orbitmq_server, topic)
    for number in range(20):
        properties = {
            "KEYS": f"k{number}",
            "TAGS": "paid" if number % 2 else "open",
            "__SHARDINGKEY": "one",
            "UNIQ_KEY": f"{number:032X}",
            "colour": "red",
        }
        order = Outgoing(f"order {number:02}".encode(), number % 4, properties, flag=number)
        publish(orbitmq_server, topic, [order])
        # The message is stored. The broker's clock never stands still, and its milliseconds do not begin with
        # ours: after more than a whole one it shows another.
        time.sleep(0.002)
    return topic


def setup_for(server: LocalBroker, **more: Any) -> JobSetup:
    return JobSetup(namesrv=server.namesrv, **more)


# ---- replay ----


def test_a_replay_sends_what_matches_with_all_that_belongs_to_it(
    spark: SparkSession, orbitmq_server: LocalBroker, orders: str
) -> None:
    create_topic(orbitmq_server, "replay_plain")
    options = ReplayOptions(
        orders, "replay_plain", setup_for(orbitmq_server), where="tags = 'paid' and text like 'order 1%'"
    )
    assert run_replay(options).messages == 5
    rows = stored(spark, orbitmq_server, "replay_plain")
    assert [bytes(row.body) for row in rows] == [f"order {number}".encode() for number in range(11, 20, 2)]
    assert {row.queueId for row in rows} == {rows[0].queueId}, "one sharding key, one queue"
    first = rows[0]
    assert (first["keys"], first.tags, first.flag) == ("k11", "paid", 11)
    assert first.properties["colour"] == "red"
    assert first.msgId != f"{11:032X}", "it is another message"


def test_a_dry_run_sends_nothing_and_says_what_it_would(
    spark: SparkSession, orbitmq_server: LocalBroker, orders: str
) -> None:
    create_topic(orbitmq_server, "replay_dry")
    options = ReplayOptions(orders, "replay_dry", setup_for(orbitmq_server, dry_run=True))
    result = run_replay(options)
    assert (result.planned, len(result.samples)) == (20, 5)
    assert result.first_stored <= result.last_stored
    assert stored(spark, orbitmq_server, "replay_dry") == []


def test_a_replay_that_was_cut_off_is_carried_on_and_a_finished_one_left_alone(
    spark: SparkSession,
    orbitmq_server: LocalBroker,
    orders: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create_topic(orbitmq_server, "replay_resumed")
    options = ReplayOptions(
        orders, "replay_resumed", setup_for(orbitmq_server, checkpoint=str(tmp_path / "checkpoint"))
    )
    with monkeypatch.context() as patched:
        # Cut off after half of it is sent, and before it is written down that it is.
        patched.setattr("orbitmq.spark.jobs.replay._Plan.finish", cut_off)
        half = ReplayOptions(**{**_fields(options), "where": None})
        patched.setattr("orbitmq.spark.jobs.replay.outgoing", _half_of(run_replay.__globals__["outgoing"]))
        with pytest.raises(CutOff):
            run_replay(half)
    assert 0 < len(stored(spark, orbitmq_server, "replay_resumed")) < 20
    carried_on = run_replay(options)
    assert carried_on.already_there == 10
    assert carried_on.messages == 10
    assert len({bytes(row.body) for row in stored(spark, orbitmq_server, "replay_resumed")}) == 20
    again = run_replay(options)
    assert again.done_before
    assert len(stored(spark, orbitmq_server, "replay_resumed")) == 20
    with pytest.raises(JobFailed, match="checkpoint of another replay: where differ"):
        run_replay(ReplayOptions(**{**_fields(options), "where": "true"}))


def _fields(options: ReplayOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__slots__}


class CutOff(Exception):
    """The driver is no more."""


def cut_off(*_: object) -> None:
    raise CutOff


def _half_of(outgoing: Any) -> Any:
    def half(frame: Any, options: Any) -> Any:
        return outgoing(frame.filter("flag < 10"), options)

    return half


def test_a_time_shift_delivers_later_what_lies_ahead(
    spark: SparkSession, orbitmq_server: LocalBroker, orders: str
) -> None:
    create_topic(orbitmq_server, "replay_shifted")
    ahead = ReplayOptions(orders, "replay_shifted", setup_for(orbitmq_server), shift_ms=HOUR_MS)
    assert run_replay(ahead).messages == 20
    assert stored(spark, orbitmq_server, "replay_shifted") == [], "they wait for their time"
    with pytest.raises(JobFailed, match="more than 3 days ahead"):
        run_replay(ReplayOptions(**{**_fields(ahead), "shift_ms": 100 * 24 * HOUR_MS}))


def test_wrong_wishes_are_refused_before_anything_is_sent(orbitmq_server: LocalBroker, orders: str) -> None:
    setup = setup_for(orbitmq_server)
    with pytest.raises(JobFailed, match="replayed into itself"):
        run_replay(ReplayOptions(orders, orders, setup))
    with pytest.raises(JobFailed, match="nothing between them"):
        run_replay(ReplayOptions(orders, "x", setup, since_ms=5, until_ms=5))
    with pytest.raises(BadOption, match=r"--pattern \[: unterminated"):
        run_dlq(DlqOptions(setup, "[", lake="letters"))


def test_an_expression_that_is_none_is_an_error_that_shows_it(
    spark: SparkSession, orbitmq_server: LocalBroker, orders: str
) -> None:
    options = ReplayOptions(orders, "replay_plain", setup_for(orbitmq_server, dry_run=True), where="colour =")
    with pytest.raises(JobFailed, match="--where colour ="):
        run_replay(options)


# ---- dead letters ----


@pytest.fixture
def billing(orbitmq_server: LocalBroker, request: pytest.FixtureRequest) -> str:
    """A group of its own with six dead letters: four of invoices, one of payments, one of nobody knows."""
    group = f"billing_{request.node.name.removeprefix('test_')[:40]}"
    create_topic(orbitmq_server, f"%DLQ%{group}", queues=1)
    for topic in ("invoices", "payments"):
        create_topic(orbitmq_server, f"{topic}_{group}")
    letters = [
        ("invoices", b'{"id": 1, "amount": 3}', {"exception": "Timeout"}),
        ("invoices", b'{"amount": 5, "id": 2}', {"exception": "Timeout"}),
        ("invoices", b'{"amount": 5, "id": 2}', {}),
        ("invoices", b"\xff\xfe", {}),
        ("payments", b"plain words", {}),
        (None, b"whose?", {}),
    ]
    publish(
        orbitmq_server,
        f"%DLQ%{group}",
        [
            Outgoing(
                body,
                0,
                {"UNIQ_KEY": f"{number:032X}", "ORIGIN_MESSAGE_ID": f"{number:032X}", "KEYS": f"k{number}"}
                | ({"RETRY_TOPIC": f"{topic}_{group}"} if topic else {})
                | own,
            )
            for number, (topic, body, own) in enumerate(letters)
        ],
    )
    return group


def dlq_options(server: LocalBroker, group: str, **more: Any) -> DlqOptions:
    setup = {name: more.pop(name) for name in ("dry_run", "report") if name in more}
    return DlqOptions(setup_for(server, **setup), f"%DLQ%{group}", **more)


def test_letters_are_told_apart_by_topic_group_and_reason(
    spark: SparkSession, orbitmq_server: LocalBroker, billing: str, tmp_path: Path
) -> None:
    page = tmp_path / "dlq.html"
    result = run_dlq(dlq_options(orbitmq_server, billing, report=page))
    kinds = {(row.originTopic, row.group, row.reason, row.letters) for row in result.groups}
    invoices, payments = f"invoices_{billing}", f"payments_{billing}"
    assert kinds == {
        (invoices, billing, "Timeout", 2),
        (invoices, billing, "{amount, id}", 1),
        (invoices, billing, "binary", 1),
        (payments, billing, "text", 1),
        (None, billing, "text", 1),
    }
    assert result.letters == 6
    assert all(row["< 1 hour"] == row.letters for row in result.groups)
    assert billing in page.read_text()


def test_letters_outlive_the_broker_in_a_lake(
    spark: SparkSession, orbitmq_server: LocalBroker, billing: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    assert run_dlq(dlq_options(orbitmq_server, billing, lake=lake)).kept == 6
    result = run_dlq(dlq_options(orbitmq_server, billing, lake=lake))
    assert (result.kept, result.letters) == (0, 6), "each is brought in once"
    delete_topic(orbitmq_server, f"%DLQ%{billing}")
    assert run_dlq(dlq_options(orbitmq_server, billing)).letters == 0, "the broker has forgotten them"
    audit = str(tmp_path / "audit")
    result = run_dlq(dlq_options(orbitmq_server, billing, lake=lake, redrive=True, audit=audit))
    assert (result.kept, result.letters, result.sent, result.homeless) == (0, 6, 5, 1)
    invoices = stored(spark, orbitmq_server, f"invoices_{billing}")
    assert [row["keys"] for row in invoices] == ["k1", "k2", "k0", "k3"], "by body"
    assert [row["keys"] for row in stored(spark, orbitmq_server, f"payments_{billing}")] == ["k4"]
