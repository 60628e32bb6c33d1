"""`orbitmq outbox`: the relay of an outbox, and what operators do with messages that are parked."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from orbitmq.access import Access
from orbitmq.admin.output import Done, Facts, Result, Rows, columns, show
from orbitmq.cli.flags import PORT, Listened, process_flags
from orbitmq.client.producer.producer import Producer
from orbitmq.flags import Seconds, access_flags
from orbitmq.plurals import counted

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    from orbitmq.outbox import Outbox, Relay

DATABASE_VARIABLE = "ORBITMQ_OUTBOX_DATABASE"


@click.group(
    epilog="""\b
Examples:
  orbitmq outbox create-tables --database sqlite:///shop.db
  orbitmq outbox relay --database sqlite:///shop.db
  orbitmq outbox parked --database sqlite:///shop.db"""
)
def outbox() -> None:
    """Send the messages of an outbox, and see or release those that are parked.

    An outbox is a table in the database of an application: its messages are rows of the application's own
    transactions. The package orbitmq.outbox writes them.
    """


def _checked_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuses a password in a flag: other users of a machine can read the command lines of its processes."""
    given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    authority = value.partition("://")[2].partition("/")[0]
    if given and ":" in authority.rpartition("@")[0]:
        raise click.BadParameter(
            f"a password in a flag can be read by others: put the URL into {DATABASE_VARIABLE}", ctx, param
        )
    return value


def _database_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """--database, --table and --schema, which the command gets as an engine and an `Outbox`."""

    @click.option(
        "-d",
        "--database",
        required=True,
        envvar=DATABASE_VARIABLE,
        show_envvar=True,
        callback=_checked_url,
        metavar="URL",
        help="Database, as a URL of SQLAlchemy: postgresql+psycopg://..., mysql+pymysql://..., sqlite:///...",
    )
    @click.option("--table", default="orbitmq_outbox", metavar="NAME", help="Table of the outbox.")
    @click.option("--schema", metavar="NAME", help="Schema of the table. [default: the database's own]")
    @functools.wraps(command)
    def run(database: str, table: str, schema: str | None, **given: Any) -> Any:
        from orbitmq.outbox import Outbox
        from orbitmq.outbox.database import open_engine

        return command(engine=open_engine(database), box=Outbox(table, schema=schema), **given)

    return run


def _in_database(engine: Engine | AsyncEngine, box: Outbox, work: Callable[[Outbox, Connection], Any]) -> Any:
    """The result of work in a transaction. Raises DatabaseAway, TableMissing."""
    from orbitmq.outbox import DatabaseAway, OutboxError
    from orbitmq.outbox.database import DATABASE_ERRORS, kind_of, link
    from orbitmq.outbox.errors import named, reason_of

    async def run() -> Any:
        kind_of(engine)
        own = link(engine)
        try:
            with named(box.name):
                return await own.once(lambda connection: work(box, connection))
        finally:
            await own.close()
            disposed = engine.dispose()
            if disposed is not None:
                await disposed

    try:
        return asyncio.run(run())
    except OutboxError:
        raise
    except DATABASE_ERRORS as error:
        raise DatabaseAway(f"the database cannot be used: {reason_of(error)}") from error


def _milliseconds(_: click.Context, __: click.Parameter, seconds: float | None) -> int | None:
    """Seconds of a flag as the relay takes them."""
    return None if seconds is None else round(seconds * 1000)


@outbox.command(
    epilog="""\b
