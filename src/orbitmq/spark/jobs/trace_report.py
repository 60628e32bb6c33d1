"""The page of the job `trace`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from orbitmq.spark.jobs.report import Report
from orbitmq.spark.jobs.trace_tables import latency_over_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POINTS = 120
"""Of the chart of latency over time."""


def report(
    tables: Mapping[str, DataFrame], handled: DataFrame, *, topic: str, records: int, bad: int, slow_ms: int
) -> Report:
    """The report page of `trace`. `handled` comes from `with_topics`, `records` and `bad` are counts."""
    page = Report("Message trace", about=f"Trace topic {topic}; times are UTC.")
    latency = tables["latency"].collect()
    page.figures(
        {
            "trace records": records,
            "messages with a known way": sum(row.messages for row in latency),
            "retried": sum(row.retried for row in latency),
        }
    )
    if bad:
        page.text(f"{bad:,} parts of trace messages are no records; column `bad` holds them.")
    page.heading("From send to handled")
    page.text(
        "From the beginning of a send to the end of its first successful handling, by the clocks of the "
        "machines involved. Delayed messages are apart: their time includes the delay that was asked for."
    )
    page.table(tables["latency"].columns, latency)
    plain = [row for row in latency if not row.delayed]
    names = [f"{row.topic} / {row.clientGroup}" for row in plain]
    page.bars("99th percentile", names, [row.endToEndP99Ms for row in plain], "ms")
    _over_time(page, handled)
    page.heading("Consumers, the slowest first")
    page.text(f"Slow is what took more than {slow_ms:,} ms to handle.")
    page.frame(tables["consumers"])
    page.heading("Messages that were not handled at the first attempt")
    page.frame(tables["first_attempt_failures"])
    page.heading("Producers")
    page.frame(tables["sending"])
    page.frame(tables["failed_sends"], caption="Sends that a broker answered with anything but SEND_OK.")
    return page


def _over_time(page: Report, handled: DataFrame) -> None:
    span = handled.select(sf.max(sf.unix_seconds("sentAt")) - sf.min(sf.unix_seconds("sentAt"))).first()
    if span is None or span[0] is None:
        return
    seconds = max(1, -(-int(span[0]) // POINTS))
    rows = latency_over_time(handled, seconds).collect()
    at = [row["at"] for row in rows]
    lines = {f"{share}": [row[f"endToEnd{share}Ms"] for row in rows] for share in ("P50", "P90", "P99")}
    page.line(f"Latency of messages by when they were sent, every {seconds:,} s", at, lines, "ms", "UTC")
    page.line("Messages handled", at, {"messages": [row["messages"] for row in rows]}, "messages", "UTC")
