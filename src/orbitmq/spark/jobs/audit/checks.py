"""Rules between the files of a store, each as a data frame of its violations: `FINDINGS`.

Everything here is Spark's own expressions over the frames of `tables`: logs and queues are compared by joins
on the physical offset, whatever their size.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from orbitmq.protocol.names import HALF_TOPIC, LMQ_PREFIX, OP_HALF_TOPIC, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

FINDINGS = (
    "store string, check string, severity string, topic string, queueId int, queueOffset bigint, "
    "physicalOffset bigint, file string, detail string"
)
ERROR, WARNING = "error", "warning"

EXTENSION_ADDRESS = -2147483649
"""Tags codes up to this one are addresses in extension files."""


def bad_records(records: DataFrame) -> DataFrame:
    """Check `records`: every place in a commit log that is no sound record."""
    from pyspark.sql import functions as sf

    found = records.where("problem is not null")
    detail = sf.concat("problem", sf.lit(" ("), sf.col("size").cast("string"), sf.lit(" bytes)"))
    return _findings(found, "records", ERROR, detail)


def bad_units(
    units: DataFrame, records: DataFrame, rebuilt_from_ms: Mapping[str, int] | None = None
) -> DataFrame:
    """Check `queues`: units that point nowhere, or to another record; records that have none.

    `rebuilt_from_ms` says by store from which store time on a start would make units anew: none is missed
    there.
    """
    from pyspark.sql import functions as sf

    plain = units.where(~sf.col("topic").startswith(LMQ_PREFIX))
    both = _units_beside_records(plain, records, rebuilt_from_ms or {})
    return _union(
        _findings(plain.where("problem is not null"), "queues", ERROR, sf.col("problem")),
        *_wrong_units(both),
        *_missing_units(both, plain),
    )


def _units_beside_records(
    units: DataFrame, records: DataFrame, rebuilt_from_ms: Mapping[str, int]
) -> DataFrame:
    """Each sound record beside the unit that points to its place; either of them may be missing.

    Beside both is how far their store's log and units go.
    """
    from pyspark.sql import functions as sf

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
        sf.col("topic").alias("u_topic"),
        sf.col("queueId").alias("u_queue"),
        sf.col("queueOffset").alias("u_offset"),
        sf.col("size").alias("u_size"),
        sf.col("tagsCode").alias("u_code"),
        sf.col("file").alias("u_file"),
    )
    record_end = sf.col("physicalOffset") + sf.when(sf.isnull("problem"), sf.col("size")).otherwise(0)
    extent = records.groupBy("store").agg(
        sf.min("physicalOffset").alias("log_begin"), sf.max(record_end).alias("log_end")
    )
    reached = units.groupBy("store").agg(sf.max("physicalOffset").alias("reached"))
    return (
        sound.join(pointing, ["store", "physicalOffset"], "full_outer")
        .join(sf.broadcast(_rebuilt(units.sparkSession, rebuilt_from_ms)), "store", "left")
        .join(sf.broadcast(extent), "store", "left")
        .join(sf.broadcast(reached), "store", "left")
    )


def _wrong_units(both: DataFrame) -> list[DataFrame]:
    """Units that point beyond the log, to no record, or to one of another message."""
    from pyspark.sql import functions as sf

    at_unit = both.where("u_topic is not null").select(
        "*",
        sf.col("u_topic").alias("f_topic"),
        sf.col("u_queue").alias("f_queue"),
        sf.col("u_offset").alias("f_at"),
    )
    beyond = at_unit.where("`is` is null and physicalOffset >= coalesce(log_end, 0)")
    dangling = at_unit.where("`is` is null and physicalOffset >= log_begin and physicalOffset < log_end")
    differs = at_unit.where(sf.col("is") & ~_same())
    return [
        _of_units(beyond, sf.lit("points beyond the end of the log")),
        _of_units(dangling, sf.lit("points to where no sound record begins")),
        _of_units(differs, _difference()),
    ]


def _missing_units(both: DataFrame, units: DataFrame) -> list[DataFrame]:
    """Records to which no unit points, though the units of their store go beyond them."""
    from pyspark.sql import functions as sf

    lost = both.where(
        "u_topic is null and physicalOffset <= reached"
        " and (rebuiltFromMs is null or storedAtMs < rebuiltFromMs)"
    ).join(units.select("store", "topic").distinct(), ["store", "topic"], "left_semi")
    elsewhere = lost.alias("l").join(
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
    return [
        _findings(
            elsewhere.where("other is null"), "queues", ERROR, sf.lit("the record has no unit in its queue")
        ),
        _findings(elsewhere.where("other is not null"), "queues", WARNING, replaced),
    ]


def _rebuilt(spark: SparkSession, rebuilt_from_ms: Mapping[str, int]) -> DataFrame:
    return spark.createDataFrame(list(rebuilt_from_ms.items()), "store string, rebuiltFromMs bigint")


def _same() -> Column:
    from pyspark.sql import functions as sf

    col = sf.col
    code_is_hash = (col("u_topic") != SCHEDULE_TOPIC) & (col("u_code") > EXTENSION_ADDRESS)
    return (
        (col("topic") == col("u_topic"))
        & (col("queueId") == col("u_queue"))
        & (col("queueOffset") == col("u_offset"))
        & (col("size") == col("u_size"))
        & (~code_is_hash | (col("tagsCode") == col("u_code")))
    )


def _difference() -> Column:
    from pyspark.sql import functions as sf

    def same(*names: str) -> Column:
        return sf.concat_ws(" ", *(sf.col(name).cast("string") for name in names))

    return sf.concat(
        sf.lit("the unit says topic, queue, offset, size, tags code "),
        same("u_topic", "u_queue", "u_offset", "u_size", "u_code"),
        sf.lit(", the record "),
        same("topic", "queueId", "queueOffset", "size", "tagsCode"),
    )


def _of_units(frame: DataFrame, detail: Column) -> DataFrame:
    from pyspark.sql import functions as sf

    same = frame.select(
        "store",
        sf.col("f_topic").alias("found_topic"),
        sf.col("f_queue").alias("found_queue"),
        sf.col("f_at").alias("found_at"),
        "physicalOffset",
        sf.col("u_file").alias("file"),
        detail.alias("detail"),
    ).toDF("store", "topic", "queueId", "queueOffset", "physicalOffset", "file", "detail")
    return _findings(same, "queues", ERROR, sf.col("detail"))


def bad_entries(entries: DataFrame, records: DataFrame) -> DataFrame:
    """Check `index`: entries that no record has, and keys of records that the index lacks."""
    from pyspark.sql import functions as sf

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
    extent = records.groupBy("store").agg(
        sf.min("physicalOffset").alias("log_begin"), sf.max(sf.expr("physicalOffset + size")).alias("log_end")
    )
    covered = known.groupBy("store").agg(
        sf.min("physicalOffset").alias("first_entry"), sf.max("physicalOffset").alias("last_entry")
    )
    both = (
        wanted.join(known, ["store", "physicalOffset", "keyHash"], "full_outer")
        .join(sf.broadcast(extent), "store", "left")
        .join(sf.broadcast(covered), "store", "left")
    )
    only_index = both.where("topic is null and physicalOffset >= coalesce(log_begin, 0)").withColumnRenamed(
        "e_file", "file"
    )
    detail = sf.when(
        sf.col("physicalOffset") >= sf.coalesce("log_end", sf.lit(0)),
        "an entry points beyond the end of the log",
    ).otherwise("an entry points to a message that has no such key")
    lacking = both.where("e_file is null and needed and physicalOffset between first_entry and last_entry")
    return _union(
        malformed,
        _findings(only_index, "index", ERROR, detail),
        _findings(lacking, "index", ERROR, sf.lit("a key of the message is not in the index")),
    )


def bad_offsets(
    spark: SparkSession, units: DataFrame, committed: Sequence[tuple[str, str, str, int, int]]
) -> DataFrame:
    """Check `offsets`: groups that have consumed what there is not.

    `committed` is (store, group, topic, queue id, queue offset) each.
    """
    from pyspark.sql import functions as sf

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
    here = beyond.where("queue_end is not null")
    return _union(
        _findings(here, "offsets", ERROR, detail),
        _findings(beyond.where("queue_end is null"), "offsets", WARNING, detail),
    )


def undecided(messages: DataFrame) -> DataFrame:
    """Check `transactions`: half messages that were neither committed nor rolled back.

    `messages` are those of the two topics of transactions.
    """
    from pyspark.sql import functions as sf

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


def _findings(frame: DataFrame, check: str, severity: str, detail: Column) -> DataFrame:
    from pyspark.sql import functions as sf

    made = {"check": sf.lit(check), "severity": sf.lit(severity), "detail": detail}
    columns = []
    for part in FINDINGS.split(", "):
        name, kind = part.split()
        column = made.get(name, sf.col(name) if name in frame.columns else sf.lit(None))
        columns.append(column.cast(kind).alias(name))
    return frame.select(*columns)


def _union(*frames: DataFrame) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)
