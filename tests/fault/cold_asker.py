"""`python -m tests.fault.cold_asker ADDRESS FOLDER MESSAGES`: asks a broker everything, until it is ended.

One request of every code a round, then reads at random places of the store; before each round what the kernel
keeps of the store's files in memory is dropped, as far as nobody has it mapped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.offset import SearchOffsetByTimestamp
from orbitmq.protocol.requests.pop import PeekMessage, PopMessage
from orbitmq.protocol.requests.pull import PullMessage, QueryMessage
from orbitmq.protocol.schema.declare import Request
from tests.kit.store import NOW
from tests.unit.server.turn.test_cold_requests import QUEUES, plain, served

READS_PER_ROUND = 20
AT_ONCE = 4
TIMEOUT_MS = 500
"""Some requests of no sense are never answered."""


def forget(folder: Path) -> None:
    """Drops the files of a folder from memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def reads(messages: int, chance: Random) -> Iterator[Request[Any]]:
    """Requests that read the store somewhere."""
    for number in range(READS_PER_ROUND):
        queue_id, offset = chance.randrange(QUEUES), chance.randrange(messages // QUEUES)
        yield PullMessage("G", "T", queue_id, offset, 32, 4, 0, 0, 0, "*", expression_type="TAG")
        yield SearchOffsetByTimestamp("T", queue_id, NOW + offset)
        yield QueryMessage("T", f"k{offset % 1000}", 32, 0, 1 << 60)
        yield PopMessage(f"G{number}", "T", -1, 32, 60_000, 0, 0, 0, exp_type="TAG", exp="*")
        yield PeekMessage("T", -1, 32, f"G{chance.random()}")


async def ask(pool: ConnectionPool, address: str, request: Request[Any]) -> None:
    with contextlib.suppress(OrbitError):
        await pool.call(address, request, TIMEOUT_MS)


async def main() -> None:
    address, folder, messages = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    pool, chance, asked = ConnectionPool(), Random(1), 0
    every = [plain(kind) for kind in served() if "CREATE_TOPIC" not in kind.NAME]
    while True:
        forget(folder)
        wanted = iter((*every, *reads(messages, chance)))
        while together := list(islice(wanted, AT_ONCE)):
            await asyncio.gather(*(ask(pool, address, request) for request in together))
            asked += len(together)
            if asked >= len(every):
                print(asked, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