Examples:
  orbitmq outbox relay --database postgresql+psycopg://app@db/shop
  orbitmq outbox relay --database sqlite:///shop.db --namesrv "ns1:9876;ns2:9876"
  orbitmq outbox relay --database mysql+pymysql://app@db/shop --park-blocks-key --retention 3600"""
)
@_database_flags
@click.option("--workers", type=click.IntRange(1, 64), default=1, help="Batches at a time.")
@click.option(
    "--batch-size", type=click.IntRange(1, 10_000), default=256, help="Maximum of messages in a batch."
)
@click.option(
    "--poll-interval",
    "poll_interval_ms",
    type=Seconds(0.001, 3600),
    callback=_milliseconds,
    help="Interval of looks for messages. [default: 1 where PostgreSQL tells of them, else 0.2]",
)
@click.option(
    "--send-timeout",
    "send_timeout_ms",
    type=Seconds(0.001, 600),
    callback=_milliseconds,
    default=5.0,
    help="Time for which a send is tried; the transaction of the batch is open as long.",
)
@click.option(
    "--max-pause",
    "max_pause_ms",
    type=Seconds(0.1, 3600),
    callback=_milliseconds,
    default=10.0,
    help="Longest pause of a topic, or of the database, that cannot be reached.",
)
@click.option(
    "--park-blocks-key",
    is_flag=True,
    help="Later messages of its key wait for a message that is parked, until it is released or discarded.",
)
@click.option(
    "--park-after",
    "park_after_ms",
    type=Seconds(0),
    callback=_milliseconds,
    help="Park messages of this age that are refused for a missing topic or right, too. [default: never]",
)
@click.option(
    "--retention",
    "retention_ms",
    type=Seconds(0),
    callback=_milliseconds,
    default=86_400.0,
    help="Time for which sent rows are kept; 0 deletes them at once.",
)
@click.option("--group", default="orbitmq-outbox", metavar="NAME", help="Producer group.")
@access_flags
@click.option("--metrics-port", type=PORT, help="Serve /metrics (Prometheus) and /health on this port.")
@click.option("--metrics-listen", type=Listened(), default="127.0.0.1", help="Address of that port.")
@process_flags("the relay")
def relay(
    engine: Engine | AsyncEngine,
    box: Outbox,
    group: str,
    namesrv: str,
    access: Access,
    metrics_port: int | None,
    metrics_listen: str,
    ready_file: Path | None,
    **options: Any,
) -> None:
    """Send the messages that transactions have committed, until SIGTERM or Ctrl-C.

    Several relays may run. Each message is sent at least once, and those of one key in their order. A stop
    waits for the sends under way and notes them.
    """
    from orbitmq.outbox import Relay

    async def run() -> None:
        stop = _stop_signal()
        async with (
            Producer(group, namesrv, **access.options) as producer,
            Relay(box, engine, producer, **options) as running,
            _served(running, metrics_listen, metrics_port) as at,
        ):
            line = f"ready: relay of outbox {box.name}, name servers {namesrv}{at}"
            with _ready(ready_file, line):
                await _until_stopped(running, stop)
        click.echo(
            f"stopped: {counted(running.metrics.sent, 'message')} sent, {running.metrics.parked} parked"
        )

    asyncio.run(run())


@contextmanager
def _ready(path: Path | None, line: str) -> Iterator[None]:
    """Says that the relay is ready, also by a file that goes when it stops."""
    if path is not None:
        path.write_text(line + "\n")
    click.echo(line)
    sys.stdout.flush()
    try:
        yield
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def _stop_signal() -> asyncio.Event:
    """An event that the first signal sets; the second one ends the process."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, signalled)
        except NotImplementedError:  # Windows: KeyboardInterrupt ends the loop instead
            break
    return stop


async def _until_stopped(running: Relay, stop: asyncio.Event) -> None:
    """Returns once it shall stop. Raises what ended the relay."""
    stopped, ended = asyncio.create_task(stop.wait()), asyncio.create_task(running.ended())
    await asyncio.wait([stopped, ended], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if ended.done():
        await ended
    ended.cancel()


@asynccontextmanager
async def _served(running: Relay, host: str, port: int | None) -> AsyncIterator[str]:
    """Serves metrics and health; gives a text for the readiness line."""
    if port is None:
        yield ""
        return
    from http import HTTPStatus

    from orbitmq.outbox.telemetry import prometheus_text
    from orbitmq.server.metrics.exposition import TEXT_TYPE
    from orbitmq.server.metrics.http import HttpRequest, HttpResponse, HttpServer

    async def metrics(_: HttpRequest) -> HttpResponse:
        return HttpResponse(body=prometheus_text(running).encode(), content_type=TEXT_TYPE)

    async def health(_: HttpRequest) -> HttpResponse:
        if running.healthy:
            return HttpResponse(body=b"healthy\n")
        told = "".join(f"{subject}: {error}\n" for subject, error in running.errors.items())
        return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, told.encode())

    server = HttpServer({"/metrics": metrics, "/health": health})
    await server.listen(host, port)
    try:
        yield f", metrics http://{host}:{port}/metrics"
    finally:
        await server.close()


def _json_flag(command: Callable[..., Result]) -> Callable[..., None]:
    """--json, and the printing of the result."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @functools.wraps(command)
    def run(as_json: bool, **given: Any) -> None:
        show(command(**given), as_json)

    return run


