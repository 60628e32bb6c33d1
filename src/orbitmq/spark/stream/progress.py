"""Progress of a stream per topic: lag and rate of its queues; and commits of it to the brokers.

Spark calls a Python source at the end of a micro-batch only when the next one begins. A user who wants the
last one of an available-now run at the brokers as well calls `commit_progress` when the query has ended, or
adds `ProgressListener` to the session.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from orbitmq.protocol.errors import OrbitError
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.positions import QueueOffsets, flat, is_queue, nested
from orbitmq.spark.stream.groups import GroupOffsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class QueueProgress:
    """One queue in one micro-batch."""

    topic: str
    queue: str
    """`broker|queueId`."""
    start: int | None
    """The first offset of the micro-batch; None in a query's very first one: Spark does not give it."""
    end: int
    """The first offset that is still to be read."""
    latest: int
    """The end of the queue, as it was when the micro-batch was planned."""
    offsets_per_second: float | None
    """Offsets of this queue by the time the micro-batch took; None without a start."""

    @property
    def lag(self) -> int:
        """Offsets that are still to be read."""
        return max(0, self.latest - self.end)


def queue_progress(progress: StreamingQueryProgress | Mapping[str, Any]) -> list[QueueProgress]:
    """Lag and rate of every queue, of each OrbitMQ source of a query.

    `progress` is `query.lastProgress`, an item of `query.recentProgress`, or `event.progress` of a listener.
    """
    plain = _plain(progress)
    seconds = plain.get("durationMs", {}).get("triggerExecution", 0) / 1000
    found = []
    for source in plain.get("sources", ()):
        end = _offsets(source.get("endOffset"))
        if end is None:
            continue
        begins = _offsets(source.get("startOffset"))
        start = None if begins is None else flat(begins)
        latest = flat(_offsets(source.get("latestOffset")) or {})
        for (topic, queue), offset in flat(end).items():
            # A queue that was not there at the start is read from its beginning.
            first = None if start is None else start.get((topic, queue), 0)
            highest = latest.get((topic, queue), offset)
            rate = None if first is None or not seconds else (offset - first) / seconds
            found.append(QueueProgress(topic, queue, first, offset, highest, rate))
    return found


def commit_progress(
    progress: StreamingQueryProgress | Mapping[str, Any] | None, options: Mapping[str, str]
) -> bool:
    """Writes what a micro-batch has finished to the brokers, under `groupId` of the source's `options`.

    Returns whether every offset could be written; without a progress there is nothing to write. Raises
    BadOption.
    """
    read = _committing(options)
    done = True
    for offsets in _finished(progress, read):
        writer = GroupOffsets(read)
        try:
            done = writer.write(offsets) and done
        finally:
            writer.close()
    return done


class ProgressListener(StreamingQueryListener):
    """Writes progress to the brokers after every micro-batch, the last one too.

        spark.streams.addListener(ProgressListener(options, query_name="archive"))

    `options` are the source's, with `groupId`; `query_name` is the query's, all queries without it. Raises
    BadOption.
    """

    def __init__(self, options: Mapping[str, str], query_name: str | None = None) -> None:
        self._options = _committing(options)
        self._query_name = query_name
        self._writer = GroupOffsets(self._options)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 -- Spark's name
        """Nothing is done yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A micro-batch is done."""
        if self._query_name is not None and event.progress.name != self._query_name:
            return
        for offsets in _finished(event.progress, self._options):
            try:
                self._writer.write(offsets)
            except (OrbitError, OSError) as error:  # Spark drops a listener's exceptions.
                log.warning("progress of group %s: %s", self._options.group, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing new is done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Closes connections."""
        self._writer.close()


def _committing(options: Mapping[str, str]) -> ReadOptions:
    read = ReadOptions.parse({key: str(value) for key, value in options.items()}, streaming=True)
    if not read.commits:
        raise BadOption("groupId is not set: there is no group to write progress under")
    return read


def _finished(
    progress: StreamingQueryProgress | Mapping[str, Any] | None, options: ReadOptions
) -> Iterator[QueueOffsets]:
    """The end offsets of those sources of a query that read the topics of `options`."""
    if progress is None:
        return
    for source in _plain(progress).get("sources", ()):
        end = _offsets(source.get("endOffset"))
        if end and all(options.selects(topic) for topic in end):
            yield nested(flat(end))


def _plain(progress: StreamingQueryProgress | Mapping[str, Any]) -> Mapping[str, Any]:
    return progress if isinstance(progress, Mapping) else json.loads(progress.json)


def _offsets(value: Any) -> QueueOffsets | None:
    """A source's offsets, where they are of an OrbitMQ source; Spark gives them as text or as parsed JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    for queues in value.values():
        if not isinstance(queues, dict):
            return None
        for key, offset in queues.items():
            if "|" not in key or not is_queue(key) or not isinstance(offset, int):
                return None
    return value
