"""How far a broadcasting consumer has got: kept in a file of this machine, for every member has its own way.

The file is the one of Apache's Java client, `<folder>/<client id>/<group>/offsets.json`, with the version
before it beside it as `.bak`: a Java client of that id goes on where this one has ended, and the reverse.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from orbitmq.client.instance import ClientInstance
from orbitmq.client.offsets import OffsetTable
from orbitmq.protocol.bodies.offset import OffsetSerializeWrapper
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import Malformed

log = logging.getLogger(__name__)

FILE = "offsets.json"


class LocalOffsetTable(OffsetTable):
    """Offsets that no broker is told; `folder` is where the Java client has its `rocketmq_offsets`."""

    def __init__(self, instance: ClientInstance, group: str, folder: Path) -> None:
        super().__init__(instance, group)
        self.path = folder / instance.client_id / group / FILE
        self._writing = asyncio.Lock()
        self._written: dict[MessageQueue, int] = {}

    async def stored(self, queue: MessageQueue) -> int | None:
        """What the file has, None if nothing. Raises LookupError where it cannot be read."""
        try:
            table = await asyncio.to_thread(read_offsets, self.path)
        except OSError as error:
            raise LookupError(f"offsets cannot be read: {error}") from None
        return table.get(queue)

    async def commit(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Writes the offsets of these queues into the file, beside those of others that are there."""
        moved = {
            queue: offset
            for queue in queues
            if (offset := self.known(queue)) is not None and self._written.get(queue) != offset
        }
        if not moved:
            return
        async with self._writing:
            try:
                await asyncio.to_thread(_add, self.path, moved)
            except OSError as error:
                self._instance.report(f"offsets in {self.path}", error)
                return
        self._written.update(moved)
        self._instance.well(f"offsets in {self.path}")


def read_offsets(path: Path) -> dict[MessageQueue, int]:
    """The offsets of a file, of its `.bak` where it is missing or torn; none where there is neither.

    Raises OSError where there is a file that cannot be read.
    """
    for candidate in (path, path.with_name(FILE + ".bak")):
        try:
            return OffsetSerializeWrapper.from_json(candidate.read_bytes()).offset_table
        except FileNotFoundError:
            continue
        except Malformed as error:
            log.warning("%s cannot be used (%s)", candidate, error)
    return {}


def _add(path: Path, moved: dict[MessageQueue, int]) -> None:
    table = read_offsets(path) | moved
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(FILE + ".tmp")
    with beside.open("wb") as file:
        file.write(OffsetSerializeWrapper(table).to_pretty_json().encode())
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        os.replace(path, path.with_name(FILE + ".bak"))
    os.replace(beside, path)
