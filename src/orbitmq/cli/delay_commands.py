"""`orbitmq delay list`, `show`, `cancel`, `move`, `stats`, `backup`, `restore` and `import-chronos`."""

from __future__ import annotations

import functools
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from orbitmq.admin.output import Done, Facts, Result, Rows, columns
from orbitmq.admin.output import show as show_result
from orbitmq.client.delays import DelayClient, DelayedMessage, DelayError, DelayOutcome, DelayRefused
from orbitmq.flags import all_of

DEFAULT_ADDRESS = "127.0.0.1:8090"
SHOWN_BODY = 400
Command = Callable[..., Any]


class NotInTime(DelayError):
    """The action had no effect."""


def asking(command: Command) -> Command:
    """Adds --http, --token-file and --json: the command gets a client, and its result is printed."""

    @functools.wraps(command)
    def ask(http: str, token_file: str | None, as_json: bool, **given: Any) -> None:
        from orbitmq.delay_service.options import read_secret

        token = read_secret("--token-file", token_file) if token_file else None
        url = http if "://" in http else f"http://{http}"
        show_result(command(DelayClient(url, token=token), **given), as_json)

    return all_of(
        click.option(
            "--http",
            metavar="HOST:PORT",
            envvar="ORBITMQ_DELAY_HTTP",
            show_envvar=True,
            default=DEFAULT_ADDRESS,
            help="Address of the service's API.",
        ),
        click.option(
            "--token-file",
            envvar="ORBITMQ_DELAY_TOKEN_FILE",
            show_envvar=True,
            type=click.Path(dir_okay=False),
            help="File whose first line is the API's token.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    )(ask)


filtering = all_of(
    click.option(
        "--topic", default="", show_default=False, metavar="TOPIC", help="Target: TOPIC or CLUSTER/TOPIC."
    ),
    click.option("--from", "since", metavar="TIME", help="First due time: ms since 1970, or RFC 3339."),
    click.option("--to", "until", metavar="TIME", help="Last due time."),
    click.option("--prefix", default="", show_default=False, metavar="TEXT", help="Beginning of the name."),
)


CLUSTER = click.option("--cluster", default="main", metavar="NAME", help="Cluster that the name belongs to.")
CLUSTER_OF_ANY = click.option(
    "--cluster",
    metavar="NAME",
    help="Cluster that the name belongs to; of a filter, messages of this cluster alone. "
    "[default: main; of a filter, all]",
)
OWNER = click.option("--owner", metavar="TEXT", help="Owner of the name, if it has one.")


@click.command(
    "list",
    epilog="""\b
Examples:
  orbitmq delay list
  orbitmq delay list --topic orders --to 2030-01-31T12:00:00Z --max 20
  orbitmq delay list --prefix order-17 --json""",
)
@filtering
@click.option("--max", "most", type=click.IntRange(1, 100_000), default=50)
@asking
def list_messages(
    client: DelayClient, topic: str, since: str | None, until: str | None, prefix: str, most: int
) -> Result:
    """List pending messages by target, then by time; with --prefix by name."""
    found: list[DelayedMessage] = []
    more = False
    for one in client.list(topic=topic, since=_time(since), until=_time(until), prefix=prefix):
        if len(found) == most:
            more = True
            break
        found.append(one)
    heads = columns("due target id cluster occurrence size", times="due", id="Name", size="Bytes")
    return Rows.of(heads, found, "there are more: see --max" if more else "", due="due_ms", size="size_bytes")


@click.command(
    epilog="""\b
Examples:
  orbitmq delay show order-17-unpaid
  orbitmq delay show report --cluster events --json"""
)
@click.argument("name")
@CLUSTER
@asking
def show(client: DelayClient, name: str, cluster: str) -> Result:
    """Show a pending message with its body."""
    one = client.get(name, cluster=cluster)
    if one is None:
        raise DelayRefused(f"no message of the name {name!r} is pending in cluster {cluster}")
    return Facts(_facts(one), frozenset({"due"}))


def _facts(one: DelayedMessage) -> dict[str, Any]:
    body = (one.body or b"")[:SHOWN_BODY].decode("utf-8", "backslashreplace")
    facts: dict[str, Any] = {
        "id": one.id,
        "cluster": one.cluster,
        "target": one.target,
        "due": one.due_ms,
        "occurrence": one.occurrence,
    }
    if one.repeat:
        facts["repeat"] = ", ".join(f"{key}={value}" for key, value in one.repeat.items())
    facts.update({f"property {key}": value for key, value in one.properties.items()})
    facts["bytes"] = one.size_bytes
    facts["body"] = body + ("..." if one.size_bytes > SHOWN_BODY else "")
    return facts


@click.command(
    epilog="""\b
Examples:
  orbitmq delay cancel order-17-unpaid
  orbitmq delay cancel --prefix order-17
  orbitmq delay cancel --prefix order-17 --yes"""
)
@click.argument("name", required=False)
@CLUSTER_OF_ANY
@OWNER
@filtering
@click.option(
    "--yes", is_flag=True, help="Cancel the messages of a filter. Without it they are counted only."
)
@asking
def cancel(
    client: DelayClient,
    name: str | None,
    cluster: str | None,
    owner: str | None,
    topic: str,
    since: str | None,
    until: str | None,
    prefix: str,
    yes: bool,
) -> Result:
    """Cancel a message by its name, or all of a filter."""
    wanted = _filter(name, cluster, topic, since, until, prefix)
    if wanted is None:
        return _done(client.cancel(str(name), cluster=cluster, owner=owner))
    return _many(client.cancel_many(wanted, owner=owner, dry_run=not yes), "cancelled")


@click.command(
    epilog="""\b
Examples:
  orbitmq delay move order-17-unpaid --after 2h
  orbitmq delay move order-17-unpaid --at 2030-01-31T12:00:00Z
  orbitmq delay move --topic orders --to 2030-01-01T00:00:00Z --after 1d --yes"""
)
@click.argument("name", required=False)
@CLUSTER_OF_ANY
@OWNER
@click.option("--at", metavar="TIME", help="New time: ms since 1970, or RFC 3339.")
@click.option("--after", metavar="SPAN", help="New time, from now: 90s, 15m, 2h, 30d.")
@filtering
@click.option("--yes", is_flag=True, help="Move the messages of a filter. Without it they are counted only.")
@asking
def move(
    client: DelayClient,
    name: str | None,
    cluster: str | None,
    owner: str | None,
    at: str | None,
    after: str | None,
    topic: str,
    since: str | None,
    until: str | None,
    prefix: str,
    yes: bool,
) -> Result:
    """Move a message to another time, or all of a filter."""
    if (at is None) == (after is None):
        raise click.UsageError("give one of --at and --after")
    wanted = _filter(name, cluster, topic, since, until, prefix)
    if wanted is None:
        return _done(client.move(str(name), at=_time(at), after=after, cluster=cluster, owner=owner))
    many = client.move_many(wanted, at=_time(at), after=after, owner=owner, dry_run=not yes)
    return _many(many, "moved")


def _filter(
    name: str | None, cluster: str | None, topic: str, since: str | None, until: str | None, prefix: str
) -> dict[str, Any] | None:
    """The filter of flags, None if a name is given. Raises UsageError."""
    given = {"topic": topic, "from": since, "to": until, "prefix": prefix}
    wanted = {key: value for key, value in given.items() if value}
    if (name is None) == (not wanted):
        raise click.UsageError("give a NAME, or a filter: --topic, --from, --to, --prefix")
    return {**wanted, **({"cluster": cluster} if cluster else {})} if wanted else None


def _time(text: str | None) -> int | None:
    """A time of the command line as the service reads it."""
    from orbitmq.delay_service.rules.times import parse_time

    return None if text is None else parse_time("the time", text)


def _done(found: DelayOutcome) -> Result:
    if not found.in_time:
        raise NotInTime(f"{found.id}: {found.outcome}{f': {found.reason}' if found.reason else ''}")
    return Done(f"{found.id}: {found.outcome}", {"id": found.id, "outcome": found.outcome})


def _many(found: dict[str, Any], word: str) -> Result:
    count = found["count"]
    if found["dry_run"]:
        return Done(f"{count} messages would be {word}: add --yes", found)
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in found["outcomes"].items())
    more = "; there are more: repeat the command" if found["more"] else ""
    return Done(f"{count} messages: {outcomes or 'none'}{more}", found)


@click.command(
    epilog="""\b
Examples:
  orbitmq delay stats
  orbitmq delay stats --json"""
)
@asking
def stats(client: DelayClient) -> Result:
    """Show counts of the service, and its targets."""
    found = client.stats()
    facts = {
        "pending": found["pending"],
        "store bytes": found["store_bytes"],
        "delivered": found["delivered"],
        "late": found["late"],
        "dead letters": found["dead_letters"],
        **{f"orders {word}": number for word, number in found["orders"].items()},
    }
    for target, one in found["targets"].items():
        problem = f", {one['problem']}" if one["problem"] else ""
        facts[target] = f"{one['pending']} pending, {one['delivered']} delivered{problem}"
    return Facts(facts)


@click.command(
    epilog="""\b
Examples:
  orbitmq delay backup
  orbitmq delay backup /var/backups/delay"""
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@asking
def backup(client: DelayClient, folder: Path | None) -> Result:
    """Copy the store while the service runs. With FOLDER, on the service's machine, the copy is put there."""
    found = client.backup()
    made = Path(found["folder"])
    if folder is not None:
        target = folder / made.name
        try:
            shutil.copytree(made, target)
            shutil.rmtree(made)
        except (OSError, shutil.Error) as error:
            raise DelayRefused(f"the backup {made} cannot be moved to {folder}: {error}") from None
        made = target
    return Done(f"{made}, of {found['time_at']}", {"folder": str(made), "time": found["time"]})


@click.command(
    epilog="""\b
Examples:
  orbitmq delay restore ./delay/backups/2030-01-31T12-00-00.000Z --data-dir ./delay-restored
  orbitmq delay restore BACKUP --data-dir ./delay-restored --begin 2030-01-31T12:30:00Z"""
)
@click.argument(
    "backup_folder", metavar="BACKUP", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--data-dir", required=True, type=click.Path(path_type=Path), help="Folder without a store.")
@click.option("--begin", metavar="TIME", help="What was due before this time counts as delivered.")
def restore(backup_folder: Path, data_dir: Path, begin: str | None) -> None:
    """Make a backup the store of a service that does not run."""
    from orbitmq.delay_service.store.backup import backup_time
    from orbitmq.delay_service.store.backup import restore as restore_to

    made = datetime.fromtimestamp(backup_time(backup_folder) / 1000, UTC).isoformat(timespec="seconds")
    begin_at = _time(begin)
    left_out = restore_to(backup_folder, data_dir, begin_at, int(time.time() * 1000))
    click.echo(f"restored to {data_dir}: the backup is of {made}")
    if begin_at is None:
        click.echo(
            "warning: what has left since then leaves again. With --begin TIME, what was due before counts "
            "as delivered",
            err=True,
        )
    else:
        click.echo(f"{left_out} messages were due before {begin} and count as delivered")


@click.command(
    "import-chronos",
    epilog="""\b
Examples:
  orbitmq delay import-chronos /data/chronos/rocksdb --seek /data/chronos/seek --data-dir ./delay \\
      --cluster main""",
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--seek",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Chronos's file with the second up to which it has delivered.",
)
@click.option(
    "--data-dir",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the service, which does not run.",
)
@click.option("--cluster", default="main", metavar="NAME", help="Name of the cluster of the targets.")
@click.option("--dry-run", is_flag=True, help="Count only.")
def import_chronos(folder: Path, seek: Path, data_dir: Path, cluster: str, dry_run: bool) -> None:
    """Take over the messages of a stopped Chronos of DDMQ, which is only read."""
    from orbitmq.delay_service.chronos import Imported, read_chronos, read_seek
    from orbitmq.delay_service.chronos import import_chronos as take_over
    from orbitmq.delay_service.options import DEAD_TOPIC
    from orbitmq.delay_service.rules.intake import Intake
    from orbitmq.delay_service.rules.lanes import Lanes
    from orbitmq.delay_service.rules.targets import Known
    from orbitmq.delay_service.store.store import DelayStore

    counts = Imported()
    found = read_chronos(folder, read_seek(seek), counts)
    if dry_run:
        counts.messages = sum(1 for _ in found)
    else:
        store = DelayStore(data_dir.expanduser())
        try:
            intake = Intake(store, Lanes(store), Known({cluster: False}, frozenset(), DEAD_TOPIC))
            take_over(intake, cluster, found, counts, int(time.time() * 1000))
        finally:
            store.close()
    for reason in counts.reasons or []:
        click.echo(f"refused: {reason}", err=True)
    word = "would be taken over" if dry_run else "taken over"
    click.echo(
        f"{counts.messages} messages {word}, {counts.delivered} delivered before, "
        f"{counts.cancelled} cancelled, {counts.refused} refused"
    )
