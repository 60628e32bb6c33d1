"""`orbitmq admin snapshot`: a consistent copy of a broker's data folder, on the machine where it is."""

from __future__ import annotations

from pathlib import Path

import click

from orbitmq.admin.output import Facts, show
from orbitmq.cli.admin.command import ALONE


@click.command(
    epilog="""\b
Examples:
  orbitmq admin snapshot --data-dir /var/lib/orbitmq /var/lib/orbitmq-2026-11-21
  orbitmq standalone --data-dir /var/lib/orbitmq-2026-11-21"""
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The broker's data folder. The broker may be running.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("target", type=click.Path(path_type=Path))
def snapshot(data_dir: Path, as_json: bool, target: Path) -> None:
    """Copy a broker's data folder to TARGET while the broker works.

    Full segments are hard-linked if TARGET is on the same disk, and copied otherwise. The copy holds all
    messages acknowledged before the command. A broker that opens it runs the recovery after a crash. Links
    do not protect against a failing disk: copy TARGET to another disk.
    """
    from orbitmq.store.snapshot import take_snapshot  # Linux only, unlike the other commands

    figures = take_snapshot(data_dir, target)
    facts = {
        "folder": str(target),
        "linkedFiles": figures.linked_files,
        "linkedBytes": figures.linked_bytes,
        "copiedFiles": figures.copied_files,
        "copiedBytes": figures.copied_bytes,
    }
    show(Facts(facts), as_json)


ALONE["snapshot"] = snapshot
