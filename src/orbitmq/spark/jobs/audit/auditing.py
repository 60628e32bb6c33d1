"""The job as a function: stores in, findings and a summary out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orbitmq.protocol.names import LMQ_PREFIX
from orbitmq.spark import functions as sf
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.checkpoint import checkpoint
from orbitmq.spark.jobs.job import QUIET, JobSetup, JobUi
from orbitmq.spark.lake.storage import LakeLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.jobs.audit.tables import Files
    from orbitmq.spark.jobs.checkpoint import Checkpoint

CHECKS = ("records", "queues", "index", "offsets", "transactions")
COUNTED = ("store", "check", "severity")
DEFAULT_MOST = 1000


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit."""

    stores: tuple[str, ...]
    """Paths, URLs for fsspec, or patterns of either."""
    setup: JobSetup = field(default_factory=JobSetup)
    checks: tuple[str, ...] = CHECKS
    most: int = DEFAULT_MOST
    """Findings that are shown; all are counted."""
    split_bytes: int = 128 << 20
    index_slots: int = 0
    """maxHashSlotNum of the brokers; 0: a quarter of the entries that fit into a file, as by default."""
    storage_options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Findings: rows of `checks.FINDINGS`, at most `most`, errors first; and all, counted."""

    findings: list[dict[str, Any]]
    counts: list[dict[str, Any]]
    """(store, check, severity, findings)."""
    summary: list[dict[str, Any]]
    """Per store: what was looked at."""

    @property
    def errors(self) -> int:
        return sum(row["findings"] for row in self.counts if row["severity"] == "error")

    @property
    def warnings(self) -> int:
        return sum(row["findings"] for row in self.counts if row["severity"] == "warning")


def run(options: AuditOptions, ui: JobUi = QUIET) -> AuditResult:
    """Verifies the stores. Raises NotAStore, BadOption, SparkSourceError, JobFailed, OSError."""
    from orbitmq.spark.jobs.audit import tables

    unknown = [check for check in options.checks if check not in CHECKS]
    if unknown:
        raise BadOption(f"there is no check {', '.join(unknown)}: {', '.join(CHECKS)}")
    asked = {"stores": options.stores, "checks": options.checks, "index_slots": options.index_slots}
    places = [LakeLocation(store, dict(options.storage_options)) for store in options.stores]
    with checkpoint(options.setup.checkpoint, "audit", asked, beside=places) as kept:
        files = tables.list_files(
            options.stores,
            split_bytes=options.split_bytes,
            index_slots=options.index_slots,
            storage=options.storage_options,
        )
        with options.setup.session("audit") as spark, ui.spark_progress(spark, "auditing"):
            return _audit(spark, files, options, kept)


def _audit(spark: SparkSession, files: Files, options: AuditOptions, kept: Checkpoint | None) -> AuditResult:
    from pyspark import StorageLevel

    from orbitmq.spark.jobs.audit import tables

    # Scanned once: three checks and the summary look at them.
    records = tables.records(spark, files, kept).persist(StorageLevel.DISK_ONLY)
    units = tables.units(spark, files, kept).persist(StorageLevel.DISK_ONLY)
    try:
        stores, extents = summary(files, records, units)
        found = findings(spark, files, records, units, extents, options, kept)
        found = found.persist(StorageLevel.DISK_ONLY)
        try:
            first = found.orderBy("severity", "store", "check", "physicalOffset").limit(options.most + 1)
            shown = [row.asDict() for row in first.collect()]
            return AuditResult(shown[: options.most], _counts(found, shown, options.most), stores)
        finally:
            found.unpersist()
    finally:
        records.unpersist()
        units.unpersist()


def _counts(found: DataFrame, shown: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Findings by store, check and severity; of no more than `most` Spark counts nothing."""
    if len(shown) > most:
        rows = found.groupBy(*COUNTED).count().collect()
        counts = {tuple(row[name] for name in COUNTED): int(row["count"]) for row in rows}
    else:
        counts = dict(Counter(tuple(row[name] for name in COUNTED) for row in shown))
    return [dict(zip(COUNTED, key, strict=True), findings=counts[key]) for key in sorted(counts)]


def findings(
    spark: SparkSession,
    files: Files,
    records: DataFrame,
    units: DataFrame,
    extents: list[tuple[Any, ...]],
    options: AuditOptions,
    kept: Checkpoint | None = None,
) -> DataFrame:
    """All findings, with the columns of `checks.FINDINGS`, of the frames that `tables` makes of `files`.

    `extents` are rows of `checks.STORES`.
    """
    from orbitmq.spark.jobs.audit import checks, tables

    rows: list[dict[str, Any]] = [
        {"store": store, "check": "offsets", "severity": "error", "file": file, "detail": what}
        for store, file, what in files.unreadable
        if "offsets" in options.checks
    ]
    rows += [
        {
            "store": store,
            "check": "queues",
            "severity": "error",
            "topic": topic,
            "queueId": queue_id,
            "file": file,
            "detail": what,
        }
        for store, topic, queue_id, file, what in files.missing
        if "queues" in options.checks
    ]
    found = checks.from_rows(spark, rows)
    stores = spark.createDataFrame(extents, checks.STORES)
    if "records" in options.checks:
        found = found.unionByName(checks.bad_records(records))
    if "queues" in options.checks:
        found = found.unionByName(checks.bad_units(units, records, stores))
    if "index" in options.checks and files.index:
        with_index = {piece.store for piece in files.index}
        indexed = records.where(records["store"].isin(sorted(with_index)))
        found = found.unionByName(checks.bad_entries(tables.entries(spark, files, kept), indexed, stores))
    if "offsets" in options.checks and files.offsets:
        found = found.unionByName(checks.bad_offsets(spark, units, files.offsets))
    if "transactions" in options.checks:
        found = found.unionByName(checks.undecided(tables.transactions(spark, files, kept)))
    return found


def summary(
    files: Files, records: DataFrame, units: DataFrame
) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    """Counts of each store, a row per store; and a row of `checks.STORES` for each."""
    is_sound = sf.isnull("problem")
    logs = records.groupBy("store").agg(
        sf.count_if(is_sound).alias("records"),
        sf.sum("size").alias("bytes"),
        sf.min("physicalOffset").alias("begin"),
        sf.max(sf.col("physicalOffset") + sf.when(is_sound, sf.col("size")).otherwise(0)).alias("end"),
    )
    # Units of light queues point to records of other topics, and say nothing of how far a store has got.
    is_plain = ~sf.col("topic").startswith(LMQ_PREFIX)
    queued = units.groupBy("store").agg(
        sf.count_distinct("topic", "queueId").alias("queues"),
        sf.count("*").alias("units"),
        sf.max(sf.when(is_plain, sf.col("physicalOffset"))).alias("reached"),
    )
    log = {row["store"]: row for row in logs.collect()}
    queue = {row["store"]: row for row in queued.collect()}
    counts, extents = [], []
    for store in files.stores:
        one, other = log.get(store), queue.get(store)
        counts.append(
            {
                "store": store,
                "records": one["records"] if one else 0,
                "bytes": one["bytes"] if one else 0,
                "queues": other["queues"] if other else 0,
                "units": other["units"] if other else 0,
                "indexFiles": sum(piece.store == store for piece in files.index),
            }
        )
        extents.append(
            (
                store,
                one["begin"] if one else None,
                one["end"] if one else None,
                other["reached"] if other else None,
                files.rebuilt_from_ms.get(store),
            )
        )
    return counts, extents