@outbox.command(epilog="\b\nExamples:\n  orbitmq outbox status --database sqlite:///shop.db --json")
@_database_flags
@_json_flag
def status(engine: Engine | AsyncEngine, box: Outbox) -> Result:
    """Numbers of messages that are not sent, and the age of the oldest."""
    from orbitmq.outbox import counts

    found = _in_database(engine, box, counts)
    age_ms = found.age_ms(time.time_ns() // 1_000_000)
    return Facts(
        {
            "pending": found.pending,
            "oldestPendingSeconds": age_ms / 1000,
            "held": found.held,
            "parked": found.parked,
        }
    )


@outbox.command(epilog="\b\nExamples:\n  orbitmq outbox parked --database sqlite:///shop.db --topic orders")
@_database_flags
@click.option("-t", "--topic", metavar="NAME", help="Only messages for this topic.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, help="Maximum of messages.")
@_json_flag
def parked(engine: Engine | AsyncEngine, box: Outbox, topic: str | None, limit: int) -> Result:
    """List the messages that were refused for good, with the reasons."""
    from orbitmq.outbox import parked as listed

    found = _in_database(
        engine, box, lambda own, connection: listed(own, connection, topic=topic, limit=limit)
    )
    heads = columns(
        "id topic key tag sizeBytes attempts createdMs blocksKey reason",
        times="createdMs",
        sizeBytes="Bytes",
        createdMs="Written",
    )
    return Rows.of(heads, found)


def _chosen_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """IDs, --topic or --all: one of them."""

    @click.argument("ids", nargs=-1, metavar="[ID]...")
    @click.option("-t", "--topic", metavar="NAME", help="All parked messages for this topic.")
    @click.option("--all", "whole", is_flag=True, help="All parked messages.")
    @functools.wraps(command)
    def run(ids: tuple[str, ...], topic: str | None, whole: bool, **given: Any) -> Any:
        if bool(ids) + (topic is not None) + whole != 1:
            raise click.UsageError("give ids, --topic or --all: `orbitmq outbox parked` lists the ids")
        return command(ids=ids, topic=topic, **given)

    return run


@outbox.command(epilog="\b\nExamples:\n  orbitmq outbox release --database sqlite:///shop.db --all")
@_database_flags
@_chosen_flags
@_json_flag
def release(engine: Engine | AsyncEngine, box: Outbox, ids: tuple[str, ...], topic: str | None) -> Result:
    """Have parked messages sent, once their reason is mended."""
    from orbitmq.outbox import release as release_now

    number = _in_database(
        engine, box, lambda own, connection: release_now(own, connection, ids=ids, topic=topic)
    )
    return Done(f"{counted(number, 'message')} released", {"released": number})


@outbox.command(
    epilog="\b\nExamples:\n  orbitmq outbox discard --database sqlite:///shop.db --topic typo --yes"
)
@_database_flags
@_chosen_flags
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@_json_flag
def discard(
    engine: Engine | AsyncEngine, box: Outbox, ids: tuple[str, ...], topic: str | None, yes: bool
) -> Result:
    """Delete parked messages: they are never sent. Their keys go on."""
    from orbitmq.outbox import discard as discard_now

    if not yes:
        click.confirm("These messages will never be sent. Delete them?", abort=True)
    number = _in_database(
        engine, box, lambda own, connection: discard_now(own, connection, ids=ids, topic=topic)
    )
    return Done(f"{counted(number, 'message')} deleted", {"deleted": number})


@outbox.command(
    "create-tables",
    epilog="""\b
Examples:
  orbitmq outbox create-tables --database sqlite:///shop.db
  orbitmq outbox create-tables --database postgresql+psycopg://app@db/shop --sql > outbox.sql""",
)
@_database_flags
@click.option("--sql", "as_sql", is_flag=True, help="Print the statements, and do not connect.")
def create_tables(engine: Engine | AsyncEngine, box: Outbox, as_sql: bool) -> None:
    """Create the tables that are not there; for applications without migrations."""
    if as_sql:
        from orbitmq.outbox.migrations import creation

        for statement in creation(box):
            click.echo(f"{str(statement.compile(dialect=engine.dialect)).strip()};")
        return
    _in_database(engine, box, lambda own, connection: own.create_tables(connection))
    click.echo(f"tables {box.name} and {box.locks.fullname} are there")
