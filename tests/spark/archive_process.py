"""An archive in a process of its own, to be killed: `python -m tests.spark.archive_process ...`.

Its words are name server, topic, lake and Spark's master. Batches are small, and a merge follows every third,
so that little time passes between two points that matter.
"""

from __future__ import annotations

import sys

from orbitmq.spark.jobs.archive.running import ArchiveOptions, run
from orbitmq.spark.jobs.job import JobSetup, JobUi
from orbitmq.spark.lake.storage import LakeLocation


def main() -> None:
    namesrv, topic, lake, master = sys.argv[1:]
    options = ArchiveOptions(
        LakeLocation(lake),
        (topic,),
        setup=JobSetup(namesrv, master=master, memory="512m", conf=(("spark.executor.memory", "512m"),)),
        follow_s=0.05,
        batch_messages=400,
        file_messages=100,
        compact=True,
        compact_every=3,
        target_bytes=1 << 20,
        patience_s=600,
    )
    run(options, JobUi())


if __name__ == "__main__":
    main()
