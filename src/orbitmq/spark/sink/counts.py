"""Counts of a write, made in the tasks and added up on the driver."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql.datasource import WriterCommitMessage

from orbitmq.plurals import counted


@dataclass(slots=True)
class TopicCounts:
    """Counts of one topic."""

    messages: int = 0
    body_bytes: int = 0


@dataclass
class Counts(WriterCommitMessage):
    """Figures of one task, or of several together."""

    messages: int = 0
    """Stored now."""
    body_bytes: int = 0
    requests: int = 0
    """Requests that were answered with success: a batch each, or a message alone."""
    retries: int = 0
    """Requests that had to be sent again."""
    already_there: int = 0
    """Messages of an earlier run of the same batch, which were not sent again."""
    not_yet_safe: int = 0
    """Stored, but not flushed or copied within the broker's time (FLUSH_DISK_TIMEOUT and the like)."""
    topics: dict[str, TopicCounts] = field(default_factory=dict)

    def stored(self, topic: str, messages: int, body_bytes: int, *, safe: bool) -> None:
        self.requests += 1
        self.messages += messages
        self.body_bytes += body_bytes
        if not safe:
            self.not_yet_safe += messages
        of_topic = self.topics.get(topic)
        if of_topic is None:
            of_topic = self.topics[topic] = TopicCounts()
        of_topic.messages += messages
        of_topic.body_bytes += body_bytes

    def add(self, other: Counts) -> None:
        self.messages += other.messages
        self.body_bytes += other.body_bytes
        self.requests += other.requests
        self.retries += other.retries
        self.already_there += other.already_there
        self.not_yet_safe += other.not_yet_safe
        for topic, counts in other.topics.items():
            of_topic = self.topics.setdefault(topic, TopicCounts())
            of_topic.messages += counts.messages
            of_topic.body_bytes += counts.body_bytes

    def __str__(self) -> str:
        parts = [
            counted(self.messages, "message"),
            counted(self.body_bytes, "byte"),
            counted(self.requests, "request"),
        ]
        parts += [
            f"{number:,} {what}"
            for number, what in (
                (self.retries, "requests tried again"),
                (self.already_there, "already there"),
                (self.not_yet_safe, "not yet safe"),
            )
            if number
        ]
        topics = ", ".join(f"{name} {row.messages:,}" for name, row in sorted(self.topics.items())[:10])
        return ", ".join(parts) + (f" ({topics})" if topics else "")


def total(messages: Iterable[WriterCommitMessage | None]) -> Counts:
    """The sum over the tasks that have reported their counts."""
    summed = Counts()
    for message in messages:
        if isinstance(message, Counts):
            summed.add(message)
    return summed


def report(counts: Counts, *, batch_id: int | None, outcome: str, counts_file: str | None) -> None:
    """One line on the driver's standard error, and one of JSON in `counts_file`.

    `outcome` is `written` or `aborted`; of an aborted write only the tasks that ended well are counted.
    """
    batch = "" if batch_id is None else f" batch {batch_id}"
    print(f"orbitmq{batch} {outcome}: {counts}", file=sys.stderr, flush=True)
    if counts_file is not None:
        line = json.dumps({"batchId": batch_id, "outcome": outcome, **asdict(counts)})
        path = Path(counts_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
