"""The job `replay`: messages of a topic, or of a lake, once more to a topic.

The messages to replay are fixed when the job first runs: store times from (inclusive) to (exclusive). With
`--checkpoint` that is written down there together with the name of the write, so that a run after a crash
sends what is missing and nothing twice, and a run after the end sends nothing.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orbitmq.admin.output import Facts, Result, Rows, columns
from orbitmq.flags import Moment
from orbitmq.plurals import counted
from orbitmq.spark import functions as sf
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobSetup, JobUi, job
from orbitmq.spark.jobs.preflight import need_lake, need_target, need_topics
from orbitmq.spark.jobs.resending import (
    PLACE,
    Sent,
    matching,
    own_properties,
    place_key,
    send,
    sharding_key,
)
from orbitmq.whole_files import write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN = "replay.json"
SAMPLES = 5
MOST_AHEAD_MS = 3 * 86_400_000
"""Brokers refuse to keep a message for longer (timerMaxDelaySec), unless they are set otherwise."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Selection of messages to replay, and the way to send them. `source` is a topic, of the cluster or of
    the lake `lake`.
    """

    source: str
    target: str
    setup: JobSetup = field(default_factory=JobSetup)
    lake: str | None = None
    since_ms: int | None = None
    """Store time from which on; None: from the first message."""
    until_ms: int | None = None
    """Store time before which; None: now, when the job first runs."""
    where: str | None = None
    """SQL over the source's columns; `text` is the body as text."""
    rate: float | None = None
    """Messages per second, of all tasks together."""
    shift_ms: int | None = None
    """Deliver each message so long after it was stored first; what is past then goes at once. None: all at
    once."""


@dataclass(slots=True)
class ReplayResult:
    """The result of a run; of a dry run, the result it would have."""

    messages: int = 0
    already_there: int = 0
    retries: int = 0
    planned: int = 0
    """Of a dry run: how many messages match."""
    first_stored: Any = None
    last_stored: Any = None
    samples: list[dict[str, Any]] = field(default_factory=list)
    done_before: bool = False
    """The checkpoint says that an earlier run got to the end; nothing was sent now."""


def run(options: ReplayOptions, ui: JobUi = QUIET) -> ReplayResult:
    """Raises JobFailed, BadOption, and what the source and the sink raise."""
    setup = options.setup
    _check(options)
    plan = _Plan.at(setup.checkpoint, options)
    if plan.done is not None and not setup.dry_run:
        ui.say(f"{setup.checkpoint}: this replay is done, sent: {counted(plan.done['messages'], 'message')}")
        return ReplayResult(done_before=True)
    if options.lake is None:
        need_topics(setup, [options.source])
    else:
        need_lake(options.lake, [options.source])
    need_target(setup, options.target)
    with setup.session("replay") as spark:
        frame = matching(read(spark, options, plan.until_ms), options.where)
        if setup.dry_run:
            return _would_do(frame, options)
        _check_shift(frame, options)
        first_run = plan.save_if_new()
        with ui.spark_progress(spark, f"replay to {options.target}"):
            sent = send(
                outgoing(frame, options),
                setup,
                write_id=plan.write_id,
                first_run=first_run,
                rate=options.rate,
            )
        plan.finish(sent)
        return ReplayResult(sent.messages, sent.already_there, sent.retries)


def read(spark: SparkSession, options: ReplayOptions, until_ms: int) -> DataFrame:
    """The messages of the source within the times, in the source's columns."""
    if options.lake is None:
        given = options.setup.reading_options | {
            "subscribe": options.source,
            "endingTimestamp": str(until_ms),
            "startingOffsetsByTimestampStrategy": "latest",
        }
        if options.since_ms is not None:
            given["startingTimestamp"] = str(options.since_ms)
        return spark.read.format("orbitmq").options(**given).load()
    from orbitmq.spark.lake.reading import read_lake

    frame = read_lake(spark, options.lake, topics=[options.source])
    lacking = [
        name
        for name in (*PLACE, "body", "properties", "keys", "tags", "flag", "storeTimestamp")
        if name not in frame.columns
    ]
    if lacking:
        raise JobFailed(f"the lake {options.lake} was written without {', '.join(lacking)}: not to replay")
    stored = sf.unix_millis("storeTimestamp")
    frame = frame.filter(stored < until_ms)
    return frame if options.since_ms is None else frame.filter(stored >= options.since_ms)


def outgoing(frame: DataFrame, options: ReplayOptions) -> DataFrame:
    """The columns that the sink takes, for messages of a source or lake."""
    columns = [
        sf.lit(options.target).alias("topic"),
        sf.col("body"),
        sf.col("keys"),
        sf.col("tags"),
        own_properties().alias("properties"),
        sharding_key().alias("shardingKey"),
        sf.col("flag"),
        place_key().alias("onceKey"),
    ]
    if options.shift_ms is not None:
        columns.append(_deliver_at(options.shift_ms).alias("deliverAt"))
    return frame.select(*columns)


def _deliver_at(shift_ms: int) -> Any:
    at = sf.unix_millis("storeTimestamp") + sf.lit(shift_ms)
    return sf.when(at > int(time.time() * 1000), at)


def _check(options: ReplayOptions) -> None:
    if options.lake is None and options.source == options.target and options.until_ms is None:
        raise JobFailed(
            f"{options.source} is replayed into itself: give --until, so that it is clear what is old"
        )
    until_ms = options.until_ms
    if options.since_ms is not None and until_ms is not None and options.since_ms >= until_ms:
        raise JobFailed("--since is not before --until: there is nothing between them")
    if options.rate is not None and options.rate <= 0:
        raise JobFailed("--rate has to be above 0")


