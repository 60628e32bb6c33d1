"""Dead letters as a data frame: of which group, from which topic, why, since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orbitmq.admin.dead_letters.rules import REPLAYS, REPLAYS_PATTERN
from orbitmq.protocol.names import (
    DLQ_ORIGIN_TOPIC,
    DLQ_PREFIX,
    RETRY_PREFIX,
    RETRY_TOPIC,
)
from orbitmq.spark import functions as sf
from orbitmq.spark.jobs.resending import place_key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PATTERN = f"{DLQ_PREFIX}.*"
AGES = ((1, "< 1 hour"), (24, "< 1 day"), (72, "< 3 days"))
"""Hours, and what dead letters are called that died within them; the rest is older."""
OLDER = "3 days and more"


def dead_letters(frame: DataFrame, *, exception_property: str = "exception", now_ms: int) -> DataFrame:
    """A row per dead letter, from rows of the source or a lake.

    `letter` names it for good. `originTopic` is where it was sent first: null where nothing says so.
    `exception` is what the application put into `exception_property` before it gave up. `shape` distinguishes
    bodies of one kind: the sorted keys of a JSON object, or `JSON`, `text`, `binary`.
    """
    properties = sf.col("properties")
    return frame.filter(sf.col("topic").startswith(DLQ_PREFIX)).select(
        place_key().alias("letter"),
        sf.concat_ws("|", place_key(), sf.unix_millis("storeTimestamp")).alias("onceKey"),
        sf.substring("topic", len(DLQ_PREFIX) + 1, 255).alias("group"),
        _origin(properties).alias("originTopic"),
        properties[exception_property].alias("exception"),
        shape_of(sf.col("body")).alias("shape"),
        _age(sf.col("storeTimestamp"), now_ms).alias("age"),
        sf.col("storeTimestamp").alias("diedAt"),
        "bornTimestamp",
        "brokerName",
        "msgId",
        "offsetMsgId",
        _replays(properties).alias("replays"),
        "keys",
        "tags",
        "reconsumeTimes",
        "body",
        "properties",
        "flag",
    )


def _origin(properties: Column) -> Column:
    """The topic of the first send: consumers that send back say it, and so do brokers and proxies."""
    found = sf.coalesce(properties[RETRY_TOPIC], properties[DLQ_ORIGIN_TOPIC])
    return sf.when(~found.startswith(RETRY_PREFIX) & ~found.startswith(DLQ_PREFIX), found)


def shape_of(body: Column) -> Column:
    """The kind of a body."""
    text = sf.try_validate_utf8(body.cast("string"))
    keys = sf.array_sort(sf.json_object_keys(text))
    return (
        sf.when(text.isNull(), "binary")
        .when(keys.isNotNull(), sf.concat(sf.lit("{"), sf.array_join(keys, ", "), sf.lit("}")))
        .when(sf.try_parse_json(text).isNotNull() & sf.ltrim(text).startswith("["), "JSON array")
        .otherwise("text")
    )


def _replays(properties: Column) -> Column:
    """Number of times it was sent again, by the rule of `replays_of`."""
    text = properties[REPLAYS]
    return sf.coalesce(sf.when(text.rlike(f"^{REPLAYS_PATTERN}$"), text.cast("int")), sf.lit(0))


def _age(died: Column, now_ms: int) -> Column:
    hours = (sf.lit(now_ms) - sf.unix_millis(died)) / 3_600_000
    text = sf.lit(OLDER)
    for limit, name in reversed(AGES):
        text = sf.when(hours < limit, name).otherwise(text)
    return text


def summary(found: DataFrame) -> DataFrame:
    """Dead letters by original topic, group, and exception (else body shape), the most first."""
    old = [sf.count_if(sf.col("age") == name).alias(name) for name in (*(n for _, n in AGES), OLDER)]
    return (
        found.groupBy(
            "originTopic",
            "group",
            sf.coalesce("exception", "shape").alias("reason"),
        )
        .agg(
            sf.count("*").alias("letters"),
            *old,
            sf.min("diedAt").alias("oldest"),
            sf.max("diedAt").alias("newest"),
            sf.min_by("letter", "diedAt").alias("example"),
        )
        .orderBy(sf.desc("letters"), "originTopic", "group", "reason")
    )
