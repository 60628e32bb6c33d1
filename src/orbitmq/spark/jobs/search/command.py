"""The command `orbitmq job search`."""

from __future__ import annotations

from typing import Any

import click

from orbitmq.admin.output import Result, Rows, columns, time_text
from orbitmq.flags import Moment, pairs_of
from orbitmq.plurals import counted
from orbitmq.spark.jobs.archive.command import lake_location
from orbitmq.spark.jobs.job import JobSetup, JobUi, job
from orbitmq.spark.jobs.search.matching import Found, Wanted

EXAMPLES = """\
orbitmq job search --lake ./lake --topic orders --key o-17
orbitmq job search --topic orders --id 7F00000100002A9F0000000000000000
orbitmq job search --lake ./lake --topic orders --text 'no stock' --since 2026-01-01 --until 2026-02-01
orbitmq job search --lake ./lake --no-live --property region=EU --report found.html
orbitmq job search --topic orders --text 'no stock' --checkpoint ./search-1"""

MOST_SHOWN = 60
"""Characters of a body in a table."""


@job(
    "search",
    examples=EXAMPLES,
    checkpoint="Folder for the progress of the search: a run after a crash continues from it.",
    report="Also write the results to this HTML page.",
)
@click.option("--lake", metavar="FOLDER|URL", help="Search this lake as well.")
@click.option(
    "-t", "--topic", "topics", multiple=True, help="Topic. Repeatable. [default: those of the lake]"
)
@click.option("--key", help="A key of the message.")
@click.option("--id", "message_id", help="Unique id from the producer, or offset id.")
@click.option("--tag", help="Tag of the message.")
@click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="A property. Repeatable.")
@click.option("--text", help="Text that the body contains.")
@click.option("--regex", "pattern", help="Regular expression (Java syntax) to find in the body.")
@click.option("--since", "since_ms", type=Moment(), help="Stored at this time or later.")
@click.option("--until", "until_ms", type=Moment(), help="Stored before this time.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, help="Maximum of messages to show.")
@click.option(
    "--live/--no-live",
    default=True,
    show_default=False,
    help="Also search brokers, for messages that are not in the lake. [default: live]",
)
@click.option("--scan", is_flag=True, help="Scan whole topics instead of using the brokers' indexes.")
@click.option(
    "--storage-option",
    "storage",
    metavar="NAME=VALUE",
    multiple=True,
    help="Option for fsspec, if the lake is a URL. Repeatable.",
)
def search(
    setup: JobSetup,
    ui: JobUi,
    lake: str | None,
    topics: tuple[str, ...],
    limit: int,
    live: bool,
    scan: bool,
    storage: tuple[str, ...],
    properties: tuple[str, ...],
    **conditions: Any,
) -> Result:
    """Find messages by key, id, property or text, in the lake and on brokers.

    Messages have to match all given conditions. The oldest are shown first.
    """
    from orbitmq.spark.jobs.search.running import SearchOptions, run

    if lake is None and not live:
        raise click.UsageError("--no-live needs a --lake to look in")
    wanted = Wanted(properties=tuple(pairs_of(properties, "--property")), **conditions)
    where = None if lake is None else lake_location(lake, storage)
    asked = SearchOptions(wanted, tuple(dict.fromkeys(topics)), where, live, scan, limit, setup)
    result = run(asked, ui)
    if setup.report is not None:
        write_report(result.messages, setup.report, result.cut)
    looked = f"{len(result.messages)} found in {', '.join(result.places) or 'nothing'}"
    if lake is not None:
        looked += f"; {counted(result.files, 'file')} of the lake read, {result.files_left_out} left out"
    if result.cut:
        looked += f"; there may be more than {limit}: --limit"
    return Rows(_HEADS, [_row(one, as_json=ui.as_json) for one in result.messages], looked)


_HEADS = columns(
    "topic broker queueId queueOffset stored tag keys messageId offsetMessageId place body",
    times="stored",
    queueId="Queue",
    queueOffset="Offset",
    offsetMessageId="Offset id",
    place="In",
)


def _row(one: Found, *, as_json: bool) -> tuple[object, ...]:
    body = one.body.decode(errors="replace")
    return (
        one.topic,
        one.broker_name,
        one.queue_id,
        one.queue_offset,
        one.store_ms,
        one.tags,
        one.keys,
        one.message_id,
        one.offset_message_id,
        one.place,
        body if as_json else _shortened(body),
    )


def _shortened(body: str) -> str:
    line = "".join(one if one.isprintable() else "·" for one in body[: MOST_SHOWN + 1])
    return line if len(body) <= MOST_SHOWN else f"{line[:MOST_SHOWN]}…"


def write_report(messages: list[Found], path: object, cut: bool) -> None:
    """Writes the findings as a page. Raises ReportUnavailable, OSError."""
    from orbitmq.spark.jobs.report import Report

    report = Report("Messages found")
    report.text(
        f"{counted(len(messages), 'message')}, oldest first{', and there may be more' if cut else ''}."
    )
    rows = [
        (
            time_text(one.store_ms),
            one.topic,
            f"{one.broker_name}|{one.queue_id}",
            one.queue_offset,
            one.tags,
            one.keys,
            one.message_id,
            " ".join(f"{name}={value}" for name, value in one.properties),
            one.body.decode(errors="replace"),
        )
        for one in messages
    ]
    heads = ["stored", "topic", "queue", "offset", "tag", "keys", "message id", "properties", "body"]
    report.table(heads, rows)
    report.write(path)  # type: ignore[arg-type]
