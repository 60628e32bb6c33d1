"""`orbitmq admin store`: backup and restore of the decisions that controllers keep in a consensus store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from orbitmq.admin.output import Done, show
from orbitmq.cli.admin.command import COMMANDS, FIRST_EXAMPLES, epilog
from orbitmq.cli.flags import ServerFlags
from orbitmq.flags import all_of
from orbitmq.plurals import counted
from orbitmq.whole_files import write_whole

if TYPE_CHECKING:
    from orbitmq.server.controller.consensus import ConsensusStore

T = TypeVar("T")

BACKUP_EXAMPLE = "orbitmq admin store backup decisions.json --store etcd://e1:2379,e2:2379"
RESTORE_EXAMPLE = "orbitmq admin store restore decisions.json --store etcd://e1:2379,e2:2379"


_flags = all_of(
    click.option(
        "--store", "address", metavar="etcd|zookeeper://HOST:PORT[,...]",
        help="Members of the consensus store. Needed without --config.",
    ),
    click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False, exists=True),
        help="The options file of the controllers.",
    ),
    click.option(
        "--set", "assignments", multiple=True, metavar="NAME=VALUE",
        help="Another option of the controllers, such as storePrefix or storeCaPath. Repeatable.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)  # fmt: skip


def _with_store(
    address: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    act: Callable[[ConsensusStore], Awaitable[T]],
) -> T:
    """Does something with the store of these options. Raises OptionError, ConsensusError."""
    from orbitmq.cli.controller import controller_settings
    from orbitmq.server.controller.stores import open_store  # Linux only, unlike the other commands

    settings = controller_settings(
        ServerFlags(config=config, assignments=assignments), {"storeAddress": address}
    )

    async def run() -> T:
        store = open_store(settings)
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())


@click.command(epilog=epilog([BACKUP_EXAMPLE]))
@_flags
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(
    file: Path, address: str | None, config: Path | None, assignments: tuple[str, ...], as_json: bool
) -> None:
    """Write the decisions of controllers to FILE, while they work: groups, epochs, in-sync sets, options."""
    from orbitmq.controller.backup import backup_text, groups_in
    from orbitmq.server.controller.backup import read_decisions

    texts = _with_store(address, config, assignments, read_decisions)
    write_whole(file, backup_text(texts, int(time.time() * 1000)))
    groups = groups_in(texts)
    show(Done(f"{file} has {counted(len(groups), 'broker group')}", {"groups": groups}), as_json)


@click.command(epilog=epilog([RESTORE_EXAMPLE]))
@_flags
@click.option("--replace", "replaces", is_flag=True, help="Write over the groups that the store has.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def restore(
    file: Path,
    replaces: bool,
    address: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the decisions in FILE to a store without controllers.

    The in-sync sets of the backup count for nothing: each group has no master until all its members were
    heard, and then the one with the most complete log is elected. `orbitmq admin controller elect` need not
    wait for members that will not come back.
    """
    from orbitmq.controller.backup import groups_in, restored_texts
    from orbitmq.server.controller.backup import write_decisions

    texts = restored_texts(file.read_text("utf-8"), int(time.time() * 1000))
    _with_store(address, config, assignments, lambda store: write_decisions(store, texts, replaces=replaces))
    groups = groups_in(texts)
    show(
        Done(f"restored {counted(len(groups), 'broker group')}: start the controllers", {"groups": groups}),
        as_json,
    )


COMMANDS["store"] |= {"backup": backup, "restore": restore}
FIRST_EXAMPLES["store"] += [BACKUP_EXAMPLE, RESTORE_EXAMPLE]