def _check_shift(frame: DataFrame, options: ReplayOptions) -> None:
    """Refuses before the first send what a broker would refuse half-way."""
    if options.shift_ms is None:
        return
    last = frame.agg(sf.max(sf.unix_millis("storeTimestamp"))).collect()[0][0]
    if last is not None and last + options.shift_ms > time.time() * 1000 + MOST_AHEAD_MS:
        raise JobFailed(
            "--shift leads more than 3 days ahead, and brokers keep no message that long before its time"
        )


def _would_do(frame: DataFrame, options: ReplayOptions) -> ReplayResult:
    count, first, last = frame.agg(
        sf.count("*"), sf.min("storeTimestamp"), sf.max("storeTimestamp")
    ).collect()[0]
    samples = outgoing(frame, options).limit(SAMPLES).collect()
    return ReplayResult(
        planned=count, first_stored=first, last_stored=last, samples=[row.asDict() for row in samples]
    )


@dataclass(slots=True)
class _Plan:
    """Content of a checkpoint: the request, the name of the write, and whether it is done."""

    asked: dict[str, Any]
    write_id: str
    until_ms: int
    done: dict[str, Any] | None = None
    path: Path | None = None
    is_new: bool = True

    @classmethod
    def at(cls, checkpoint: str | None, options: ReplayOptions) -> _Plan:
        """The plan of an earlier run, or a new one. Raises JobFailed for that of another replay."""
        asked = {
            "source": options.source,
            "lake": options.lake,
            "target": options.target,
            "since_ms": options.since_ms,
            "until_ms": options.until_ms,
            "where": options.where,
            "shift_ms": options.shift_ms,
        }
        until_ms = options.until_ms if options.until_ms is not None else int(time.time() * 1000)
        path = Path(checkpoint) / PLAN if checkpoint is not None else None
        if path is None or not path.exists():
            return cls(asked, uuid.uuid4().hex, until_ms, path=path)
        try:
            held = json.loads(path.read_text())
            found = cls(held["asked"], held["write_id"], held["until_ms"], held["done"], path, False)
        except (ValueError, KeyError, TypeError) as error:
            raise JobFailed(f"{path} is no checkpoint of this job: {error!r}") from None
        if found.asked != asked:
            other = ", ".join(name for name in asked if asked[name] != found.asked.get(name))
            raise JobFailed(f"{path} is the checkpoint of another replay: {other} differ. Give it its own")
        return found

    def save_if_new(self) -> bool:
        """Writes it down before the first message leaves. True if this is the first run."""
        if self.is_new:
            self._save()
        return self.is_new

    def finish(self, sent: Sent) -> None:
        self.done = asdict(sent)
        self._save()

    def _save(self) -> None:
        if self.path is None:
            return
        kept = {name: getattr(self, name) for name in ("asked", "write_id", "until_ms", "done")}
        write_whole(self.path, json.dumps(kept))


EXAMPLES = """\
orbitmq job replay --topic orders --to orders-test --since 2026-01-31 --until 2026-02-01 --dry-run
orbitmq job replay --topic orders --to orders-test --where "tags = 'paid' and text like '%EUR%'" --rate 500
orbitmq job replay --lake ./lake --topic orders --to orders --until now --checkpoint ./replay-1
orbitmq job replay --topic orders --to load-test --shift-s 86400 --checkpoint ./replay-2"""


@job(
    "replay",
    examples=EXAMPLES,
    checkpoint="Folder for the progress of the job: a run after a crash sends nothing twice.",
    dry_run="Show the number of matching messages and some of them; send nothing.",
)
@click.option("-t", "--topic", required=True, help="Topic to read messages from.")
@click.option("--lake", metavar="FOLDER|URL", help="Read this lake of `job archive` instead of brokers.")
@click.option("--to", "target", required=True, metavar="TOPIC", help="Topic to send to. It has to exist.")
@click.option(
    "--since", type=Moment(), help="Only messages stored at this time or later. [default: the first message]"
)
@click.option("--until", type=Moment(), help="Only messages stored before this time. [default: now]")
@click.option(
    "--where",
    metavar="SQL",
    help="Only messages that match this Spark SQL condition; `text` is the body as text.",
)
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Messages per second, in total.")
@click.option(
    "--shift-s",
    type=float,
    metavar="SECONDS",
    help="Deliver each message this long after its first store time, unless that time has passed.",
)
def replay(
    setup: JobSetup,
    ui: JobUi,
    topic: str,
    lake: str | None,
    target: str,
    since: int | None,
    until: int | None,
    where: str | None,
    rate: float | None,
    shift_s: float | None,
) -> Result:
    """Send messages of a topic or a lake again, to a topic.

    Keys, tag, sharding key, flag and user properties are kept. Message ids are new.
    """
    shift_ms = None if shift_s is None else int(shift_s * 1000)
    options = ReplayOptions(topic, target, setup, lake, since, until, where, rate, shift_ms)
    done = run(options, ui)
    if setup.dry_run:
        heads = columns("onceKey keys tags body", onceKey="From", tags="Tag")
        rows = [
            (row["onceKey"], row["keys"], row["tags"], bytes(row["body"])[:80].decode("utf-8", "replace"))
            for row in done.samples
        ]
        span = f", stored {done.first_stored} to {done.last_stored}" if done.planned else ""
        ui.say(f"would send {counted(done.planned, 'message')} to {target}{span}")
        return Rows(heads, rows, f"{counted(done.planned, 'message')} in all")
    return Facts(
        {
            "messages": done.messages,
            "already there": done.already_there,
            "requests tried again": done.retries,
            "done before": done.done_before,
        }
    )
