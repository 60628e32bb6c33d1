"""The options of `spark.read.format("orbitmq")`: one row each, checked before anything is asked of a broker.

Names and meanings are those of Spark's Kafka source where it has the same thing. Spark hands them over as
text, in any case.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.access import credentials_of
from orbitmq.net.address import default_namesrv, parse_addresses
from orbitmq.net.errors import BadAddress
from orbitmq.spark.columns import BY_NAME, NAMES
from orbitmq.spark.connecting import PLAIN, Connecting
from orbitmq.spark.errors import BadOption

EARLIEST = -2
"""Stands for a queue's first offset, in JSON as well."""
LATEST = -1
"""Stands for the offset after a queue's last message, in JSON as well."""

DEFAULT_GROUP = "TOOLS_CONSUMER"
"""A group that every broker knows without being told: nothing is committed under it."""
DEFAULT_MAX_BATCH_BYTES = 4 << 20

QueueOffsets = dict[str, dict[str, int]]
"""Topic -> `broker|queueId` -> queue offset; the JSON of the offset options."""


@dataclass(slots=True, frozen=True)
class OptionRow:
    """One option as documented."""

    name: str
    default: str
    about: str


OPTIONS = (
    OptionRow("subscribe", "", "topics, separated by commas"),
    OptionRow("topic", "", "the same as subscribe"),
    OptionRow("namesrv", "NAMESRV_ADDR, else 127.0.0.1:9876", "name servers: host:port;host:port"),
    OptionRow("startingOffsets", "earliest", 'earliest, or JSON {"topic":{"broker|queueId":offset}}'),
    OptionRow("endingOffsets", "latest", "latest, or JSON as above; the end itself is not read"),
    OptionRow("minPartitions", "one per queue", "at least so many Spark tasks: queues are split by offsets"),
    OptionRow("maxRecordsPerPartition", "no limit", "at most so many offsets per Spark task"),
    OptionRow("tags", "*", "only messages with one of these tags: A || B"),
    OptionRow("columns", "all", "the columns to read, separated by commas; others are never built"),
    OptionRow("maxBatchBytes", "4194304", "size at which rows are handed to Spark"),
    OptionRow("failOnDataLoss", "true", "fail when planned messages are gone; false: read what is left"),
    OptionRow("group", DEFAULT_GROUP, "consumer group to read as; offsets are not committed"),
    OptionRow("accessKey", "", "the user that requests are signed as, with secretKey"),
    OptionRow("secretKey", "", "the user's secret; Spark hides it where it shows options"),
    OptionRow("securityToken", "", "what goes with keys that are valid for a time only"),
    OptionRow("tls", "false", "encrypt connections, and check certificates and names"),
    OptionRow("tlsCa", "the system's", "with TLS: trust the certificates in this PEM file of every worker"),
)

_CANONICAL = {row.name.lower(): row.name for row in OPTIONS}


@dataclass(slots=True, frozen=True)
class ReadOptions:
    """The options of one read, checked."""

    topics: tuple[str, ...]
    namesrv: tuple[str, ...]
    starting: QueueOffsets | None
    """None: from the earliest message of every queue."""
    ending: QueueOffsets | None
    """None: to what is the latest when the job is planned."""
    min_partitions: int | None
    max_records_per_partition: int | None
    tags: tuple[str, ...]
    """Empty: every message."""
    columns: tuple[str, ...]
    max_batch_bytes: int
    fail_on_data_loss: bool
    group: str
    connecting: Connecting = PLAIN

    @property
    def subscription(self) -> str:
        """The tag expression for the broker."""
        return " || ".join(self.tags) or "*"

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """Checks what a user has set. Raises BadOption."""
        values = _known(given)
        return cls(
            topics=_topics(values),
            namesrv=_namesrv(values),
            starting=_offsets(values, "startingOffsets", word="earliest"),
            ending=_offsets(values, "endingOffsets", word="latest"),
            min_partitions=_count(values, "minPartitions"),
            max_records_per_partition=_count(values, "maxRecordsPerPartition"),
            tags=_tags(values.get("tags", "*")),
            columns=_columns(values.get("columns")),
            max_batch_bytes=_count(values, "maxBatchBytes") or DEFAULT_MAX_BATCH_BYTES,
            fail_on_data_loss=_boolean(values, "failOnDataLoss", default=True),
            group=values.get("group", DEFAULT_GROUP),
            connecting=_connecting(values),
        )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in given.items():
        name = _CANONICAL.get(key.lower())
        if name is None:
            if key.lower() == "path":
                raise BadOption('a topic is no path: use .option("subscribe", "TOPIC").load()')
            near = difflib.get_close_matches(key.lower(), _CANONICAL, n=1)
            hint = f"; did you mean {_CANONICAL[near[0]]}?" if near else ""
            raise BadOption(f"unknown option {key}{hint} Options: {', '.join(row.name for row in OPTIONS)}")
        values[name] = value.strip()
    return values


