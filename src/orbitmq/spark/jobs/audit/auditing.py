"""The job as a function: stores in, findings and a summary out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.checkpoint import checkpoint
from orbitmq.spark.jobs.job import QUIET, JobSetup, JobUi
from orbitmq.spark.lake.storage import LakeLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.jobs.audit.tables import Files
    from orbitmq.spark.jobs.checkpoint import Checkpoint

CHECKS = ("records", "queues", "index", "offsets", "transactions")
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
        """Number of errors."""
        return sum(row["findings"] for row in self.counts if row["severity"] == "error")

    @property
    def warnings(self) -> int:
        """Number of warnings."""
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
        found = findings(spark, files, records, units, options, kept).persist(StorageLevel.DISK_ONLY)
        try:
            counts = found.groupBy("store", "check", "severity").count()
            shown = found.orderBy("severity", "store", "check", "physicalOffset").limit(options.most)
            return AuditResult(
                [row.asDict() for row in shown.collect()],
                [
                    {
                        "store": row["store"],
                        "check": row["check"],
                        "severity": row["severity"],
                        "findings": row["count"],
                    }
                    for row in counts.orderBy("store", "check", "severity").collect()
                ],
                summary(files, records, units),
            )
        finally:
            found.unpersist()
    finally:
        records.unpersist()
        units.unpersist()


def findings(
    spark: SparkSession,
    files: Files,
    records: DataFrame,
    units: DataFrame,
    options: AuditOptions,
    kept: Checkpoint | None = None,
) -> DataFrame:
    """All findings, with the columns of `checks.FINDINGS`, of the frames that `tables` makes of `files`."""
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
    if "records" in options.checks:
        found = found.unionByName(checks.bad_records(records))
    if "queues" in options.checks:
        found = found.unionByName(checks.bad_units(units, records, files.rebuilt_from_ms))
    if "index" in options.checks and files.index:
        with_index = {piece.store for piece in files.index}
        indexed = records.where(records["store"].isin(sorted(with_index)))
        found = found.unionByName(checks.bad_entries(tables.entries(spark, files, kept), indexed))
    if "offsets" in options.checks and files.offsets:
        found = found.unionByName(checks.bad_offsets(spark, units, files.offsets))
    if "transactions" in options.checks:
        found = found.unionByName(checks.undecided(tables.transactions(spark, files, kept)))
    return found


def summary(files: Files, records: DataFrame, units: DataFrame) -> list[dict[str, Any]]:
    """Counts of each store, and its range of times: a row per store."""
    from pyspark.sql import functions as sf

    by_store: dict[str, dict[str, Any]] = {
        store: dict[str, Any](store=store, records=0, bytes=0, queues=0, units=0) for store in files.stores
    }
    counted = records.groupBy("store").agg(
        sf.count_if(sf.isnull("problem")).alias("records"), sf.sum("size").alias("bytes")
    )
    for row in counted.collect():
        by_store[row["store"]] |= {"records": row["records"], "bytes": row["bytes"]}
    queued = units.groupBy("store").agg(
        sf.count_distinct("topic", "queueId").alias("queues"), sf.count("*").alias("units")
    )
    for row in queued.collect():
        by_store[row["store"]] |= {"queues": row["queues"], "units": row["units"]}
    for store, values in by_store.items():
        values["indexFiles"] = sum(piece.store == store for piece in files.index)
    return list(by_store.values())
