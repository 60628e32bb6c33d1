"""The job `trace` over traces that real clients have written, ours and Java's, on both brokers."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage, Retry
from orbitmq.cli.app import run as cli
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.job import JobFailed, JobSetup
from orbitmq.spark.jobs.trace import TraceOptions, committed_offsets, run
from tests.needs import need
from tests.spark.conftest import Outgoing, Server, create_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("spark")]


@pytest.fixture
def traces(server: Server, topic: str) -> str:
    """A trace topic of the test's own."""
    create_topic(server, f"{topic}_traces", queues=1)
    return f"{topic}_traces"


def until(found: Callable[[], Any], what: str) -> Any:
    """Clients send traces some seconds later."""
    deadline = time.monotonic() + 240
    while not (value := found()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.5)
    return value


async def send_and_consume(server: Server, topic: str, traces: str) -> list[str]:
    """Three messages, the second of which is handled at the second attempt; their ids."""
    done = asyncio.Event()
    taken: list[str] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        if message.body == b"1" and message.reconsume_times == 0:
            return Retry(1)
        taken.append(message.message_id)
        if len(taken) == 3:
            done.set()
        return None

    options = {"trace": True, "trace_topic": traces}
    async with Producer("python-producer", server.namesrv, **options) as producer:  # type: ignore[arg-type]
        sent = [await producer.send(Message(topic, f"{n}", keys=f"order-{n}")) for n in range(3)]
        consumer = PushConsumer(f"{topic}-g", server.namesrv, consume_from_where=FIRST_OFFSET, **options)  # type: ignore[arg-type]
        consumer.subscribe(topic, "*", handle)
        async with consumer:
            async with asyncio.timeout(300):
                await done.wait()
    return [one.message_id for one in sent]


def options(server: Server, traces: str, **more: Any) -> TraceOptions:
    setup = {name: more.pop(name) for name in ("report", "dry_run") if name in more}
    return TraceOptions(JobSetup(server.namesrv, **setup), topic=traces, **more)


def test_traces_of_our_client(orbitmq_server: Server, tmp_path: Path) -> None:
    server, topic = orbitmq_server, f"traced_{time.time_ns()}"
    traces = f"{topic}_traces"
    for name in (topic, traces):
        create_topic(server, name, queues=2)
    asyncio.run(send_and_consume(server, topic, traces))
    page = tmp_path / "trace.html"
    (found,) = run(options(server, traces, report=page)).latency
    assert (found.topic, found.clientGroup, found.delayed) == (topic, f"{topic}-g", False)
    assert (found.messages, found.handled, found.retried) == (3, 3, 1)
    assert found.endToEndMaxMs >= 1000, "the retry came a second later"
    assert found.endToEndP50Ms <= found.endToEndMaxMs
    text = page.read_text()
    assert "<svg" in text
    assert "order-1" in text, "the retried message is listed"
    life = [row.what for row in run(options(server, traces, message="order-1")).life]
    assert life[0].startswith(f"sent to {server.broker} in ")
    assert [line.split(" in ")[0] for line in life[1:]] == [
        "handling begins",
        "handled: failed",
        "handling begins, retry 1",
        "handled: success",
    ]


@pytest.mark.nightly  # `unit/client/trace/test_records` holds our records to Java's bytes with every change
def test_traces_of_java_s_client(server: Server, topic: str, traces: str, tmp_path: Path) -> None:
    need("java", "mvn")
    from tests.peers.mqadmin_shell import Shell

    shell = Shell(server.namesrv, tmp_path / "java")
    try:
        ids = shell.done(f"@traced {traces} {topic}-j {topic} 3").split()
    finally:
        shell.close()
    (found,) = until(
        lambda: [row for row in run(options(server, traces)).latency if row.handled == 3],
        "all traces are there",
    )
    assert (found.topic, found.clientGroup) == (topic, f"{topic}-j")
    assert (found.messages, found.retried) == (3, 1)
    life = [row.what for row in run(options(server, traces, message=ids[0])).life]
    assert [line.split(" in ")[0] for line in life[1:]] == [
        "handling begins",
        "handled: failed",
        "handling begins, retry 1",
        "handled: success",
    ]


