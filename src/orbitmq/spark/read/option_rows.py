"""The options of reading a topic, as they are documented: a row each."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.protocol.names import TOOLS_GROUP
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES

DEFAULT_MAX_BATCH_BYTES = 4 << 20
DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000


@dataclass(slots=True, frozen=True)
class OptionRow:
    """One option as documented."""

    name: str
    default: str
    about: str
    only: str = ""
    """`batch` or `stream` for an option that the other refuses."""


_PER_QUEUE = '{"topic":{"broker|0":123,"broker|1":456}}'

OPTIONS = (
    OptionRow(
        "subscribe",
        "",
        "topics, separated by commas; exactly one of subscribe, subscribePattern and assign is set",
    ),
    OptionRow("topic", "", "the same as subscribe"),
    OptionRow(
        "subscribePattern",
        "",
        "a regular expression that whole topic names match; system topics never do, retry and dead-letter "
        "topics only where it begins with %",
    ),
    OptionRow(
        "assign",
        "",
        'queues: {"topic":["broker|0","broker|1"]}; a bare number is that queue on every broker',
    ),
    OptionRow("namesrv", "NAMESRV_ADDR, else 127.0.0.1:9876", "name servers: host:port;host:port"),
    OptionRow(
        "startingOffsets",
        "earliest; of a stream latest",
        f"earliest, latest (streams only), or JSON: {_PER_QUEUE}, where -2 is earliest and -1 latest; for a "
        "new query: a checkpoint wins. Queues that appear later are read from their beginning",
    ),
    OptionRow(
        "endingOffsets",
        "latest",
        "latest, or JSON as above without -2; the offset named is the first that is not read",
        "batch",
    ),
    OptionRow(
        "startingTimestamp",
        "",
        "store time in ms, for all queues: from the first message at or after it; wins over the next and "
        "over startingOffsets",
    ),
    OptionRow(
        "startingOffsetsByTimestamp",
        "",
        "the same per queue, as JSON of the form of startingOffsets; wins over startingOffsets",
    ),
    OptionRow(
        "endingTimestamp",
        "",
        "store time in ms: up to the first message at or after it, to the end where there is none; wins over "
        "the next and over endingOffsets",
        "batch",
    ),
    OptionRow(
        "endingOffsetsByTimestamp", "", "the same per queue, as JSON; wins over endingOffsets", "batch"
    ),
    OptionRow(
        "startingOffsetsByTimestampStrategy",
        "error",
        "where a queue has no message at or after the starting time: error, or latest (begin at its end)",
    ),
    OptionRow(
        "failOnDataLoss",
        "true",
        "fail when messages that were to be read are gone (retention, a topic deleted or made anew); false: "
        "log it, read what is left",
    ),
    OptionRow("minPartitions", "one per queue", "at least so many Spark tasks: queues are split by offsets"),
    OptionRow("maxRecordsPerPartition", "no limit", "at most so many offsets per Spark task"),
    OptionRow(
        "maxOffsetsPerTrigger",
        "no limit",
        "at most so many offsets per micro-batch, shared out by what each queue has to read",
        "stream",
    ),
    OptionRow(
        "minOffsetsPerTrigger",
        "1",
        "wait with a micro-batch until so many are there, or maxTriggerDelay is over; available-now never "
        "waits",
        "stream",
    ),
    OptionRow(
        "maxTriggerDelay", "15m", "longest wait for minOffsetsPerTrigger: 500ms, 30s, 15m, 2h", "stream"
    ),
    OptionRow("tags", "*", "only messages with one of these tags: A || B; by the broker, and again by value"),
    OptionRow(
        "sql",
        "",
        "only messages whose properties this SQL92 expression holds for; the broker evaluates it "
        "(enablePropertyFilter=true there); not together with tags",
    ),
    OptionRow("columns", "all", "the columns to read, separated by commas; others are never built"),
    OptionRow("maxBatchBytes", str(DEFAULT_MAX_BATCH_BYTES), "size at which rows are handed to Spark"),
    OptionRow(
        "maxInflatedBodyBytes",
        str(DEFAULT_MAX_INFLATED_BYTES),
        "maximum size of a body that was compressed, once it is inflated",
    ),
    OptionRow(
        "failOnUnreadableBody",
        "true",
        "fail when a body cannot be inflated, or to more than maxInflatedBodyBytes; false: it is null, and "
        "the worker logs how many",
    ),
    OptionRow(
        "groupId",
        TOOLS_GROUP,
        "consumer group to read as; where it is set, a stream's progress is written to the brokers under it",
    ),
    OptionRow("accessKey", "", "the user that requests are signed as, with secretKey"),
    OptionRow("secretKey", "", "the user's secret; Spark hides it where it shows options"),
    OptionRow("securityToken", "", "what goes with keys that are valid for a time only"),
    OptionRow("tls", "false", "encrypt connections, and check certificates and names"),
    OptionRow("tlsCa", "the system's", "with TLS: trust the certificates in this PEM file of every worker"),
)
