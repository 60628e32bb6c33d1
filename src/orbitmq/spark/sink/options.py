"""The options of `df.write.format("orbitmq")`: one row each, checked before anything is asked of a broker.

Spark hands them over as text, in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.client.core.names import check_group, check_topic_to_send
from orbitmq.protocol.names import IllegalName
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.connecting import PLAIN, Connecting, connecting_of, namesrv_of
from orbitmq.spark.read.option_rows import OptionRow
from orbitmq.spark.read.values import boolean, count, unknown

DEFAULT_GROUP = "orbitmq_spark_sink"


OPTIONS = (
    OptionRow("topic", "the column topic", "topic of all messages; wins over the column, as all of these do"),
    OptionRow("tags", "the column tags", "tag of all messages"),
    OptionRow("keys", "the column keys", "keys of all messages, separated by blanks"),
    OptionRow("shardingKey", "the column shardingKey", "sharding key of all messages: they go to one queue"),
    OptionRow("delayLevel", "the column delayLevel", "1 to 18: deliver after 1s 5s 10s 30s 1m … 2h"),
    OptionRow("delayMs", "the column delayMs", "deliver so many milliseconds after the broker has it"),
    OptionRow("deliverAt", "the column deliverAt", "deliver at this time, ms since 1970"),
    OptionRow("namesrv", "NAMESRV_ADDR, else 127.0.0.1:9876", "name servers: host:port;host:port"),
    OptionRow("group", DEFAULT_GROUP, "producer group to send as"),
    OptionRow("batchSize", "128", "at most so many messages in one request"),
    OptionRow(
        "batchBytes",
        "262144",
        "at most so many bytes in one request, unless one message is longer; no more than maxMessageBytes",
    ),
    OptionRow(
        "maxMessageBytes", "4194304", "a longer message is an error; brokers have a limit of their own"
    ),
    OptionRow(
        "timeoutMs", "30000", "how long one request is tried, on other brokers too, before the task fails"
    ),
    OptionRow(
        "maxMessagesPerSecondPerTask",
        "no limit",
        "messages that a task sends in a second at most, evenly: a request holds a tenth of them",
    ),
    OptionRow("idempotent", "false", "a batch that Spark runs again sends nothing twice"),
    OptionRow(
        "writeId",
        "the query's id; of a batch write one made anew",
        "with idempotent: what a write that is begun again is known by",
    ),
    OptionRow(
        "firstRun", "false", "with onceKey: nothing of this write was ever sent, so rows are not looked up"
    ),
    OptionRow(
        "countsFile", "none", "file of the driver to which each write appends its counts, a line of JSON"
    ),
    OptionRow("accessKey", "", "the user that requests are signed as, with secretKey"),
    OptionRow("secretKey", "", "the user's secret; Spark hides it where it shows options"),
    OptionRow("securityToken", "", "what goes with keys that are valid for a time only"),
    OptionRow("tls", "false", "encrypt connections, and check certificates and names"),
    OptionRow("tlsCa", "the system's", "with TLS: trust the certificates in this PEM file of every worker"),
)

_CANONICAL = {row.name.lower(): row.name for row in OPTIONS}
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options of Spark itself that it hands on to sinks."""

DELAY_OPTIONS = ("delayLevel", "delayMs", "deliverAt")


@dataclass(slots=True, frozen=True)
class WriteOptions:
    """The options of one write, checked."""

    topic: str | None
    tags: str | None
    keys: str | None
    sharding_key: str | None
    delay_level: int | None
    delay_ms: int | None
    deliver_at_ms: int | None
    namesrv: tuple[str, ...]
    group: str
    batch_size: int
    batch_bytes: int
    max_message_bytes: int
    timeout_ms: int
    messages_per_second: float | None
    """Of one task; None: no limit."""
    idempotent: bool
    write_id: str | None
    first_run: bool
    counts_file: str | None
    connecting: Connecting = PLAIN

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> WriteOptions:
        """Checks what a user has set. Raises BadOption."""
        values = _known(given)
        delays = [name for name in DELAY_OPTIONS if name in values]
        if len(delays) > 1:
            raise BadOption(f"{' and '.join(delays)} say the same in different ways: set one of them")
        if "firstRun" in values and not boolean(values, "idempotent", default=False):
            raise BadOption("firstRun is of use with idempotent=true only")
        if "writeId" in values and not boolean(values, "idempotent", default=False):
            raise BadOption("writeId is of use with idempotent=true only")
        most_bytes = count(values, "maxMessageBytes") or 4 << 20
        return cls(
            topic=_topic(values.get("topic")),
            tags=_text(values, "tags"),
            keys=_text(values, "keys"),
            sharding_key=_text(values, "shardingKey"),
            delay_level=count(values, "delayLevel"),
            delay_ms=count(values, "delayMs"),
            deliver_at_ms=count(values, "deliverAt"),
            namesrv=namesrv_of(values),
            group=_group(values.get("group", DEFAULT_GROUP)),
            batch_size=count(values, "batchSize") or 128,
            batch_bytes=min(count(values, "batchBytes") or 256 << 10, most_bytes),
            max_message_bytes=most_bytes,
            timeout_ms=count(values, "timeoutMs") or 30_000,
            messages_per_second=_rate(values),
            idempotent=boolean(values, "idempotent", default=False),
            write_id=_text(values, "writeId"),
            first_run=boolean(values, "firstRun", default=False),
            counts_file=_text(values, "countsFile"),
            connecting=connecting_of(values),
        )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in given.items():
        name = _CANONICAL.get(key.lower())
        if name is not None:
            values[name] = value.strip()
        elif key.lower() == "path":
            raise BadOption('a topic is no path: use .option("topic", "TOPIC"), and save() without a name')
        elif key.lower() not in _SPARKS_OWN:
            raise unknown(key, _CANONICAL.values())
    return values


def _topic(topic: str | None) -> str | None:
    if topic is None:
        return None
    try:
        check_topic_to_send(topic)
    except IllegalName as error:
        raise BadOption(f"topic: {error}") from None
    return topic


def _group(group: str) -> str:
    try:
        check_group(group)
    except IllegalName as error:
        raise BadOption(f"group: {error}") from None
    return group


def _text(values: Mapping[str, str], name: str) -> str | None:
    text = values.get(name)
    if text == "":
        raise BadOption(f"{name} is empty: leave it out, or give it a value")
    return text


def _rate(values: Mapping[str, str]) -> float | None:
    text = values.get("maxMessagesPerSecondPerTask")
    if text is None:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e9:
        raise BadOption(f"maxMessagesPerSecondPerTask has to be a number above 0, not {text!r}")
    return rate
