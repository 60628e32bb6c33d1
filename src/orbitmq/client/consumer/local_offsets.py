"""Progress of a broadcasting consumer: kept in a file of this machine, for every member has its own way.

The file is the one of Apache's Java client, `<folder>/<client id>/<group>/offsets.json`, with the version
before it beside it as `.bak`: a Java client of that id continues where this one has ended, and the reverse.
It is written in the steps of a broker's tables, but with what every system has: these go through a disk that
knows Linux, and that tests put one of their own in the place of.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from orbitmq.client.consumer.offsets import OffsetTable
from orbitmq.client.core.instance import ClientInstance
from orbitmq.protocol.bodies.offset import OffsetSerializeWrapper
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.schema.json_body import require_member

log = logging.getLogger(__name__)

FILE = "offsets.json"


class OffsetsUnreadable(Exception):
    """There are offsets, and they cannot be read: one line that says what to do."""


class LocalOffsetTable(OffsetTable):
    """Offsets that are committed to no broker; `folder` is where the Java client has its
    `rocketmq_offsets`.
    """

    def __init__(self, instance: ClientInstance, group: str, folder: Path) -> None:
        super().__init__(instance, group)
        self.path = folder / instance.client_id / group / FILE
        self._writing = asyncio.Lock()
        self._written: dict[MessageQueue, int] = {}

    async def stored(self, queue: MessageQueue) -> int | None:
        """Offset in the file, None if there is none. Raises LookupError where it cannot be read."""
        try:
            table = await asyncio.to_thread(read_offsets, self.path)
        except OffsetsUnreadable as error:
            raise LookupError(str(error)) from None
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
            except (OSError, OffsetsUnreadable) as error:
                self._instance.report(f"offsets in {self.path}", error)
                return
        self._written.update(moved)
        self._instance.recovered(f"offsets in {self.path}")


def read_offsets(path: Path) -> dict[MessageQueue, int]:
    """The offsets of a file, of its `.bak` where it is missing or torn; none where there is neither.

    Raises OffsetsUnreadable where there are files and none can be used: to begin elsewhere would pass over
    messages without notice.
    """
    return _find(path)[0]


def _find(path: Path) -> tuple[dict[MessageQueue, int], Path | None]:
    """The offsets, and the file they are from; none of either where there is no file."""
    reasons: list[str] = []
    backup = path.with_name(FILE + ".bak")
    for candidate in (path, backup):
        try:
            if candidate.exists() and not (candidate.is_file() or candidate.is_dir()):
                # Not even opened: to open a pipe may take for ever.
                raise OSError(errno.EINVAL, "Not a regular file")
            offsets = _offsets_in(candidate.read_bytes())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise OffsetsUnreadable(
                f"{candidate} cannot be read: {error.strerror}; make it a file this user may read"
            ) from None
        except Malformed as error:
            reasons.append(str(error))
            log.warning("%s cannot be used: %s", candidate, error)
            continue
        if candidate == backup:
            log.warning("%s is missing or torn: took %s", path, backup)
        return offsets, candidate
    if reasons:
        raise OffsetsUnreadable(f"{path} and its .bak cannot be read: {reasons[0]}; restore one of them")
    return {}, None


def _offsets_in(data: bytes) -> dict[MessageQueue, int]:
    require_member(data.decode("utf-8", "replace"), "offsetTable")
    return OffsetSerializeWrapper.from_json(data).offset_table


def _add(path: Path, moved: dict[MessageQueue, int]) -> None:
    found, source = _find(path)
    table = found | moved
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(FILE + ".tmp")
    with beside.open("wb") as file:
        file.write(OffsetSerializeWrapper(table).to_pretty_json().encode())
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        # A file that cannot be used never becomes the backup: until the next step that is all there is.
        os.replace(path, path.with_name(FILE + (".bak" if source == path else ".torn")))
    os.replace(beside, path)
