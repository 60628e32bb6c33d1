"""A task of the archive needs the same memory for a long queue as for a short one.

The task runs in a process of its own, whose private memory is limited by the system: what needs more dies.
`ORBITMQ_ARCHIVE_MEMORY_MB=3000` sends a topic of that size through the same limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.send import SendMessage
from orbitmq.testing import LocalBroker
from tests.peers.machine import REPOSITORY
from tests.spark.conftest import create_topic

pytest.importorskip("pyarrow")

TOPIC_MB = int(os.environ.get("ORBITMQ_ARCHIVE_MEMORY_MB", "0")) or 256
LIMIT_MB = 128
"""What the task may take beyond what a process needs that has only imported its modules."""
BODY = 128 << 10

pytestmark = pytest.mark.timeout(0 if TOPIC_MB > 256 else 600)

TASK = """
import json, os, resource, sys
from orbitmq.spark.jobs.archive.tasks import PieceTask
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.lake.writing import IN_PATH, ParquetForm
from orbitmq.spark.columns import NAMES
from orbitmq.spark.planning import OffsetRange, Queue
import orbitmq.spark.reading
import pyarrow as pa

namesrv, broker, lake, high, limit_mb = sys.argv[1:]
pa.set_cpu_count(1)

def private_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:")) >> 10

columns = tuple(name for name in NAMES if name not in IN_PATH)
form = ParquetForm(row_group_bytes=8 << 20)
task = PieceTask(LakeLocation(lake), "_staged/r", columns, {"namesrv": namesrv}, form)
queue = Queue("long", "broker-a", 0, broker)
before = private_mb()
data = resource.getrlimit(resource.RLIMIT_DATA)[1]
taken = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData:"))) << 10
resource.setrlimit(resource.RLIMIT_DATA, (taken + (int(limit_mb) << 20), data))
task(OffsetRange(queue, 0, 8))
first = private_mb()
written = task(OffsetRange(queue, 0, int(high)))
print(json.dumps({"before": before, "first": first, "after": private_mb(), "rows": written.ranges[0].rows,
                  "bytes": sum(file.size_bytes for file in written.files)}))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="its limits are Linux's")
def test_a_long_queue_goes_through_little_memory(tmp_path: Path) -> None:
    count = TOPIC_MB * (1 << 20) // BODY
    with LocalBroker(own_process=True, patience_seconds=300, mappedFileSizeCommitLog=str(64 << 20)) as broker:
        create_topic(broker, "long", queues=1)
        with BlockingConnection(broker.broker) as connection:
            for _ in range(count):
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
        arguments = [broker.namesrv, broker.broker, str(tmp_path), str(count), str(LIMIT_MB)]
        # Arrow's own allocator reserves addresses ahead, which the limit would count.
        done = subprocess.run(
            [sys.executable, "-c", TASK, *arguments],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"},
        )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    print(f"{TOPIC_MB} MB, at most {LIMIT_MB} MB of memory more: {told}")
    assert told["rows"] == count
    assert told["bytes"] > TOPIC_MB << 20
