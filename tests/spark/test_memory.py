"""The code that reads and writes topics in a worker needs the same memory for a long topic as for a short
one.

Each task runs in a process of its own, without Spark, whose private memory is limited by the system: what
needs 128 MB more than its modules do dies. CI sends 256 MB through it; `ORBITMQ_MEMORY_MB=1500` sends a topic
of that size. From 5120 on the topic also goes through an executor of Spark on a cluster, of a tenth of that
memory: as a batch, as a stream, from the store's files, and by the archive into a lake.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.send import SendMessage
from orbitmq.testing import LocalBroker
from tests.kit.brokers import others_at_night
from tests.peers.machine import REPOSITORY
from tests.spark.conftest import create_topic
from tests.spark.standalone import SparkCluster

pytest.importorskip("pyarrow")

TOPIC_MB = int(os.environ.get("ORBITMQ_MEMORY_MB", "0")) or 256
LIMIT_MB = 128
"""Memory that the task may take beyond that of a process that has only imported its modules."""
EXECUTOR_MB = 512
BODY = 128 << 10

pytestmark = pytest.mark.timeout(0 if TOPIC_MB > 256 else 600)

TASK = """
import json, resource, sys
import pyarrow as pa
from orbitmq.spark.read.columns import NAMES
from orbitmq.spark.jobs.archive.tasks import PieceTask
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.lake.writing import IN_PATH, ParquetForm
from orbitmq.spark.offline.options import OfflineOptions
from orbitmq.spark.offline.planning import plan
from orbitmq.spark.offline.reader import read_work
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue
from orbitmq.spark.read.reading import read_range

what, namesrv, broker, store, lake, high, limit_mb = sys.argv[1:]
pa.set_cpu_count(1)
queue = Queue("long", "broker-a", 0, broker)

def archive(count):
    columns = tuple(name for name in NAMES if name not in IN_PATH)
    form = ParquetForm(row_group_bytes=8 << 20)
    task = PieceTask(LakeLocation(lake), "_staged/r", columns, {"namesrv": namesrv}, form)
    return task(OffsetRange(queue, 0, count)).ranges[0].rows

def source(count):
    options = ReadOptions.parse({"namesrv": namesrv, "subscribe": "long"})
    return sum(batch.num_rows for batch in read_range(OffsetRange(queue, 0, count), options, NAMES))

def files(count):
    # One task for twice the bytes of so many messages: of all messages the whole log.
    options = OfflineOptions.parse({"path": store, "subscribe": "long", "splitBytes": str(count << 18)})
    work = plan(options)[0]
    return sum(batch.num_rows for batch in read_work(work, options, NAMES))

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

act = {"archive": archive, "source": source, "files": files}[what]
before = status("RssAnon") >> 10
data = resource.getrlimit(resource.RLIMIT_DATA)[1]
resource.setrlimit(resource.RLIMIT_DATA, ((status("VmData") << 10) + (int(limit_mb) << 20), data))
act(8)
first = status("RssAnon") >> 10
rows = act(int(high))
print(json.dumps({"before": before, "first": first, "after": status("RssAnon") >> 10, "rows": rows}))
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """With the topic `long`, of one queue and so many MB."""
    with LocalBroker(own_process=True, timeout_seconds=300, mappedFileSizeCommitLog=str(64 << 20)) as broker:
        create_topic(broker, "long", queues=1)
        with BlockingConnection(broker.broker) as connection:
            for _ in range(messages()):
                connection.call(
                    SendMessage(
                        producer_group="memory",
                        topic="long",
                        default_topic="TBW102",
                        default_topic_queue_nums=1,
                        queue_id=0,
                        sys_flag=0,
                        born_timestamp=int(time.time() * 1000),
                        flag=0,
                        properties="",
                        body=os.urandom(BODY),
                    )
                )
        yield broker


def messages() -> int:
    return TOPIC_MB * (1 << 20) // BODY


@pytest.mark.needs("linux")
@pytest.mark.parametrize("what", others_at_night(["source", "files", "archive"], ["source"]))
def test_a_long_topic_goes_through_little_memory(broker: LocalBroker, what: str, tmp_path: Path) -> None:
    """`source` is what batches and streams read with."""
    places = [broker.namesrv, broker.broker, str(broker.data_dir), str(tmp_path)]
    # Arrow's own allocator reserves addresses ahead, which the limit would count.
    done = subprocess.run(
        [sys.executable, "-c", TASK, what, *places, str(messages()), str(LIMIT_MB)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    print(f"{what}: {TOPIC_MB} MB, at most {LIMIT_MB} MB of memory more: {told}")
    assert told["rows"] == messages()
    if what == "archive":
        written = sum(file.stat().st_size for file in tmp_path.rglob("*.parquet"))
        assert written > TOPIC_MB << 20


@pytest.mark.skipif(
    TOPIC_MB < 10 * EXECUTOR_MB, reason="ORBITMQ_MEMORY_MB asks for a topic of 5 GB, which takes minutes"
)
def test_a_topic_of_ten_times_its_memory_goes_through_an_executor(
    spark_cluster: SparkCluster, broker: LocalBroker, tmp_path: Path
) -> None:
    told = spark_cluster.run(
        "driver_memory.py",
        namesrv=broker.namesrv,
        store=str(broker.data_dir),
        folder=str(tmp_path),
        memory=f"{EXECUTOR_MB}m",
    )
    print(f"{TOPIC_MB} MB, executors of {EXECUTOR_MB} MB: {told}")
    assert told["executors"] == 1
    expected = [messages(), messages() * BODY]
    assert told["seen"] == {"batch": expected, "stream": expected, "files": expected, "lake": expected}