def pub(message_id: str) -> Outgoing:
    fields = (
        "Pub",
        int(time.time() * 1000),
        "R",
        "PG",
        "orders",
        message_id,
        "null",
        "k",
        "b:1",
        9,
        4,
        0,
        "O",
        "true",
    )
    return Outgoing(("\x01".join(map(str, fields)) + "\x02").encode())


def test_the_table_has_each_record_once_over_runs_and_a_crash(
    spark: SparkSession, orbitmq_server: Server, tmp_path: Path
) -> None:
    topic = f"traces_{time.time_ns()}"
    create_topic(orbitmq_server, topic, queues=2)
    tables = tmp_path / "tables"
    given = options(orbitmq_server, topic, tables=tables)
    publish(orbitmq_server, topic, [pub(f"m{n}") for n in range(5)])
    assert run(options(orbitmq_server, topic, tables=tables, dry_run=True)).added == 5
    assert not tables.exists()
    assert run(given).added == 5
    # As after a kill between a batch's files and its commit: the batch is run again.
    last = max((tables / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in last.parent.glob(f"*{last.name}*"):
        path.unlink()
    publish(orbitmq_server, topic, [pub("m5"), Outgoing(b"no trace"), pub("m6")])
    done = run(given)
    assert (done.records, done.bad) == (7, 1)
    publish(orbitmq_server, topic, [pub("m7")])
    assert run(options(orbitmq_server, topic, tables=tables, dry_run=True)).added == 1
    rows = spark.read.parquet(str(tables / "records")).where("bad is null").select("msgId").collect()
    assert sorted(row.msgId for row in rows) == [f"m{n}" for n in range(7)]
    assert spark.read.parquet(str(tables / "sending")).first().messages == 7


def publish_later(server: Server, topic: str, message: Outgoing) -> None:
    """Messages are stored at least a millisecond after those before: brokers count by this clock."""
    before = time.monotonic()
    while time.monotonic() < before + 0.002:
        pass
    publish(server, topic, [message])


def test_the_command(
    spark: SparkSession, orbitmq_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"traces_{time.time_ns()}"
    create_topic(orbitmq_server, topic, queues=1)
    publish(orbitmq_server, topic, [pub("m0")])
    base = ["job", "trace", "-n", orbitmq_server.namesrv, "--trace-topic", topic]
    assert cli([*base, "--message", "k", "--json"]) == 0
    (step,) = json.loads(capsys.readouterr().out)
    assert (step["what"], step["msgId"]) == ("sent to b:1 in 4 ms", "m0")
    assert cli([*base, "--message", "nobody"]) == 0
    assert "nothing is known of nobody" in capsys.readouterr().out
    assert cli([*base, "--dry-run"]) == 2
    publish_later(orbitmq_server, topic, pub("m1"))
    publish_later(orbitmq_server, topic, pub("m2"))
    # The broker's clock: a machine's may have been set since the broker started.
    given = {"namesrv": orbitmq_server.namesrv, "subscribe": topic}
    stored = (
        spark.read.format("orbitmq").options(**given).load().selectExpr("unix_millis(storeTimestamp) as at")
    )
    _, since, until = sorted(row.at for row in stored.collect())
    for times, found in (
        (["--since", str(since), "--until", str(until)], ["m1"]),
        (["--until", "2020-01-01T00:00"], []),
    ):
        assert cli([*base, *times, "--message", "k", "--json"]) == 0
        assert [step["msgId"] for step in json.loads(capsys.readouterr().out)] == found


def test_bad_input(orbitmq_server: Server, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nowhere") as caught:
        run(options(orbitmq_server, "nowhere"))
    assert BadOption.__name__ in str(caught.value) or "does not exist" in str(caught.value)
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "commits").mkdir(parents=True)
    assert committed_offsets(checkpoint) is None
    (checkpoint / "commits" / "0").write_text("v1\n{}")
    with pytest.raises(JobFailed, match="no checkpoint of this job"):
        committed_offsets(checkpoint)
    shutil.rmtree(checkpoint)
