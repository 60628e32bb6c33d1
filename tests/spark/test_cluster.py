"""Batch and stream on a cluster of real processes: the driver, a master, two workers and their executors."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.offset import QueryConsumerOffset
from tests.spark.conftest import Outgoing, Server, create_topic, publish
from tests.spark.standalone import SparkCluster

pytestmark = pytest.mark.timeout(900)


def test_a_topic_as_a_batch_and_as_a_stream(
    spark_cluster: SparkCluster, server: Server, topic: str, tmp_path: Path
) -> None:
    publish(server, topic, [Outgoing(str(n).encode() * 20, n % 4) for n in range(1000)])
    group = f"{topic}-lake"
    told = spark_cluster.run(
        "driver_read.py",
        options={"namesrv": server.namesrv, "subscribe": topic},
        folder=str(tmp_path),
        group=group,
    )
    sizes = sum(len(str(n)) * 20 for n in range(1000))
    assert told == {
        "batch": [1000, 1000, sizes],
        "executors": 2,
        "lake": [1000, 1000],
        "micro_batches": 3,
        "lag": 0,
        "committed": True,
    }
    with BlockingConnection(server.broker) as broker:
        offsets = [broker.call(QueryConsumerOffset(group, topic, queue)).offset for queue in range(4)]
    assert offsets == [250] * 4


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_topic_is_written_archived_and_replayed(
    spark_cluster: SparkCluster, server: Server, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}_again"
    create_topic(server, target)
    told = spark_cluster.run(
        "driver_jobs.py", namesrv=server.namesrv, topic=topic, target=target, folder=str(tmp_path)
    )
    half = told.pop("of_two_queues")
    assert 0 < half < 1000
    assert told.pop("batches") >= 3
    assert told == {"archived": 1000, "topics": [[1000, 1000], [half, half]], "done_before": True}
