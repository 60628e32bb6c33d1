"""`orbitmq job audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orbitmq.admin.output import Facts, Rows, columns
from orbitmq.plurals import counted
from orbitmq.spark.jobs.audit.auditing import CHECKS, DEFAULT_MOST, AuditOptions, AuditResult, run
from orbitmq.spark.jobs.job import JobSetup, JobUi, job

if TYPE_CHECKING:
    from orbitmq.admin.output import Result

FAILED = 1
COLUMNS = columns(
    "severity check store topic queueId queueOffset physicalOffset detail file",
    queueId="Queue",
    detail="What",
)


@job(
    "audit",
    cluster=False,
    checkpoint="Folder for the progress of the search: a run after a crash continues from it.",
    report="Also write the findings to this HTML page.",
    examples="""orbitmq job audit /var/lib/orbitmq
orbitmq job audit '/backup/*/store' --check records --check queues
orbitmq job audit '/backup/*/store' --checkpoint ./audit-1 --report audit.html
orbitmq job audit s3://backup/broker-a --storage-options '{"anon":true}' --json""",
)
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option(
    "--check",
    "checks",
    multiple=True,
    type=click.Choice(CHECKS),
    help="Run only this check. Repeatable. [default: all]",
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=DEFAULT_MOST,
    help="Maximum of findings to show; all are counted.",
)
@click.option(
    "--index-slots",
    type=click.IntRange(min=0),
    default=0,
    show_default=False,
    help="maxHashSlotNum of the brokers, if maxIndexNum is not four times as large.",
)
@click.option("--storage-options", metavar="JSON", help="Options for fsspec, for stores in object storage.")
def audit(
    setup: JobSetup,
    ui: JobUi,
    stores: tuple[str, ...],
    checks: tuple[str, ...],
    most: int,
    index_slots: int,
    storage_options: str | None,
) -> Result | None:
    """Verify the files of brokers: each STORE is a data folder, or a URL that fsspec knows.

    Checks: `records`, every record of the log is whole and matches its checksum; `queues`, units of consume
    queues and records of the log match; `index`, entries of the index and keys of messages match; `offsets`,
    no group is past the end of a queue; `transactions`, half messages without a decision, as warnings.

    The exit code is 1 if there are errors. Writes of a running broker can show up as findings: take a
    snapshot (`orbitmq admin snapshot`) and audit that.
    """
    options = AuditOptions(
        stores,
        setup,
        checks or CHECKS,
        most,
        index_slots=index_slots,
        storage_options=_storage_options(storage_options),
    )
    result = run(options, ui)
    ui.show(_shown(result, ui.as_json))
    if setup.report is not None:
        write_report(result, setup.report)
    if result.errors:
        click.get_current_context().exit(FAILED)
    return None


def _storage_options(text: str | None) -> tuple[tuple[str, object], ...]:
    if text is None:
        return ()
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise click.BadParameter("a JSON object is expected", param_hint="--storage-options")
    return tuple(parsed.items())


def _shown(result: AuditResult, as_json: bool) -> Result:
    if as_json:
        return Facts({"summary": result.summary, "counts": result.counts, "findings": result.findings})
    left_out = result.errors + result.warnings - len(result.findings)
    more = f" ({left_out} are not shown)" if left_out else ""
    return Rows.picked(COLUMNS, result.findings, f"{_summary(result)}{more}")


def _summary(result: AuditResult) -> str:
    records, units = (sum(one[name] for one in result.summary) for name in ("records", "units"))
    return (
        f"{counted(len(result.summary), 'store')}, {counted(records, 'record')}, {counted(units, 'unit')}: "
        f"{result.errors} errors, {result.warnings} warnings"
    )


def write_report(result: AuditResult, path: Path) -> None:
    """The findings as a page. Raises ReportUnavailable, OSError."""
    from orbitmq.spark.jobs.report import Report

    report = Report("Audit of stores")
    report.text(_summary(result))
    heads = list(result.summary[0]) if result.summary else ["store"]
    report.table(heads, [[one[head] for head in heads] for one in result.summary], caption="What was read")
    if result.counts:
        labels = [f"{one['check']}: {one['severity']} ({one['store']})" for one in result.counts]
        report.bars("Findings", labels, [one["findings"] for one in result.counts])
    rows = [[row[column.key] for column in COLUMNS] for row in result.findings]
    report.table([column.head for column in COLUMNS], rows, caption="Findings")
    report.write(path)
