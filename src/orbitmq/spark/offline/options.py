"""The options of `spark.read.format("orbitmq").load("/store")`: one row each, checked before any file.

Names are those of the source that asks brokers where the meaning is the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orbitmq.protocol.names import DLQ_PREFIX, REPLY_TOPIC_SUFFIX, RETRY_PREFIX, is_system_topic
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.spark.errors import BadOption
from orbitmq.spark.offline.columns import BY_NAME, NAMES
from orbitmq.spark.read.columns import columns_named
from orbitmq.spark.read.option_rows import OptionRow
from orbitmq.spark.read.values import boolean, count, max_inflated_body, time_ms, unknown

DEFAULT_SPLIT_BYTES = 256 << 20
DEFAULT_BATCH_BYTES = 4 << 20

COLUMN, FAIL, ONLY = "column", "fail", "only"

OFFLINE_OPTIONS = (
    OptionRow(
        "path",
        "required",
        "the store's folder (storePathRootDir), or a folder of commit-log files; also a URL that fsspec "
        "knows, as s3://bucket/store. Several: load([...]), or a pattern as /backup/*/store",
    ),
    OptionRow(
        "commitLogPath",
        "commitlog in path",
        "where the commit log is elsewhere (storePathCommitLog); several folders, separated by commas",
    ),
    OptionRow("subscribe", "all but internal ones", "topics, separated by commas; internal ones too"),
    OptionRow("topic", "", "the same as subscribe"),
    OptionRow("subscribePattern", "", "a regular expression that the whole name of a topic matches"),
    OptionRow(
        "internalTopics",
        "false",
        "also topics of the system itself, %RETRY%, %DLQ% and reply topics, where subscribe names none",
    ),
    OptionRow("tags", "*", "only messages with one of these tags: A || B"),
    OptionRow("startingTimestamp", "", "only messages stored at or after this time, in ms since 1970"),
    OptionRow("endingTimestamp", "", "only messages stored before this time, in ms since 1970"),
    OptionRow("columns", "all", "the columns to read, separated by commas; others are never built"),
    OptionRow(
        "badRecords",
        COLUMN,
        "column: a row of its own with badRecord set, or, where that column is not read, an error; fail: an "
        "error; only: a table of the bad places alone",
    ),
    OptionRow(
        "splitBytes",
        str(DEFAULT_SPLIT_BYTES),
        "a task reads about so many bytes of the commit log; 0: files are never cut",
    ),
    OptionRow("minPartitions", "1", "at least so many Spark tasks, as far as there are records"),
    OptionRow("maxBatchBytes", str(DEFAULT_BATCH_BYTES), "size at which rows are handed to Spark"),
    OptionRow(
        "maxInflatedBodyBytes",
        str(DEFAULT_MAX_INFLATED_BYTES),
        "maximum size of a body that was compressed, once it is inflated; the record of a larger one is bad",
    ),
    OptionRow(
        "failOnDataLoss",
        "true",
        "fail when a planned file is gone (retention) before it is read; false: read what is left",
    ),
    OptionRow(
        "brokerName", "null", "what stands in brokerName; of several stores, in their order, with commas"
    ),
    OptionRow("storageOptions", "", 'JSON for fsspec: {"endpoint_url":"http://...","anon":true}'),
)

_CANONICAL = {row.name.lower(): row.name for row in OFFLINE_OPTIONS} | {"paths": "paths"}


@dataclass(slots=True, frozen=True)
class OfflineOptions:
    """The options of one read, checked."""

    paths: tuple[str, ...]
    commit_log_paths: tuple[str, ...] = ()
    topics: frozenset[str] = frozenset()
    """Empty: by `pattern`, or all."""
    pattern: str | None = None
    internal_topics: bool = False
    tags: frozenset[str] | None = None
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    columns: tuple[str, ...] = NAMES
    bad_records: str = COLUMN
    split_bytes: int = DEFAULT_SPLIT_BYTES
    """0: files are not cut."""
    min_partitions: int = 1
    max_batch_bytes: int = DEFAULT_BATCH_BYTES
    max_inflated_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES
    fail_on_data_loss: bool = True
    broker_names: tuple[str, ...] = ()
    storage_options: tuple[tuple[str, Any], ...] = ()

    def accepts(self, topic: str) -> bool:
        if self.bad_records == ONLY:
            return False
        if self.topics:
            return topic in self.topics
        if self.pattern is not None and not re.fullmatch(self.pattern, topic):
            return False
        return self.internal_topics or not is_internal(topic)

    @property
    def every_topic(self) -> bool:
        return self.bad_records != ONLY and not self.topics and self.pattern is None and self.internal_topics

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> OfflineOptions:
        """Checks what a user has set. Raises BadOption."""
        values = _known(given)
        paths = _paths(values)
        logs = _names(values.get("commitLogPath", ""))
        if logs and len(paths) > 1:
            raise BadOption("commitLogPath belongs to one store: read several one by one, and union them")
        bad_records = values.get("badRecords", COLUMN).lower()
        if bad_records not in (COLUMN, FAIL, ONLY):
            raise BadOption(f"badRecords is {COLUMN}, {FAIL} or {ONLY}, not {values['badRecords']!r}")
        options = cls(
            paths=paths,
            commit_log_paths=logs,
            topics=_topics(values),
            pattern=_pattern(values),
            internal_topics=boolean(values, "internalTopics", default=False),
            tags=_tags(values.get("tags", "*")),
            from_time_ms=time_ms(values, "startingTimestamp"),
            to_time_ms=time_ms(values, "endingTimestamp"),
            columns=columns_named(values.get("columns"), BY_NAME),
            bad_records=bad_records,
            split_bytes=0
            if values.get("splitBytes") == "0"
            else count(values, "splitBytes") or DEFAULT_SPLIT_BYTES,
            min_partitions=count(values, "minPartitions") or 1,
            max_batch_bytes=count(values, "maxBatchBytes") or DEFAULT_BATCH_BYTES,
            max_inflated_body_bytes=max_inflated_body(values),
            fail_on_data_loss=boolean(values, "failOnDataLoss", default=True),
            broker_names=_names(values.get("brokerName", "")),
            storage_options=_storage_options(values.get("storageOptions")),
        )
        if options.topics and options.pattern is not None:
            raise BadOption("subscribe and subscribePattern choose topics each: set one of them")
        return options


def is_internal(topic: str) -> bool:
    """True for a topic of the broker itself: system topics, retries, dead letters, replies."""
    return (
        is_system_topic(topic)
        or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        or (topic.endswith(f"_{REPLY_TOPIC_SUFFIX}"))
    )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in given.items():
        name = _CANONICAL.get(key.lower())
        if name is None:
            names = (row.name for row in OFFLINE_OPTIONS)
            raise unknown(key, names, where=" for a store that is read from its files")
        values[name] = value.strip()
    return values


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    paths = (values["path"],) if values.get("path") else ()
    if "paths" in values:  # Spark's own name for load([...])
        paths += tuple(json.loads(values["paths"]))
    if not paths:
        raise BadOption('no store given: .load("/var/lib/orbitmq")')
    return paths


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _topics(values: Mapping[str, str]) -> frozenset[str]:
    if "subscribe" in values and "topic" in values:
        raise BadOption("subscribe and topic are the same option: set one of them")
    text = values.get("subscribe", values.get("topic"))
    topics = frozenset(_names(text or ""))
    if text is not None and not topics:
        raise BadOption("subscribe names no topic")
    for topic in topics:
        if not re.fullmatch(r"[%|a-zA-Z0-9_-]+", topic):
            raise BadOption(f"{topic!r} is no topic name: letters, digits, %, |, - and _ are allowed")
    return topics


def _pattern(values: Mapping[str, str]) -> str | None:
    pattern = values.get("subscribePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadOption(f"subscribePattern {pattern!r} is no regular expression: {error}") from None
    return pattern


def _tags(text: str) -> frozenset[str] | None:
    tags = frozenset(part.strip() for part in text.split("||") if part.strip())
    return None if not tags or tags == {"*"} else tags


def _storage_options(text: str | None) -> tuple[tuple[str, Any], ...]:
    if not text:
        return ()
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise BadOption('storageOptions is JSON of the form {"endpoint_url":"http://..."}')
    return tuple(parsed.items())
