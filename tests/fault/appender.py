"""A process that stores messages as fast as it can and tells of each as soon as it is acknowledged.

Arguments: folder, flush type, the first number, and perhaps a failpoint with a number: it dies where it gets
there for that time. Each line it prints is `number queue_offset physical_offset`; the first number of a batch
is in the table `config/appended.json` before it tells of the batch.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from orbitmq import failpoints
from orbitmq.store import MessageStore, StoreOptions
from orbitmq.store.config_files import write_text
from tests.kit.store import SEGMENT, message


def die_at(point: str, times: int) -> None:
    """Ends the process as kill -9 does, once it gets to a failpoint for that time."""
    left = times

    def reached() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.armed[point] = reached


def main(root: Path, flush: str, first: int) -> None:
    """Runs until it is killed."""
    now = time.time_ns() // 1_000_000
    store = MessageStore.open(
        StoreOptions(
            root=root,
            mapped_file_size_commit_log=SEGMENT * 16,
            mapped_file_size_consume_queue=20 * 500,
            max_hash_slot_num=500,
            max_index_num=20_000,
            flush_consume_queue_thorough_interval=200,
            flush_disk_type=flush,
        ),
        now,
    )

    def periodic_tasks() -> None:
        while True:
            for task in store.periodic_tasks():
                task.run(time.time_ns() // 1_000_000)
            time.sleep(0.003)

    threading.Thread(target=periodic_tasks, daemon=True).start()
    number = first
    while True:
        batch = [
            message(number + n, queue_id=(number + n) % 4, body=b"%d " % (number + n) * 30) for n in range(20)
        ]
        appended = store.append_many(batch, time.time_ns() // 1_000_000)
        if flush == "SYNC_FLUSH":
            store.flushing.flush_now()
        store.arrivals.drain()
        write_text(root / "config" / "appended.json", f'{{"number":{number}}}')
        lines = [f"{number + n} {one.queue_offset} {one.physical_offset}" for n, one in enumerate(appended)]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        number += 20


if __name__ == "__main__":
    if len(sys.argv) > 4:
        die_at(sys.argv[4], int(sys.argv[5]))
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
