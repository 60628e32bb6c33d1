"""Jobs that write, as commands, under kill -9: the same command once more does the rest, and nothing twice.

The killed process is the driver with its JVM and workers, while all of them are at work in it: a JVM for each
would take minutes. The archive has a test of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
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
SLOWLY = ["--rate", "1"]
"""So that they are amid their messages while the others begin, on a busy machine as well."""
ALL_ONCE = Counter(f"k{number}" for number in range(MESSAGES))

pytestmark = pytest.mark.timeout(900)


def keys(spark: SparkSession, server: LocalBroker, topic: str) -> Counter[str]:
    """Each key in the topic, and how often it is there."""
    source = spark.read.format("orbitmq").options(namesrv=server.namesrv, subscribe=topic, columns="keys")
    return Counter(row["keys"] for row in source.load().collect())


def job(server: LocalBroker, name: str, *options: object) -> list[str]:
    return ["job", name, "-n", server.namesrv, *map(str, options)]


@pytest.mark.nightly  # another JVM; each job is cut off and carried on in the session of its own tests
@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_replay_a_redrive_a_deduplication_and_a_table_of_traces(
    spark: SparkSession, server: LocalBroker, topic: str, tmp_path: Path
) -> None:
    replayed, redriven, once, traces = (f"{topic}_{name}" for name in ("again", "redriven", "once", "traces"))
    letters, doubled = f"%DLQ%{redriven}", f"{topic}_doubled"
    for name in (replayed, redriven, once, traces, letters, doubled):
        create_topic(server, name)
    publish(server, topic, [Outgoing(b"order", n % 4, {"KEYS": f"k{n}"}) for n in range(MESSAGES)])
    dead = [{"KEYS": f"k{n}", "UNIQ_KEY": f"{n:032X}", "RETRY_TOPIC": redriven} for n in range(MESSAGES)]
    publish(server, letters, [Outgoing(b"x", n % 4, one) for n, one in enumerate(dead)])
    twice = [Outgoing(b"order", n % 4, {"KEYS": f"k{n % MESSAGES}"}) for n in range(2 * MESSAGES)]
    publish(server, doubled, twice)
    publish(server, traces, [pub(f"m{number}") for number in range(MESSAGES)])
    places = {name: tmp_path / name for name in ("replay", "audit", "dedup", "tables")}
    again = [
        job(server, "replay", "--topic", topic, "--to", replayed, "--checkpoint", places["replay"]),
        job(server, "dlq", "--pattern", letters, "--redrive", "--audit", places["audit"]),
        job(server, "trace", "--trace-topic", traces, "--tables", places["tables"]),
        job(server, "dedup", "--topic", doubled, "--to-topic", once, "--checkpoint", places["dedup"]),
    ]
    begun = [[*again[0], *SLOWLY], [*again[1], *SLOWLY], again[2], [*again[3], "--follow", "1"]]
    signs: list[Callable[[], bool]] = [
        lambda: ends(server, replayed) > 0,
        lambda: ends(server, redriven) > 0,
        (places["tables"] / "checkpoint" / "offsets" / "0").exists,
        # Between the first message of a batch and its commit, most likely: the commit takes longer.
        lambda: ends(server, once) > 0,
    ]

    def all_have_begun() -> bool:
        """One after the other, for Spark gives a Python process ten seconds to start."""
        while signs and signs[0]():
            del signs[0]
            (tmp_path / str(len(begun) - len(signs))).touch()
        return not signs

    words = ("tests.spark.writing_process", str(tmp_path), json.dumps(begun))
    kill_when(all_have_begun, tmp_path / "log", *words)
    for target in (replayed, redriven):
        assert 0 < ends(server, target) < MESSAGES
    publish(server, doubled, twice)
    for words in again:
        assert run_command(words) == 0
    for target in (replayed, redriven, once):
        assert keys(spark, server, target) == ALL_ONCE
    rows = spark.read.parquet(str(places["tables"] / "records")).select("msgId").collect()
    assert Counter(row.msgId for row in rows) == Counter(f"m{number}" for number in range(MESSAGES))
