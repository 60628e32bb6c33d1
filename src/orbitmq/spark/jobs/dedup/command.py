"""The command `orbitmq job dedup`."""

from __future__ import annotations

import re
from typing import Any

import click

from orbitmq.admin.output import Facts, Result, Rows, columns
from orbitmq.flags import Seconds
from orbitmq.plurals import counted
from orbitmq.spark.jobs.dedup.options import DedupOptions
from orbitmq.spark.jobs.dedup.repeats import Repeats, RepeatsOptions, audit
from orbitmq.spark.jobs.dedup.running import run
from orbitmq.spark.jobs.job import JobSetup, JobUi, job

WINDOW = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST_MS = 3650 * UNITS_MS["d"]
AUDIT = columns(
    "what clientGroup topic key times messageIds firstAt lastAt",
    times="firstAt lastAt",
    clientGroup="Group",
    firstAt="First",
    lastAt="Last",
)
EXAMPLES = """\
orbitmq job dedup --topic orders --window 6h --to-topic orders-once --checkpoint ./once
orbitmq job dedup --topic orders --key 'json:$.id' --to-lake ./orders --checkpoint ./once --follow 10
orbitmq job dedup --topic orders --audit --trace RMQ_SYS_TRACE_TOPIC --report repeats.html"""


def duration(_: Any, __: Any, value: str) -> int:
    """A flag like 90s, 15m or 6h, in ms."""
    found = WINDOW.fullmatch(value.strip())
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"{value!r} is no duration: 90s, 15m, 6h, 2d")
    ms = int(found[1]) * UNITS_MS[found[2]]
    if ms > LONGEST_MS:
        raise click.BadParameter(f"{value} is more than ten years")
    return ms


@job(
    "dedup",
    examples=EXAMPLES,
    checkpoint="Folder for known keys and progress. Required.",
    dry_run="Count messages and repeats; write nothing.",
    report="With --audit: write an HTML page.",
)
@click.option("-t", "--topic", "topics", multiple=True, required=True, help="Topic to read. Repeatable.")
@click.option(
    "--key",
    default="keys",
    metavar="KEY",
    help="keys, msgId, body, property:NAME, json:$.PATH or sql:EXPRESSION.",
)
@click.option(
    "--window",
    "window_ms",
    default="1h",
    callback=duration,
    help="Repeats stored up to this long after the first message are always dropped.",
)
@click.option("--to-topic", metavar="NAME", help="Topic to write to.")
@click.option("--to-lake", metavar="FOLDER|URL", help="Folder for Parquet files, by day.")
@click.option(
    "--follow", "follow_s", type=Seconds(0.1), help="Run until Ctrl-C, and look for new messages this often."
)
@click.option("--audit", "only_audit", is_flag=True, help="Only report keys that occur more than once.")
@click.option(
    "--trace",
    metavar="TOPIC|FOLDER",
    help="With --audit: also report keys that were consumed more than once.",
)
@click.option(
    "--allow-data-loss", is_flag=True, help="Continue after messages that were deleted before they were read."
)
def dedup(
    setup: JobSetup, ui: JobUi, topics: tuple[str, ...], only_audit: bool, trace: str | None, **given: Any
) -> Result:
    """Forward one message per business key, or report keys that were sent or consumed more than once."""
    if only_audit:
        if setup.checkpoint or any(given[name] for name in ("to_topic", "to_lake", "follow_s")):
            raise click.UsageError(
                "--audit only reports: --to-topic, --to-lake, --checkpoint and --follow do not go with it"
            )
        found = audit(RepeatsOptions(topics, setup, given["key"], trace), ui)
        return _rows(found, trace is not None)
    if trace is not None or setup.report is not None:
        raise click.UsageError("--trace and --report go with --audit")
    if bool(given["to_topic"]) == bool(given["to_lake"]):
        raise click.UsageError("give --to-topic or --to-lake, or --audit")
    if not setup.checkpoint and not setup.dry_run:
        raise click.UsageError("--checkpoint is needed: there it keeps which keys it has seen")
    done = run(DedupOptions(topics, setup, **given), ui)
    if setup.dry_run:
        return Facts({"messages": done.read, "repeats": done.repeats, "without key": done.keyless})
    return Facts(
        {"read": done.read, "repeats": done.repeats, "written": done.written, "batches": done.batches}
    )


def _rows(found: Repeats, traced: bool) -> Rows:
    rows = [{**row.asDict(), "what": "sent", "clientGroup": None} for row in found.sent]
    rows += [{**row.asDict(), "what": "consumed"} for row in found.consumed]
    more = f", {found.consumed_keys} consumed more than once" if traced else ""
    note = f"{counted(found.sent_keys, 'key')} sent more than once{more}"
    return Rows.picked(AUDIT, [{**row, "key": row["dedupKey"]} for row in rows], note)
