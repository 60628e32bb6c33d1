"""A job that samples, in a process that dies by kill -9 in the middle of writing a file.

Its words are the job, a name server, the folder, and how many files are whole when it dies: one per sample.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

from orbitmq.spark.jobs import availability, lag
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.sampling import SampleTable

EVERY_SECONDS = 0.02


def main() -> None:
    job, namesrv, folder, whole = sys.argv[1:]
    left = int(whole)

    def sync(descriptor: int) -> None:
        nonlocal left
        if not left:
            os.truncate(descriptor, 10)  # not all of it has come to the disk
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    os.fsync = sync
    where, setup = Path(folder), JobSetup(namesrv)
    a_file_each = partial(SampleTable, file_seconds=0)
    if job == "lag":
        lag.SampleTable = a_file_each  # type: ignore[assignment,misc]
        lag.run(lag.LagOptions(where, setup, every_s=EVERY_SECONDS, timeout_ms=60_000))
    else:
        availability.SampleTable = a_file_each  # type: ignore[assignment,misc]
        availability.run(
            availability.AvailabilityOptions(where, setup, every_s=EVERY_SECONDS, timeout_ms=60_000)
        )


if __name__ == "__main__":
    main()
