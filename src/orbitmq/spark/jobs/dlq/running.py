"""The job's run: keep, report, redrive."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orbitmq.admin.dead_letters.rules import MAX_REPLAYS, WRITE_ID
from orbitmq.net.address import default_namesrv, parse_addresses
from orbitmq.spark import functions as sf
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.dlq.audit import Audit
from orbitmq.spark.jobs.dlq.dead_letters import AGES, OLDER, PATTERN, dead_letters, summary
from orbitmq.spark.jobs.dlq.redrive import ORIGIN, carry_out, not_yet_sent, plan, targeted
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobSetup, JobUi
from orbitmq.spark.jobs.resending import matching
from orbitmq.spark.read.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.jobs.report import Report


@dataclass(frozen=True, slots=True)
class DlqOptions:
    """Selection of dead letters, and the action on them."""

    setup: JobSetup = field(default_factory=JobSetup)
    pattern: str = PATTERN
    """A regular expression for the names of dead-letter topics."""
    lake: str | None = None
    """Bring dead letters into this lake first, and report from it: it holds what brokers no longer do."""
    where: str | None = None
    """SQL over the columns of `dead_letters`; `text` is the body as text."""
    exception_property: str = "exception"
    redrive: bool = False
    to: str = ORIGIN
    rate: float | None = None
    audit: str | None = None
    max_replays: int = MAX_REPLAYS
    """Dead letters that were sent again so many times stay."""


MOST_TOPICS = 50
"""Topics that a redrive names."""


@dataclass(slots=True)
class DlqResult:
    """The dead letters found, and the result of the action."""

    groups: list[Any] = field(default_factory=list)
    """Rows of `summary`."""
    letters: int = 0
    kept: int = 0
    """Dead letters that came into the lake in this run."""
    selected: int = 0
    """Dead letters to redrive; of a dry run: that would be."""
    homeless: int = 0
    """Those of them that stay where they are: their topic is not known, or there is none of that name."""
    too_often: int = 0
    """Dead letters that stay, for they were sent again `max_replays` times."""
    topics: dict[str, int] = field(default_factory=dict)
    """The topics that are written, or of a dry run would be, and how many of them go there; 50 at most."""
    sent: int = 0
    already_there: int = 0
    carried_on: list[str] = field(default_factory=list)
    """Runs that had been cut off, and are finished now."""
    run: str | None = None


def run(options: DlqOptions, ui: JobUi = QUIET) -> DlqResult:
    """Raises BadOption, JobFailed, and what the source, the archive and the sink raise."""
    setup = options.setup
    try:
        re.compile(options.pattern)
    except re.error as error:
        raise BadOption(f"--pattern {options.pattern}: {error}") from None
    if options.redrive and options.audit is None:
        raise JobFailed("--redrive needs --audit FOLDER: it remembers what was sent, so that it is sent once")
    result = DlqResult()
    with setup.session("dlq") as spark:
        now_ms = int(time.time() * 1000)
        if options.lake is not None and not setup.dry_run:
            result.kept = _keep(options, ui)
        frame = _read(spark, options)
        if frame is None:
            ui.say("there are no dead-letter topics")
            return result
        found = dead_letters(frame, exception_property=options.exception_property, now_ms=now_ms)
        chosen = matching(found, options.where)
        with ui.spark_progress(spark, "dead letters"):
            result.groups = summary(chosen).collect()
        result.letters = sum(row["letters"] for row in result.groups)
        if options.redrive:
            _redrive(spark, options, ui, found, chosen, result)
        if setup.report is not None:
            _report(result, options).write(setup.report)
    return result


def _cluster(setup: JobSetup) -> Cluster:
    return Cluster(parse_addresses(setup.namesrv or default_namesrv()), setup.connecting)


def _topics(options: DlqOptions) -> list[str]:
    with _cluster(options.setup) as cluster:
        return cluster.topics_that_match(options.pattern)


def _keep(options: DlqOptions, ui: JobUi) -> int:
    """Brings what is new into the lake; how many dead letters that were."""
    from orbitmq.spark.jobs.archive.running import ArchiveOptions
    from orbitmq.spark.jobs.archive.running import run as archive
    from orbitmq.spark.lake.storage import LakeLocation

    topics = _topics(options)
    if not topics:
        return 0
    assert options.lake is not None
    done = archive(
        ArchiveOptions(
            LakeLocation(options.lake), tuple(topics), setup=options.setup, allow_data_loss=True, compact=True
        ),
        ui,
    )
    for lost in done.lost:
        ui.warn(f"{lost}: they were gone before they came into the lake")
    return done.messages


def _read(spark: SparkSession, options: DlqOptions) -> DataFrame | None:
    """All dead letters there are; None where there is no place to look."""
    if options.lake is not None:
        from orbitmq.spark.lake.errors import LakeError
        from orbitmq.spark.lake.reading import read_lake

        try:
            kept = read_lake(spark, options.lake)
            return kept.filter(kept["topic"].rlike(f"^(?:{options.pattern})$"))
        except LakeError:
            if not options.setup.dry_run and _topics(options):
                raise
    if not _topics(options):
        return None
    given = options.setup.reading_options | {"subscribePattern": options.pattern}
    return spark.read.format("orbitmq").options(**given).load()


def _redrive(
    spark: SparkSession,
    options: DlqOptions,
    ui: JobUi,
    found: DataFrame,
    chosen: DataFrame,
    result: DlqResult,
) -> None:
    assert options.audit is not None
    audit = Audit(options.audit)
    setup = options.setup
    if not setup.dry_run:
        for cut_off in audit.unfinished():
            ui.say(f"carrying on with run {cut_off.run}, which was cut off")
            # Earlier versions gave each run identities of its own.
            write_id = WRITE_ID if WRITE_ID in cut_off.asked else f"redrive-{cut_off.run}"
            sent = carry_out(
                spark, found, audit, cut_off.run, setup, ui, write_id=write_id, rate=options.rate
            )
            result.carried_on.append(cut_off.run)
            result.sent += sent.messages
            result.already_there += sent.already_there
    chosen = targeted(not_yet_sent(chosen, audit), options.to)
    looping = chosen["replays"] >= options.max_replays
    rows = chosen.groupBy("target", looping.alias("looping")).count().collect()
    result.too_often = sum(row["count"] for row in rows if row["looping"])
    counts = {row["target"]: row["count"] for row in rows if not row["looping"]}
    gone = _without_queues([target for target in counts if target is not None], setup)
    result.selected = sum(counts.values())
    result.homeless = sum(counts.pop(target, 0) for target in (None, *gone))
    result.topics = dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MOST_TOPICS])
    if setup.dry_run or not result.selected:
        return
    asked = {"where": options.where, "to": options.to, "pattern": options.pattern, WRITE_ID: True}
    selected = chosen.filter(~looping)
    # A run that is begun has to be able to end: messages whose topic is gone have no target.
    selected = selected.withColumn("target", sf.when(~sf.col("target").isin(gone), sf.col("target")))
    result.run = plan(selected, audit, asked)
    with ui.spark_progress(spark, "redrive"):
        sent = carry_out(spark, found, audit, result.run, setup, ui, rate=options.rate)
    result.sent += sent.messages
    result.already_there += sent.already_there


def _without_queues(topics: list[str], setup: JobSetup) -> list[str]:
    with _cluster(setup) as cluster:
        return [topic for topic in topics if cluster.queues_of(topic) is None]


def _report(result: DlqResult, options: DlqOptions) -> Report:
    from orbitmq.spark.jobs.report import Report

    report = Report("Dead letters", about=f"where {options.where}" if options.where else "")
    figures = {"dead letters": result.letters, "kinds": len(result.groups)}
    if options.lake is not None:
        figures["new in the lake"] = result.kept
    if options.redrive:
        figures |= {"selected": result.selected, "sent": result.sent}
    report.figures(figures)
    by_group: dict[str, int] = {}
    for row in result.groups:
        by_group[row["group"]] = by_group.get(row["group"], 0) + row["letters"]
    ranked = sorted(by_group.items(), key=lambda one: -one[1])
    report.bars("Dead letters by group", [name for name, _ in ranked], [count for _, count in ranked])
    ages = [*(name for _, name in AGES), OLDER]
    report.bars("Dead letters by age", ages, [sum(row[age] for row in result.groups) for age in ages])
    columns = ["original topic", "group", "exception or body", "dead letters", "oldest", "newest", "example"]
    names = ("originTopic", "group", "reason", "letters", "oldest", "newest", "example")
    report.table(
        columns, [[row[name] for name in names] for row in result.groups], caption="Kinds of dead letters"
    )
    return report
