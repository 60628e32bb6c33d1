"""Messages once by business key: a stream without repeats, and what was sent or consumed repeatedly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from orbitmq.spark.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY = "dedupKey"
SEEN_AT = "dedupSeenAt"
KEY_COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "keys", "tags", "body", "properties", "storeTimestamp",
    "bornTimestamp", "msgId", "flag",
)  # fmt: skip
"""Columns that keys can be made of and that are written to the target."""
PLACES = 10
"""Number of places of a repeated message that are shown."""


def business_key(by: str) -> Column:
    """The key that identifies messages: `keys`, `msgId`, `body`, `property:NAME`, `json:PATH` or `sql:EXPR`.

    `json:$.order.id` is a value in a body that is JSON; `sql:` is any Spark expression over the columns of
    the source. Null where a message has none. Raises BadOption for anything else.
    """
    kind, rest = parsed_key(by)
    if kind == "body":
        return sf.sha2("body", 256)
    if kind == "property":
        return sf.col("properties")[rest]
    if kind == "json":
        return sf.get_json_object(sf.col("body").cast("string"), rest)
    if kind == "sql":
        return sf.expr(rest).cast("string")
    return sf.col(kind)


def parsed_key(by: str) -> tuple[str, str]:
    """The kind of a key and what follows its colon; needs no session. Raises BadOption."""
    kind, colon, rest = by.partition(":")
    if by in ("keys", "msgId", "body"):
        return by, ""
    if colon and kind == "json" and not rest.startswith("$"):
        # Spark takes it for a path that no body has: every message would pass as one without a key.
        raise BadOption(f"{by!r} is no key: a path in JSON begins with $, as in json:$.id")
    if colon and rest and kind in ("property", "json", "sql"):
        return kind, rest
    raise BadOption(f"{by!r} is no key: keys, msgId, body, property:NAME, json:$.PATH or sql:EXPRESSION")


def place() -> Column:
    """The place of a message: `broker|queue@offset`, which no other one of its topic has."""
    return sf.concat_ws("", "brokerName", sf.lit("|"), "queueId", sf.lit("@"), "queueOffset")


def deduplicated(messages: DataFrame, key: Column, window_ms: int) -> DataFrame:
    """A stream without messages whose key another one of the same topic had within the window before it.

    The column `dedupKey` is added. Messages without a key pass, all of them. A repeat that was stored no more
    than the window after the one that passed is dropped; one that comes later passes once Spark has forgotten
    the key, which is some batches after.

    Spark forgets keys by a watermark, and drops rows that are older than it. A broker that was away brings
    such rows, and they are no repeats: so what is older than half a window counts as half a window old when
    it is read. Rows are dropped unseen (and counted as `numRowsDroppedByWatermark`) only where a broker's
    clock is ahead of the driver's by more than that. Read every batch to the end of its topics, without
    `maxOffsetsPerTrigger`: keys of queues that are read far behind the others may have been forgotten.
    """
    half_a_window = sf.expr(f"current_timestamp() - make_dt_interval(0, 0, 0, {window_ms / 2000})")
    # A NUL stands before what is no key, so that no key can be taken for it.
    identity = sf.coalesce(key, sf.concat(sf.lit("\0"), place()))
    named = messages.withColumn(KEY, identity).withColumn(
        SEEN_AT, sf.greatest("storeTimestamp", half_a_window)
    )
    marked = named.withWatermark(SEEN_AT, f"{window_ms} milliseconds")
    return marked.dropDuplicatesWithinWatermark(["topic", KEY]).drop(SEEN_AT)


def sent_repeatedly(messages: DataFrame, key: Column) -> DataFrame:
    """Keys that more than one message of a topic has, the most frequent first; messages without a key are not
    counted.

    `messageIds` is how many different ids they have: one id several times is one send that a client or a
    network has repeated, several ids are several sends of the application.
    """
    return (
        messages.withColumn(KEY, key)
        .where(sf.col(KEY).isNotNull())
        .groupBy("topic", KEY)
        .agg(
            sf.count("*").alias("times"),
            sf.count_distinct("msgId").alias("messageIds"),
            sf.min("storeTimestamp").alias("firstAt"),
            sf.max("storeTimestamp").alias("lastAt"),
            sf.slice(sf.sort_array(sf.collect_list(place())), 1, PLACES).alias("places"),
        )
        .where("times > 1")
        .orderBy(sf.desc("times"), "topic", KEY)
    )


def consumed_repeatedly(handlings: DataFrame, messages: DataFrame, key: Column) -> DataFrame:
    """Keys that a group has handled with success more than once, the most frequent first.

    `handlings` come from `orbitmq.spark.jobs.trace_tables.handlings`; `messages` have the key of each message
    id. Messages that the trace does not know of are missing here.
    """
    keys = (
        messages.withColumn(KEY, key).where(sf.col(KEY).isNotNull()).select("topic", "msgId", KEY).distinct()
    )
    return (
        handlings.where("success")
        .join(keys, "msgId")
        .groupBy("clientGroup", "topic", KEY)
        .agg(
            sf.count("*").alias("times"),
            sf.count_distinct("msgId").alias("messageIds"),
            sf.min("endedAt").alias("firstAt"),
            sf.max("endedAt").alias("lastAt"),
            sf.slice(sf.sort_array(sf.collect_set("client")), 1, PLACES).alias("clients"),
        )
        .where("times > 1")
        .orderBy(sf.desc("times"), "clientGroup", "topic", KEY)
    )
