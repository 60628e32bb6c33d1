"""The command `orbitmq job dlq`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orbitmq.admin.dead_letters.rules import MAX_REPLAYS
from orbitmq.admin.output import Facts, Result, Rows, columns
from orbitmq.plurals import counted
from orbitmq.spark.jobs.dlq.dead_letters import PATTERN
from orbitmq.spark.jobs.job import JobSetup, JobUi, job

if TYPE_CHECKING:
    from orbitmq.spark.jobs.dlq.running import DlqResult

EXAMPLES = """\
orbitmq job dlq --report dlq.html
orbitmq job dlq --lake ./dead-letters
orbitmq job dlq --redrive --audit ./redriven --where "group = 'billing' and exception = 'Timeout'" --dry-run
orbitmq job dlq --redrive --audit ./redriven --lake ./dead-letters --rate 50 --to retry"""


@job(
    "dlq",
    examples=EXAMPLES,
    dry_run="With --redrive: show what would be sent; send nothing.",
    report="Write an HTML page with tables and charts.",
)
@click.option("--pattern", default=PATTERN, metavar="REGEX", help="Dead-letter topics.")
@click.option(
    "--lake",
    metavar="FOLDER",
    help="Archive dead letters in this lake, beyond the brokers' retention, and report from it.",
)
@click.option(
    "--where",
    metavar="SQL",
    help="Dead letters for which this holds: group, originTopic, exception, shape, age, text, properties …",
)
@click.option(
    "--exception-property",
    default="exception",
    metavar="NAME",
    help="Property in which your consumers store the reason of the failure.",
)
@click.option("--redrive", is_flag=True, help="Send each dead letter again, once.")
@click.option(
    "--to",
    type=click.Choice(["origin", "retry"]),
    default="origin",
    help="The original topic, or the retry topic of the group that failed: no other group gets it then.",
)
@click.option(
    "--max-replays",
    type=click.IntRange(1, 1000),
    default=MAX_REPLAYS,
    help="Leave out dead letters whose message was sent again so many times, by this job or the console.",
)
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Messages per second, in total.")
@click.option(
    "--audit", metavar="FOLDER", help="Log of sent dead letters, with time and user; required by --redrive."
)
def dlq(setup: JobSetup, ui: JobUi, lake: str | None, redrive: bool, **given: Any) -> Result:
    """Report dead letters, archive them, or send a selection of them again."""
    from orbitmq.spark.jobs.dlq.running import DlqOptions, run

    done = run(DlqOptions(setup, lake=lake, redrive=redrive, **given), ui)
    if redrive:
        return _redriven(done, dry_run=setup.dry_run)
    kept = f", {done.kept} new in the lake" if lake is not None else ""
    return _groups(done, f"{counted(done.letters, 'dead letter')}{kept}")


def _redriven(done: DlqResult, *, dry_run: bool) -> Facts:
    return Facts(
        {
            "letters": done.letters,
            "would send" if dry_run else "selected": done.selected,
            "would write" if dry_run else "written": (
                ", ".join(f"{topic} ({letters})" for topic, letters in done.topics.items()) or None
            ),
            "nowhere to send": done.homeless,
            "sent again too often": done.too_often,
            "sent": done.sent,
            "already there": done.already_there,
            "carried on": ", ".join(done.carried_on) or None,
            "run": done.run,
        }
    )


def _groups(done: DlqResult, note: str) -> Rows:
    """Dead letters by topic, group and reason."""
    heads = columns(
        "originTopic group reason letters oldest newest example",
        times="oldest newest",
        originTopic="Original topic",
        reason="Exception or body",
        letters="Dead letters",
    )
    return Rows.picked(heads, done.groups, note)
