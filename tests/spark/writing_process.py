"""Several commands of `orbitmq job` at once in a process of its own, on one session of Spark, to be killed.

`python -m tests.spark.writing_process FOLDER '[["job", "replay", ...], ...]'`: the second command begins when
the folder has a file `1`, the third one when it has `2`, and so on.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orbitmq.cli.app import run
from orbitmq.spark.jobs import interrupting, job
from orbitmq.spark.session.sessions import local_session


@contextlib.contextmanager
def no_handling(*_: object) -> Iterator[None]:
    """Threads beside the main one take no signals, and nobody sends one that could be handled."""
    yield


def main() -> None:
    folder, commands = Path(sys.argv[1]), json.loads(sys.argv[2])
    vars(interrupting)["handling"] = vars(job)["handling"] = no_handling
    # A task that sends slowly holds its core.
    spark: Any = local_session(cores=len(commands), memory="512m", conf={"spark.sql.shuffle.partitions": "2"})
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession

    def command(words: list[str]) -> None:
        sessions.setActiveSession(spark._jsparkSession)
        print(f"{words}: {run(words)}", flush=True)

    threads = []
    for number, words in enumerate(commands):
        while number and not (folder / str(number)).exists():
            time.sleep(0.05)
        threads.append(threading.Thread(target=command, args=(words,)))
        threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