def _topics(values: Mapping[str, str]) -> tuple[str, ...]:
    if "subscribe" in values and "topic" in values:
        raise BadOption("subscribe and topic are the same option: set one of them")
    text = values.get("subscribe", values.get("topic", ""))
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise BadOption('no topic given: .option("subscribe", "TOPIC")')
    for topic in topics:
        if not re.fullmatch(r"[%|a-zA-Z0-9_-]+", topic):
            raise BadOption(f"{topic!r} is no topic name: letters, digits, %, |, - and _ are allowed")
    return topics


def _namesrv(values: Mapping[str, str]) -> tuple[str, ...]:
    text = values.get("namesrv") or default_namesrv()
    try:
        return tuple(parse_addresses(text))
    except BadAddress as error:
        raise BadOption(f"namesrv: {error}") from None


def _connecting(values: Mapping[str, str]) -> Connecting:
    try:
        credentials = credentials_of(
            values.get("accessKey"), values.get("secretKey"), values.get("securityToken")
        )
    except ValueError:
        raise BadOption("accessKey and secretKey go together: set both, or neither") from None
    return Connecting(credentials, _boolean(values, "tls", default=False), values.get("tlsCa") or None)


def _offsets(values: Mapping[str, str], name: str, *, word: str) -> QueueOffsets | None:
    text = values.get(name, word)
    if text.lower() == word:
        return None
    if text.lower() in ("earliest", "latest"):
        raise BadOption(f"{name} of a batch read may not be {text}: {word}, or JSON")
    shape = f'{name} is neither {word} nor JSON of the form {{"topic":{{"broker|0":123}}}}'
    try:
        parsed = json.loads(text)
    except ValueError:
        raise BadOption(shape) from None
    allowed = (EARLIEST, LATEST) if word == "earliest" else (LATEST,)
    if not isinstance(parsed, dict):
        raise BadOption(shape)
    for queues in parsed.values():
        if not isinstance(queues, dict):
            raise BadOption(shape)
        for queue, offset in queues.items():
            if "|" not in queue or not isinstance(offset, int) or isinstance(offset, bool):
                raise BadOption(shape)
            if offset < 0 and offset not in allowed:
                raise BadOption(f"{name}: {offset} of {queue} is no offset")
    return parsed


def _tags(text: str) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(part.strip() for part in text.split("||") if part.strip()))
    return () if tags == ("*",) else tags


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return NAMES
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise BadOption("columns names no column")
    check_columns(names)
    return names


def check_columns(names: tuple[str, ...]) -> None:
    """Raises BadOption for a name that is no column, or that comes twice."""
    for name in names:
        if name not in BY_NAME:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadOption(f"{name} is no column{hint} Columns: {', '.join(NAMES)}")
    if len(set(names)) < len(names):
        raise BadOption(f"a column is named twice: {', '.join(names)}")


def _count(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise BadOption(f"{name} has to be a whole number above 0, not {text!r}")
    return int(text)


def _boolean(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = values.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise BadOption(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"
