"""The audit of `dedup`: keys that were sent, and with a trace consumed, more than once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orbitmq.spark.jobs.job import QUIET, JobSetup, JobUi
from orbitmq.spark.jobs.preflight import need_topics, need_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 1000
"""Rows of an audit that are shown; all are counted."""


@dataclass(frozen=True, slots=True)
class RepeatsOptions:
    """Options of a search for repeated messages."""

    topics: tuple[str, ...]
    setup: JobSetup = field(default_factory=JobSetup)
    key: str = "keys"
    trace: str | None = None
    """Trace topic, or folder of the job `trace`, that says what was consumed."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The first thousand rows of each table, and the number of all."""

    sent: list[Any]
    sent_keys: int
    consumed: list[Any]
    consumed_keys: int


def audit(options: RepeatsOptions, ui: JobUi = QUIET) -> Repeats:
    """Finds keys that were sent, and with a trace consumed, more than once."""
    from orbitmq.spark.jobs import trace_tables
    from orbitmq.spark.jobs.dedup import tables
    from orbitmq.spark.jobs.trace_records import traced

    tables.parsed_key(options.key)
    need_topics(options.setup, options.topics)
    folder = None if options.trace is None else need_trace(options.setup, options.trace)
    with options.setup.session("dedup audit") as spark, ui.spark_progress(spark, "looking for repeats"):
        key = tables.business_key(options.key)
        given = {"subscribe": ",".join(options.topics), "columns": ",".join(tables.KEY_COLUMNS)}
        messages = spark.read.format("orbitmq").options(**options.setup.reading_options, **given).load()
        sent, sent_keys = _first(tables.sent_repeatedly(messages, key))
        consumed: list[Any] = []
        consumed_keys = 0
        if options.trace is not None:
            records = trace_tables.distinct(traced(spark, options.setup, options.trace, folder))
            handled = trace_tables.handlings(records)
            consumed, consumed_keys = _first(tables.consumed_repeatedly(handled, messages, key))
        result = Repeats(sent, sent_keys, consumed, consumed_keys)
        if options.setup.report is not None:
            _report(options, result).write(options.setup.report)
    return result


def _first(frame: DataFrame) -> tuple[list[Any], int]:
    kept = frame.persist()
    try:
        return kept.limit(SHOWN).collect(), kept.count()
    finally:
        kept.unpersist()


def _report(options: RepeatsOptions, result: Repeats) -> Any:
    from orbitmq.spark.jobs.dedup.tables import KEY
    from orbitmq.spark.jobs.report import Report

    page = Report("Repeats", about=f"Topics {', '.join(options.topics)}, by {options.key}; times are UTC.")
    page.figures({"keys sent repeatedly": result.sent_keys, "keys consumed repeatedly": result.consumed_keys})
    page.heading("Sent more than once")
    page.text(
        "One message id: a send was repeated on its way. Several: the application has sent several times."
    )
    heads = ["topic", KEY, "times", "messageIds", "firstAt", "lastAt", "places"]
    page.table(heads, [[row[name] for name in heads] for row in result.sent])
    most = result.sent[:20]
    page.bars("The most frequent", [row[KEY] for row in most], [row["times"] for row in most], "messages")
    if options.trace is not None:
        page.heading("Handled with success more than once by one group")
        heads = ["clientGroup", *heads[:-1], "clients"]
        page.table(heads, [[row[name] for name in heads] for row in result.consumed])
    return page
