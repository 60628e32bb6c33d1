"""The job `replay` from a lake: what brokers have forgotten comes back, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from orbitmq.spark.jobs.archive.running import ArchiveOptions
from orbitmq.spark.jobs.archive.running import run as run_archive
from orbitmq.spark.jobs.job import JobFailed, JobSetup
from orbitmq.spark.jobs.replay import ReplayOptions
from orbitmq.spark.jobs.replay import run as run_replay
from orbitmq.spark.lake.storage import LakeLocation
from tests.spark.conftest import Outgoing, Server, create_topic, publish
from tests.spark.test_streaming import delete_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


def archived(server: Server, topic: str, lake: Path, **more: object) -> None:
    """Twelve messages, in the lake and, from then on, nowhere else."""
    publish(
        server,
        topic,
        [
            Outgoing(
                f"order {number:02}".encode(),
                number % 4,
                {"KEYS": f"k{number}", "TAGS": "paid", "colour": "red", "__SHARDINGKEY": "one"},
                flag=number,
            )
            for number in range(12)
        ],
    )
    setup = JobSetup(namesrv=server.namesrv)
    assert run_archive(ArchiveOptions(LakeLocation(str(lake)), (topic,), setup=setup, **more)).messages == 12  # type: ignore[arg-type]
    delete_topic(server, topic)


def test_what_the_broker_has_forgotten_comes_from_the_lake_once(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    lake, target = tmp_path / "lake", f"{topic}_again"
    archived(server, topic, lake)
    create_topic(server, target)
    setup = JobSetup(namesrv=server.namesrv, checkpoint=str(tmp_path / "checkpoint"))
    options = ReplayOptions(topic, target, setup, lake=str(lake), where="flag >= 4 and text like 'order%'")
    assert run_replay(options).messages == 8
    assert run_replay(options).done_before
    source = spark.read.format("orbitmq").options(namesrv=server.namesrv, subscribe=target)
    rows = source.load().orderBy("flag").collect()
    assert [(bytes(row.body), row["keys"], row.tags, row.flag) for row in rows] == [
        (f"order {number:02}".encode(), f"k{number}", "paid", number) for number in range(4, 12)
    ]
    assert all(row.properties["colour"] == "red" for row in rows)
    assert len({row.queueId for row in rows}) == 1, "one sharding key, one queue"


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_times_choose_what_is_replayed_and_a_poorer_lake_is_refused(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    whole, poor = tmp_path / "whole", tmp_path / "poor"
    archived(server, topic, whole)
    create_topic(server, target := f"{topic}_target")
    dry = JobSetup(namesrv=server.namesrv, dry_run=True)
    stored = spark.read.parquet(str(whole)).selectExpr("unix_millis(min(storeTimestamp)) as at").collect()[0]
    assert run_replay(ReplayOptions(topic, target, dry, lake=str(whole), since_ms=stored["at"])).planned == 12
    assert run_replay(ReplayOptions(topic, target, dry, lake=str(whole), until_ms=stored["at"])).planned == 0
    other = f"{topic}_poor"
    create_topic(server, other)
    archived(server, other, poor, columns=("body", "keys"))
    with pytest.raises(JobFailed, match=r"was written without .*properties.*: not to replay"):
        run_replay(ReplayOptions(other, target, dry, lake=str(poor)))
