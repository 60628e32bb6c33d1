"""The sink and the source on a cluster of real processes: a driver, a master, two workers, their executors.

At night a stream and three jobs as well, beside OrbitMQ and beside Apache's broker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.offset import QueryConsumerOffset
from tests.peers.apache import Apache
from tests.spark.conftest import Server, create_topic
from tests.spark.standalone import SparkCluster
from tests.spark.test_audit import crc, healthy

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_a_topic_is_written_and_read(
    spark_cluster: SparkCluster, server: Server, topic: str, tmp_path: Path
) -> None:
    given = {"namesrv": server.namesrv, "topic": topic}
    assert spark_cluster.run("driver.py", folder=str(tmp_path), parts=2, **given) == {
        "batch": [1000, 1000, 1000],
        "executors": 2,
    }


@pytest.mark.nightly
def test_a_topic_is_written_read_followed_archived_and_replayed(
    spark_cluster: SparkCluster, server: Server, topic: str, tmp_path: Path
) -> None:
    target, group = f"{topic}_again", f"{topic}_files"
    create_topic(server, target)
    given = {"namesrv": server.namesrv, "topic": topic, "target": target, "group": group}
    files: dict[str, int] = {}
    if not isinstance(server, Apache):  # an audit of files asks no broker: once is enough
        store = healthy(tmp_path / "store")
        crc(store)
        given["store"] = str(store.root)
        # Kept are the log, and each queue.
        files = {"kept": 1 + len(store.offsets), "errors": 2}
    told = spark_cluster.run("driver.py", folder=str(tmp_path), **given)
    half = told.pop("of_two_queues")
    assert 0 < half < 1000
    assert told.pop("batches") >= 3
    assert told == {
        "batch": [1000, 1000, 1000],
        "executors": 2,
        "files": [1000, 1000],
        "micro_batches": 3,
        "lag": 0,
        "committed": True,
        "archived": 1000,
        "replayed": [half, half],
        "done_before": True,
        **files,
    }
    with BlockingConnection(server.broker) as broker:
        offsets = [broker.call(QueryConsumerOffset(group, topic, queue)).offset for queue in range(4)]
    assert sum(offsets) == 1000
