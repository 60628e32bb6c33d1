"""The options of `spark.read.format("orbitmq")`, checked before anything is asked of a broker.

Names and meanings are those of Spark's Kafka source where it has the same thing. Spark hands them over as
text, in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orbitmq.protocol.names import TOOLS_GROUP
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.columns import columns_named
from orbitmq.spark.read.connecting import PLAIN, Connecting, connecting_of, namesrv_of
from orbitmq.spark.read.option_rows import (
    DEFAULT_MAX_BATCH_BYTES,
    DEFAULT_TRIGGER_DELAY_MS,
    OPTIONS,
    OptionRow,
)
from orbitmq.spark.read.positions import LAST, Position, ending, is_queue, parsed_json, starting
from orbitmq.spark.read.values import boolean, count, max_inflated_body, span_ms, unknown

_ONLY = {row.name: row.only for row in OPTIONS if row.only}
_SELECTIONS = ("subscribe", "topic", "subscribePattern", "assign")
_OF_OTHER_SYSTEMS = {"group": "groupId", "kafka.group.id": "groupId", "kafka.bootstrap.servers": "namesrv"}


@dataclass(slots=True, frozen=True)
class ReadOptions:
    """The options of one read, checked."""

    topics: tuple[str, ...]
    """Empty with a pattern."""
    pattern: str | None
    assigned: Mapping[str, tuple[str, ...]] | None
    """Topic -> `broker|queueId` or `queueId`; None: all queues."""
    namesrv: tuple[str, ...]
    starting: Position
    ending: Position
    latest_without_match: bool
    """Value of startingOffsetsByTimestampStrategy."""
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    tags: tuple[str, ...]
    """Empty: every message."""
    sql: str | None
    columns: tuple[str, ...]
    max_batch_bytes: int
    fail_on_data_loss: bool
    group: str
    max_inflated_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES
    fail_on_unreadable_body: bool = True
    connecting: Connecting = PLAIN

    @property
    def subscription(self) -> str:
        return self.sql or " || ".join(self.tags) or "*"

    @property
    def expression_type(self) -> str:
        return "TAG" if self.sql is None else "SQL92"

    @property
    def commits(self) -> bool:
        """True if a stream commits its progress to the brokers."""
        return self.group != TOOLS_GROUP

    def selects(self, topic: str) -> bool:
        return topic in self.topics if self.pattern is None else bool(re.fullmatch(self.pattern, topic))

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
        """Checks what a user has set for a batch read, or for a stream. Raises BadOption."""
        values = known(given)
        _refuse_those_of("batch" if streaming else "stream", values)
        topics, pattern, assigned = _selection(values)
        most, least = count(values, "maxOffsetsPerTrigger"), count(values, "minOffsetsPerTrigger")
        if most is not None and least is not None and least > most:
            raise BadOption(f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most})")
        if "maxTriggerDelay" in values and least is None:
            raise BadOption("maxTriggerDelay goes with minOffsetsPerTrigger: alone it means nothing")
        tags, sql = _filter(values)
        return cls(
            topics=topics,
            pattern=pattern,
            assigned=assigned,
            namesrv=namesrv_of(values),
            starting=starting(values, streaming=streaming),
            ending=LAST if streaming else ending(values),
            latest_without_match=_strategy(values),
            min_partitions=count(values, "minPartitions"),
            max_records_per_partition=count(values, "maxRecordsPerPartition"),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=span_ms(values, "maxTriggerDelay", default_ms=DEFAULT_TRIGGER_DELAY_MS),
            tags=tags,
            sql=sql,
            columns=columns_named(values.get("columns")),
            max_batch_bytes=count(values, "maxBatchBytes") or DEFAULT_MAX_BATCH_BYTES,
            max_inflated_body_bytes=max_inflated_body(values),
            fail_on_unreadable_body=boolean(values, "failOnUnreadableBody", default=True),
            fail_on_data_loss=boolean(values, "failOnDataLoss", default=True),
            group=values.get("groupId") or TOOLS_GROUP,
            connecting=connecting_of(values),
        )


def columns_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that options ask for, of a batch read or of a stream. Raises BadOption."""
    return columns_named(known(given).get("columns"))


def known(given: Mapping[str, str], rows: Iterable[OptionRow] = OPTIONS) -> dict[str, str]:
    """The options by their documented names. Raises BadOption with the nearest name for an unknown one."""
    names = {row.name.lower(): row.name for row in rows}
    values: dict[str, str] = {}
    for key, value in given.items():
        name = names.get(key.lower())
        if name is None:
            raise unknown(key, names.values(), meant=_OF_OTHER_SYSTEMS.get(key.lower(), ""))
        values[name] = value.strip()
    return values


def _refuse_those_of(other: str, values: Mapping[str, str]) -> None:
    for name in values:
        if _ONLY.get(name) == other:
            here = "a stream" if other == "batch" else "a batch read"
            raise BadOption(f"{name} means nothing to {here}: leave it out")


def _selection(
    values: Mapping[str, str],
) -> tuple[tuple[str, ...], str | None, dict[str, tuple[str, ...]] | None]:
    chosen = [name for name in _SELECTIONS if values.get(name)]
    if not chosen:
        raise BadOption('no topic given: .option("subscribe", "TOPIC")')
    if len(chosen) > 1:
        raise BadOption(f"{' and '.join(chosen)} exclude each other: set one of them")
    text = values[chosen[0]]
    if chosen[0] == "subscribePattern":
        return (), _pattern(text), None
    if chosen[0] == "assign":
        assigned = _assigned(text)
        return tuple(assigned), None, assigned
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise BadOption('no topic given: .option("subscribe", "TOPIC")')
    return _checked_topics(topics), None, None


def _checked_topics(topics: tuple[str, ...]) -> tuple[str, ...]:
    for topic in topics:
        if not re.fullmatch(r"[%|a-zA-Z0-9_-]+", topic):
            raise BadOption(f"{topic!r} is no topic name: letters, digits, %, |, - and _ are allowed")
    return topics


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise BadOption(f"subscribePattern {text!r} is no regular expression: {error}") from None
    return text


def _assigned(text: str) -> dict[str, tuple[str, ...]]:
    shape = 'assign is not JSON of the form {"topic":["broker|0","broker|1"]}'
    parsed = parsed_json(text, shape)
    if not isinstance(parsed, dict) or not parsed:
        raise BadOption(shape)
    assigned = {}
    for topic, queues in parsed.items():
        if not isinstance(queues, list) or not queues or any(isinstance(queue, bool) for queue in queues):
            raise BadOption(shape)
        if not all(isinstance(queue, int | str) and is_queue(str(queue)) for queue in queues):
            raise BadOption(shape)
        assigned[topic] = tuple(dict.fromkeys(map(str, queues)))
    _checked_topics(tuple(assigned))
    return assigned


def _filter(values: Mapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    tags = _tags(values.get("tags", "*"))
    sql = values.get("sql")
    if sql is None:
        return tags, None
    if not sql:
        raise BadOption("sql is empty: leave it out, or give an expression")
    if tags:
        raise BadOption(
            "tags and sql exclude each other: in SQL a tag is the property TAGS, as in TAGS = 'A'"
        )
    return (), sql


def _strategy(values: Mapping[str, str]) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = values.get(name, "error").lower()
    if text not in ("error", "latest"):
        raise BadOption(f"{name} is error or latest, not {text!r}")
    return text == "latest"


def _tags(text: str) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(part.strip() for part in text.split("||") if part.strip()))
    return () if tags == ("*",) else tags
