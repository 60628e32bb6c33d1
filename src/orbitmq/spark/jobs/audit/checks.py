"""Rules between the files of a store, each as a data frame of its violations: `FINDINGS`.

Everything here is Spark's own expressions over the frames of `tables`: logs and queues are compared by joins
on the physical offset, whatever their size.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from orbitmq.protocol.names import HALF_TOPIC, LMQ_PREFIX, OP_HALF_TOPIC, SCHEDULE_TOPIC
from orbitmq.spark import functions as sf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

FINDINGS = (
    "store string, check string, severity string, topic string, queueId int, queueOffset bigint, "
    "physicalOffset bigint, file string, detail string"
)
STORES = "store string, logBegin bigint, logEnd bigint, reached bigint, rebuiltFromMs bigint"
"""A row per store: where its log begins and ends, how far its units go, and from which store time on a start
would make units again, so that none is missed there; null where there is no such place."""
ERROR, WARNING = "error", "warning"

EXTENSION_ADDRESS = -2147483649
"""Tags codes up to this one are addresses in extension files."""


_OF_UNITS = {
    "topic": "u_topic", "queueId": "u_queue", "queueOffset": "u_offset", "size": "u_size",
    "tagsCode": "u_code", "file": "u_file",
}  # fmt: skip
"""Columns of units beside those of records."""


def bad_records(records: DataFrame) -> DataFrame:
    """Check `records`: every place in a commit log that is no sound record."""
    found = records.where("problem is not null")
    detail = sf.concat("problem", sf.lit(" ("), sf.col("size").cast("string"), sf.lit(" bytes)"))
    return _findings(found, "records", ERROR, detail)


def bad_units(units: DataFrame, records: DataFrame, stores: DataFrame) -> DataFrame:
    """Check `queues`: units that point nowhere, or to another record; records that have none.

    `stores` has the columns of `STORES`.
    """
    plain = units.where(~sf.col("topic").startswith(LMQ_PREFIX))
    both = _units_beside_records(plain, records).join(sf.broadcast(stores), "store", "left")
    return _union(
        _findings(plain.where("problem is not null"), "queues", ERROR, sf.col("problem")),
        _wrong_units(both),
        _missing_units(both, plain),
    )


def _units_beside_records(units: DataFrame, records: DataFrame) -> DataFrame:
    """Each sound record beside the unit that points to its place; either of them may be missing."""
    sound = records.where("problem is null and not isBatch").select(
        "store",
        "physicalOffset",
        "topic",
        "queueId",
        "queueOffset",
        "size",
        "tagsCode",
        "storedAtMs",
        sf.lit(True).alias("is"),
    )
    pointing = units.select(
        "store",
        "physicalOffset",
        *(sf.col(name).alias(ours) for name, ours in _OF_UNITS.items()),
    )
    return sound.join(pointing, ["store", "physicalOffset"], "full_outer")


def _wrong_units(both: DataFrame) -> DataFrame:
    """Units that point beyond the log, to no record, or to one of another message."""
    detail = (
        sf.when(
            sf.expr("`is` is null and physicalOffset >= coalesce(logEnd, 0)"),
            "points beyond the end of the log",
        )
        .when(
            sf.expr("`is` is null and physicalOffset >= logBegin"),
            "points to where no sound record begins",
        )
        .when(sf.col("is") & ~_same(), _difference())
    )
    units = both.where("u_topic is not null").select(
        "store",
        "physicalOffset",
        *(sf.col(_OF_UNITS[name]).alias(name) for name in ("topic", "queueId", "queueOffset", "file")),
        detail.alias("problem"),
    )
    return _findings(units.where("problem is not null"), "queues", ERROR, sf.col("problem"))


def _missing_units(both: DataFrame, units: DataFrame) -> DataFrame:
    """Records to which no unit points, though the units of their store go beyond them."""
    lost = both.where(
        "u_topic is null and physicalOffset <= reached"
        " and (rebuiltFromMs is null or storedAtMs < rebuiltFromMs)"
    ).join(units.select("store", "topic").distinct(), ["store", "topic"], "left_semi")
    elsewhere = lost.join(
        units.select(
            "store", "topic", "queueId", "queueOffset", sf.col("physicalOffset").alias("other"), "file"
        ),
        ["store", "topic", "queueId", "queueOffset"],
        "left",
    )
    replaced = sf.concat(
        sf.lit("its queue has the record at "),
        sf.col("other").cast("string"),
        sf.lit(" in this place: the topic was made anew, or the unit is wrong"),
    )
    return _findings(
        elsewhere,
        "queues",
        sf.when(sf.isnull("other"), ERROR).otherwise(WARNING),
        sf.coalesce(replaced, sf.lit("the record has no unit in its queue")),
    )


def _same() -> Column:
    code_is_hash = (sf.col("u_topic") != SCHEDULE_TOPIC) & (sf.col("u_code") > EXTENSION_ADDRESS)
    same = ~code_is_hash | (sf.col("tagsCode") == sf.col("u_code"))
    for name in ("topic", "queueId", "queueOffset", "size"):
        same &= sf.col(name) == sf.col(_OF_UNITS[name])
    return same


def _difference() -> Column:
    def same(*names: str) -> Column:
        return sf.concat_ws(" ", *(sf.col(name).cast("string") for name in names))

    return sf.concat(
        sf.lit("the unit says topic, queue, offset, size, tags code "),
        same("u_topic", "u_queue", "u_offset", "u_size", "u_code"),
        sf.lit(", the record "),
        same("topic", "queueId", "queueOffset", "size", "tagsCode"),
    )


def bad_entries(entries: DataFrame, records: DataFrame, stores: DataFrame) -> DataFrame:
    """Check `index`: entries that no record has, and keys of records that the index lacks.

    `stores` has the columns of `STORES`.
    """
    malformed = _findings(entries.where("problem is not null"), "index", ERROR, sf.col("problem"))
    known = entries.where("problem is null").select(
        "store", "physicalOffset", "keyHash", sf.col("file").alias("e_file")
    )
    sound = records.where("problem is null and not isBatch")
    keys = sound.select("store", "physicalOffset", "topic", sf.explode("keys").alias("keyHash"), sf.lit(True))
    # Brokers before 5.4 have no entries for tags: an entry may be there, and need not.
    tags = sound.where("tagKey is not null").select(
        "store", "physicalOffset", "topic", "tagKey", sf.lit(False)
    )
    names = ("store", "physicalOffset", "topic", "keyHash", "needed")
    wanted = keys.toDF(*names).union(tags.toDF(*names))
    covered = known.groupBy("store").agg(
        sf.min("physicalOffset").alias("first_entry"), sf.max("physicalOffset").alias("last_entry")
    )
    both = (
        wanted.join(known, ["store", "physicalOffset", "keyHash"], "full_outer")
        .join(sf.broadcast(stores), "store", "left")
        .join(sf.broadcast(covered), "store", "left")
        .withColumnRenamed("e_file", "file")
    )
    detail = (
        sf.when(
            sf.expr("topic is null and physicalOffset >= coalesce(logEnd, 0)"),
            "an entry points beyond the end of the log",
        )
        .when(
            sf.expr("topic is null and physicalOffset >= coalesce(logBegin, 0)"),
            "an entry points to a message that has no such key",
        )
        .when(
            sf.expr("file is null and needed and physicalOffset between first_entry and last_entry"),
            "a key of the message is not in the index",
        )
    )
    wrong = both.withColumn("problem", detail).where("problem is not null")
    return _union(malformed, _findings(wrong, "index", ERROR, sf.col("problem")))


def bad_offsets(
    spark: SparkSession, units: DataFrame, committed: Sequence[tuple[str, str, str, int, int]]
) -> DataFrame:
    """Check `offsets`: groups that have consumed what there is not.

    `committed` is (store, group, topic, queue id, queue offset) each.
    """
    given = spark.createDataFrame(
        list(committed), "store string, groupName string, topic string, queueId int, queueOffset bigint"
    )
    ends = units.groupBy("store", "topic", "queueId").agg((sf.max("queueOffset") + 1).alias("queue_end"))
    found = given.join(ends, ["store", "topic", "queueId"], "left")
    # A queue that nothing was ever sent to has no file, and its groups stand at 0.
    beyond = found.where("queueOffset > coalesce(queue_end, 0)")
    detail = sf.concat(
        sf.lit("group "),
        sf.col("groupName"),
        sf.lit(" is at "),
        sf.col("queueOffset").cast("string"),
        sf.lit(", the queue ends at "),
        sf.coalesce("queue_end", sf.lit(0)).cast("string"),
    )
    # Offsets of a topic that was deleted stay for a while.
    severity = sf.when(sf.isnull("queue_end"), WARNING).otherwise(ERROR)
    return _findings(beyond, "offsets", severity, detail)


def undecided(messages: DataFrame) -> DataFrame:
    """Check `transactions`: half messages that were neither committed nor rolled back.

    `messages` are those of the two topics of transactions.
    """
    halves = messages.where(sf.col("topic") == HALF_TOPIC)
    decided = (
        messages.where((sf.col("topic") == OP_HALF_TOPIC) & (sf.col("tags") == "d"))
        .select(
            "store",
            "queueId",
            sf.explode(sf.split(sf.col("body").cast("string"), ",")).alias("text"),
        )
        .select("store", "queueId", sf.expr("try_cast(text as bigint)").alias("queueOffset"))
        .distinct()
    )
    left = halves.join(decided, ["store", "queueId", "queueOffset"], "left_anti")
    properties = sf.col("properties")
    detail = sf.concat_ws(
        " ",
        sf.lit("undecided: for topic"),
        properties["REAL_TOPIC"],
        sf.lit("of producer group"),
        properties["PGROUP"],
        sf.lit("id"),
        "msgId",
        sf.lit("stored"),
        sf.date_format("storeTimestamp", "yyyy-MM-dd HH:mm:ss"),
    )
    return _findings(left, "transactions", WARNING, detail)


def from_rows(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Findings that were made without Spark."""
    names = [part.split()[0] for part in FINDINGS.split(", ")]
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], FINDINGS)


def _findings(frame: DataFrame, check: str, severity: str | Column, detail: Column) -> DataFrame:
    made = {"check": sf.lit(check), "severity": sf.lit(severity), "detail": detail}
    columns = []
    for part in FINDINGS.split(", "):
        name, kind = part.split()
        column = made.get(name, sf.col(name) if name in frame.columns else sf.lit(None))
        columns.append(column.cast(kind).alias(name))
    return frame.select(*columns)


def _union(*frames: DataFrame) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)
