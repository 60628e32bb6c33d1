"""The command `orbitmq job archive`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from orbitmq.admin.output import Facts, Result, Rows, columns
from orbitmq.flags import Seconds, pairs_of
from orbitmq.plurals import counted
from orbitmq.spark.jobs.job import JobSetup, JobUi, job
from orbitmq.spark.lake.errors import LakeError
from orbitmq.spark.lake.iceberg import IcebergLocation
from orbitmq.spark.lake.iceberg import load as load_table
from orbitmq.spark.lake.lake import load
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.lake.writing import ParquetForm

if TYPE_CHECKING:
    from orbitmq.spark.jobs.archive.running import ArchiveResult

EXAMPLES = """\
orbitmq job archive --topic orders --topic payments --lake ./lake
orbitmq job archive --pattern 'orders-.*' --lake ./lake --follow 10 --compact
orbitmq job archive --topic orders --lake ./lake --dry-run
orbitmq job archive --store /backup/store --broker-name broker-a --lake ./lake
orbitmq job archive --lake ./lake --status
orbitmq job archive --topic orders --lake s3://bucket/lake --storage-option endpoint_url=http://minio:9000
orbitmq job archive --topic orders --iceberg prod.events.orders --follow 60"""

COMPRESSIONS = ("snappy", "zstd", "lz4", "gzip", "none")


@job("archive", examples=EXAMPLES, dry_run="Show what would be archived; write nothing.")
@click.option("--lake", metavar="FOLDER|URL", help="Folder or URL of the Parquet files.")
@click.option(
    "--iceberg",
    metavar="CATALOG.TABLE",
    help="Iceberg table in place of --lake, in a catalog of PyIceberg's configuration (needs pyiceberg).",
)
@click.option(
    "--catalog-option",
    "catalog_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="With --iceberg: property of the catalog, such as uri or warehouse. Repeatable.",
)
@click.option("-t", "--topic", "topics", multiple=True, help="Topic to archive. Repeatable.")
@click.option(
    "--pattern",
    metavar="REGEX",
    help="Regular expression for whole names of topics; includes topics created later.",
)
@click.option("--store", metavar="FOLDER|URL", help="Read these store files instead of asking brokers.")
@click.option("--broker-name", metavar="NAME", help="With --store: name of the broker that wrote them.")
@click.option("--status", is_flag=True, help="Show the offsets in the lake, by queue.")
@click.option(
    "--follow",
    type=Seconds(0.1),
    help="Run until Ctrl-C, and look for new messages this often. Without it, end when all are archived.",
)
@click.option(
    "--columns", metavar="A,B,...", help="Columns to keep. [default: those of the lake; all in a new lake]"
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    default=2_000_000,
    metavar="MESSAGES",
    help="Commit after about this many messages.",
)
@click.option(
    "--file",
    "per_file",
    type=click.IntRange(1),
    default=1_000_000,
    metavar="MESSAGES",
    help="Maximum of messages in one file.",
)
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="snappy",
    help="Compression of the Parquet files.",
)
@click.option("--compact", is_flag=True, help="Merge the small files of a day, at the end and at intervals.")
@click.option(
    "--target-mb",
    type=click.IntRange(1),
    default=256,
    help="Target size of merged files. Files of at least half this size are left as they are.",
)
@click.option("--delta", is_flag=True, help="Also make the lake a Delta table (needs deltalake).")
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Continue after messages that were deleted before they could be archived.",
)
@click.option(
    "--retry-for", type=Seconds(0), default=300.0, help="Time to keep retrying while brokers or workers fail."
)
@click.option(
    "--storage-option",
    "storage",
    metavar="NAME=VALUE",
    multiple=True,
    help="Option for fsspec, if the lake or the table is at a URL. Repeatable.",
)
def archive(
    setup: JobSetup,
    ui: JobUi,
    lake: str | None,
    iceberg: str | None,
    catalog_options: tuple[str, ...],
    topics: tuple[str, ...],
    pattern: str | None,
    store: str | None,
    broker_name: str | None,
    status: bool,
    follow: float | None,
    columns: str | None,
    batch: int,
    per_file: int,
    compression: str,
    compact: bool,
    target_mb: int,
    delta: bool,
    allow_data_loss: bool,
    retry_for: float,
    storage: tuple[str, ...],
) -> Result:
    """Write topics to a lake of Parquet files, or to an Iceberg table, each message exactly once.

    The job may be killed at any point and started again. Messages in the lake may be deleted from the
    store.
    """
    location = _location(lake, iceberg, catalog_options, storage)
    if iceberg and (compact or delta):
        raise click.UsageError("--compact and --delta are for --lake: engines of Iceberg compact its tables")
    if status:
        return holdings(location)
    _check_source(topics, pattern, store, broker_name, follow)
    from orbitmq.spark.jobs.archive.running import ArchiveOptions, run

    done = run(
        ArchiveOptions(
            location,
            tuple(dict.fromkeys(topics)),
            pattern,
            store,
            broker_name or "",
            setup,
            columns=tuple(part.strip() for part in (columns or "").split(",") if part.strip()),
            follow_s=follow,
            batch_messages=batch,
            file_messages=per_file,
            form=ParquetForm(compression=compression),
            delta=delta,
            allow_data_loss=allow_data_loss,
            compact=compact,
            target_bytes=target_mb << 20,
            retry_for_s=retry_for,
        ),
        ui,
    )
    return _summary(done, dry_run=setup.dry_run, of_files=bool(store))


def _check_source(
    topics: tuple[str, ...],
    pattern: str | None,
    store: str | None,
    broker_name: str | None,
    follow: float | None,
) -> None:
    """Raises click.UsageError for flags that do not name one source of messages."""
    if (topics and pattern) or not (topics or pattern or store):
        raise click.UsageError("give --topic (once or more), or --pattern; --store needs neither")
    if bool(store) != bool(broker_name):
        raise click.UsageError("--store and --broker-name go together: queues are told apart by broker")
    if store and follow:
        raise click.UsageError("--follow is for brokers: files are read as they are now")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise click.UsageError(f"--pattern {pattern}: {error}") from None


def _summary(done: ArchiveResult, *, dry_run: bool, of_files: bool) -> Facts:
    if dry_run:
        if of_files:
            return Facts({"bytes of log to read": done.planned_bytes})
        return Facts({"messages to archive": done.planned, "lost": done.lost})
    return Facts(
        {
            "messages": done.messages,
            "bytes": done.size_bytes,
            "batches": done.batches,
            "files": done.files,
            "merged": done.merged,
            "repeated": done.repeated,
            "lost": done.lost,
            "bad": done.bad,
            "seconds": round(done.seconds, 3),
        }
    )


def _location(
    lake: str | None, table: str | None, catalog_options: tuple[str, ...], storage: tuple[str, ...]
) -> LakeLocation | IcebergLocation:
    """The lake or the table that is written to. Raises click.UsageError, BadOption."""
    if (lake is None) == (table is None):
        raise click.UsageError("give --lake, or --iceberg")
    if lake is not None:
        if catalog_options:
            raise click.UsageError("--catalog-option goes with --iceberg")
        return lake_location(lake, storage)
    options = dict(pairs_of(catalog_options, "--catalog-option"))
    return IcebergLocation.parse(table or "", options, dict(pairs_of(storage, "--storage-option")))


def lake_location(lake: str, storage: tuple[str, ...]) -> LakeLocation:
    """The lake of --lake and --storage-option. Raises click.UsageError."""
    options = dict(pairs_of(storage, "--storage-option"))
    location = LakeLocation(lake, options)
    if options and location.is_local:
        raise click.UsageError("--storage-option is for URLs: a folder has none")
    return location


def holdings(location: LakeLocation | IcebergLocation) -> Rows:
    """Offsets in the lake, queue by queue: they may be deleted in the store. Raises LakeError."""
    is_table = isinstance(location, IcebergLocation)
    if isinstance(location, IcebergLocation):
        state, absent = load_table(location), f"there is no Iceberg table {location}, or it holds nothing"
    else:
        state, absent = load(location.open()), f"{location.url} holds no lake"
    if not state.number:
        raise LakeError(absent)
    heads = {"queue": "Broker|queue", "from": "From offset", "to": "To offset"}
    rows = [
        (topic, queue, low, high - 1, count)
        for (topic, queue), ranges in sorted(state.held.items())
        for low, high, count in ranges
    ]
    messages = counted(sum(row[-1] for row in rows), "message")
    files = "" if is_table else f" in {counted(len(state.files), 'file')}"
    note = f"{messages}{files}, {counted(state.number, 'commit')}"
    return Rows(columns("topic queue from to messages", **heads), rows, note)
