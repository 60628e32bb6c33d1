"""Jobs that write, as commands, under kill -9: the same command once more does the rest, and nothing twice.

The killed process is the driver with its JVM and workers, while it is at work. The archive has a test of its
own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from orbitmq.cli.app import run as run_command
from tests.spark.conftest import Outgoing, create_topic, ends, publish
from tests.spark.killing import kill_when
from tests.spark.test_trace_job import pub

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.testing import LocalBroker

MESSAGES = 150
ENOUGH = 40
"""Messages after which a job is killed that sends slowly."""
SMALL = ["--master", "local[1]", "--memory", "512m", "--conf", "spark.sql.shuffle.partitions=2"]
SLOWLY = ["--rate", "40"]

pytestmark = pytest.mark.timeout(900)


def keys(spark: SparkSession, server: LocalBroker, topic: str) -> Counter[str]:
    """Each key in the topic, and how often it is there."""
    source = spark.read.format("orbitmq").options(namesrv=server.namesrv, subscribe=topic, columns="keys")
    return Counter(row["keys"] for row in source.load().collect())


ALL_ONCE = Counter(f"k{number}" for number in range(MESSAGES))


def kill_while_it_sends(
    spark: SparkSession, server: LocalBroker, topic: str, tmp_path: Path, job: str, *options: str
) -> None:
    """Kills a job amid what it sends to a topic; the same command once more sends the rest."""
    again = ["job", job, "-n", server.namesrv, *options]
    begun = [*again, *SLOWLY, *SMALL]
    kill_when(lambda: ends(server, topic) >= ENOUGH, tmp_path / "log", "orbitmq", *begun)
    assert ENOUGH <= ends(server, topic) < MESSAGES
    assert run_command(again) == 0
    assert keys(spark, server, topic) == ALL_ONCE


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_replay(spark: SparkSession, server: LocalBroker, topic: str, tmp_path: Path) -> None:
    target = f"{topic}_again"
    create_topic(server, target)
    publish(server, topic, [Outgoing(b"order", n % 4, {"KEYS": f"k{n}"}) for n in range(MESSAGES)])
    where = ["--topic", topic, "--to", target, "--checkpoint", str(tmp_path / "checkpoint")]
    kill_while_it_sends(spark, server, target, tmp_path, "replay", *where)


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_redrive(spark: SparkSession, server: LocalBroker, topic: str, tmp_path: Path) -> None:
    letters = f"%DLQ%{topic}"
    create_topic(server, letters)
    own = {"RETRY_TOPIC": topic}
    publish(
        server,
        letters,
        [Outgoing(b"x", n % 4, {"KEYS": f"k{n}", "UNIQ_KEY": f"{n:032X}"} | own) for n in range(MESSAGES)],
    )
    where = ["--pattern", letters, "--redrive", "--audit", str(tmp_path / "audit")]
    kill_while_it_sends(spark, server, topic, tmp_path, "dlq", *where)


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_deduplication(spark: SparkSession, server: LocalBroker, topic: str, tmp_path: Path) -> None:
    """Between the first message of a batch and its commit, most likely: the commit takes longer."""
    target = f"{topic}_once"
    create_topic(server, target)
    sent = [Outgoing(b"order", n % 4, {"KEYS": f"k{n % MESSAGES}"}) for n in range(2 * MESSAGES)]
    publish(server, topic, sent)
    where = ["--topic", topic, "--to-topic", target, "--checkpoint", str(tmp_path / "checkpoint")]
    again = ["job", "dedup", "-n", server.namesrv, *where]
    kill_when(lambda: ends(server, target) > 0, tmp_path / "log", "orbitmq", *again, "--follow", "1", *SMALL)
    publish(server, topic, sent)
    assert run_command(again) == 0
    assert keys(spark, server, target) == ALL_ONCE


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_table_of_traces(spark: SparkSession, server: LocalBroker, topic: str, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    publish(server, topic, [pub(f"m{number}") for number in range(MESSAGES)])
    again = ["job", "trace", "-n", server.namesrv, "--trace-topic", topic, "--tables", str(tables)]
    kill_when((tables / "checkpoint" / "offsets" / "0").exists, tmp_path / "log", "orbitmq", *again, *SMALL)
    assert run_command(again) == 0
    rows = spark.read.parquet(str(tables / "records")).select("msgId").collect()
    assert Counter(row.msgId for row in rows) == Counter(f"m{number}" for number in range(MESSAGES))
