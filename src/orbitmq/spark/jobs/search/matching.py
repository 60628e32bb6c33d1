"""Conditions of a search as a Spark predicate: data frames in and out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orbitmq.spark import functions as sf
from orbitmq.spark.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from orbitmq.spark.lake.state import LakeFile


@dataclass(frozen=True, slots=True)
class Wanted:
    """Conditions on a message; all that are given have to hold."""

    key: str | None = None
    """One of its keys."""
    message_id: str | None = None
    """The id that its sender gave it, or the one that says where it is stored."""
    properties: tuple[tuple[str, str], ...] = ()
    text: str | None = None
    """Part of the body, byte for byte in UTF-8."""
    pattern: str | None = None
    """A regular expression (Java's) that is found in the body."""
    tag: str | None = None
    since_ms: int | None = None
    """Stored then or later."""
    until_ms: int | None = None
    """Stored before."""

    def check(self) -> None:
        """Raises BadOption where nothing is asked: that would be a copy of everything."""
        asked = (self.key, self.message_id, self.text, self.pattern, self.tag)
        if not self.properties and self.since_ms is None and all(one is None for one in asked):
            raise BadOption("nothing to look for: give a key, an id, a property, a text, a tag or a time")

    def predicate(self) -> Column:
        """The condition on a frame with the columns of the source."""
        conditions = []
        if self.message_id is not None:
            # Row groups can be left out by either: offset ids ascend, and both have statistics.
            conditions.append(
                (sf.col("msgId") == self.message_id) | (sf.col("offsetMsgId") == self.message_id.upper())
            )
        if self.key is not None:
            conditions.append(sf.array_contains(sf.split("keys", " "), self.key))
        if self.tag is not None:
            conditions.append(sf.col("tags") == self.tag)
        conditions += [sf.col("properties")[name] == value for name, value in self.properties]
        if self.text is not None:
            conditions.append(sf.contains(sf.col("body"), sf.lit(self.text.encode())))
        if self.pattern is not None:
            conditions.append(sf.col("body").cast("string").rlike(self.pattern))
        if self.since_ms is not None:
            conditions.append(sf.col("storeTimestamp") >= sf.timestamp_millis(sf.lit(self.since_ms)))
        if self.until_ms is not None:
            conditions.append(sf.col("storeTimestamp") < sf.timestamp_millis(sf.lit(self.until_ms)))
        whole = conditions[0]
        for condition in conditions[1:]:
            whole &= condition
        return whole

    def may_be_in(self, file: LakeFile) -> bool:
        """True if a file of a lake can hold such a message, by its times in the manifest."""
        if self.since_ms is not None and file.last_store_ms < self.since_ms:
            return False
        return self.until_ms is None or file.first_store_ms < self.until_ms


def matching(messages: DataFrame, wanted: Wanted, limit: int) -> DataFrame:
    """The first `limit` messages, by the time of storing, that are as wanted."""
    found = messages.where(wanted.predicate())
    return found.orderBy("storeTimestamp", "topic", "brokerName", "queueId", "queueOffset").limit(limit)


@dataclass(frozen=True, slots=True)
class Found:
    """One message, and where it was found."""

    place: str
    """`lake`, `index` (a broker's) or `topic` (read through)."""
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    store_ms: int
    born_ms: int
    keys: str | None
    tags: str | None
    message_id: str
    offset_message_id: str
    body: bytes = field(repr=False)
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> tuple[str, str, int, int]:
        return self.topic, self.broker_name, self.queue_id, self.queue_offset


def once(found: list[Found], limit: int) -> list[Found]:
    """The first of them by time; those found at two places once, at the first of them."""
    by_name = {one.name: one for one in reversed(found)}
    return sorted(by_name.values(), key=lambda one: (one.store_ms, one.name))[:limit]
