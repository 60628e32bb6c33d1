"""`orbitmq consume`: messages of a topic as lines, as a member of a group."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator

import click

from orbitmq.access import Access, access_flags
from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET, LAST_OFFSET
from orbitmq.client.core.subscription import Sql, tags_of
from orbitmq.plurals import counted
from orbitmq.protocol.errors import NoPermission


@click.command(
    epilog="""\b
Examples:
  orbitmq consume --topic greetings
  orbitmq consume --topic flights --tag "UA || DL" --group readers --from first --max 10
  orbitmq consume --topic flights --sql "origin = 'JFK' AND dest IN ('LAX', 'SFO')"
  orbitmq consume --topic flights --group export --from first --no-follow --json > flights.jsonl"""
)
@click.option("-t", "--topic", required=True, metavar="NAME", help="Topic to read.")
@click.option(
    "-g",
    "--group",
    default="orbitmq-consume",
    show_default=True,
    metavar="NAME",
    help="Consumer group. It continues where it stopped; members that run at the same time share the queues.",
)
@click.option(
    "--tag", "tags", default="*", metavar="TAG[ || TAG...]", help="Only messages with one of these tags."
)
@click.option(
    "--sql", metavar="EXPRESSION", help="Only messages whose properties match this SQL92 expression."
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["first", "last"]),
    default="last",
    show_default=True,
    help="Position of a group without offsets: the first message of each queue, or the end. Brokers also "
    "choose the first message for `last` while they hold all of a queue in memory, as on a young topic.",
)
@click.option(
    "--max", "limit", type=click.IntRange(1), help="Number of messages to read before the command ends."
)
@click.option(
    "--follow/--no-follow",
    default=True,
    show_default=True,
    help="Wait for more messages, or end when no more arrive.",
)
@click.option(
    "--idle",
    type=click.FloatRange(0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="With --no-follow: time without a message after which the command ends.",
)
@access_flags
@click.option("--json", "as_json", is_flag=True, help="Print each message as a JSON object, one per line.")
def consume(
    topic: str,
    group: str,
    tags: str,
    sql: str | None,
    start: str,
    limit: int | None,
    follow: bool,
    idle: float,
    namesrv: str,
    access: Access,
    as_json: bool,
) -> None:
    """Print the messages of a topic, one body per line.

    Printed messages count as read by the group. Ctrl-C ends the command, and so does a broker that refuses
    to let the group read.
    """
    if sql is not None and tags != "*":
        raise click.UsageError("--tag or --sql, not both: in SQL92 the tag is the property TAGS")
    try:
        wanted = tags if sql is None else Sql(sql)
        tags_of(tags)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--tag" if sql is None else "--sql") from None

    async def run() -> int:
        where = FIRST_OFFSET if start == "first" else LAST_OFFSET
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_error(error: Exception) -> None:
            if isinstance(error, NoPermission) and not refused.done():
                refused.set_exception(error)
                refused.exception()  # the consumer's start raises it too, before anybody waits for this one

        consumer = PushConsumer(group, namesrv, consume_from_where=where, on_error=on_error, **access.options)
        consumer.subscribe(topic, wanted)
        async with consumer:
            return await _print_messages(consumer, refused, limit, None if follow else idle, as_json=as_json)

    # The refusal is the one error line of the command; the client logs it as well.
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: not isinstance(getattr(record, "error", None), NoPermission))
    logging.basicConfig(handlers=[handler], format="%(message)s")
    try:
        printed = asyncio.run(run())
    except KeyboardInterrupt:
        return
    if sys.stderr.isatty():
        click.echo(counted(printed, "message"), err=True)


async def _print_messages(
    consumer: PushConsumer,
    refused: asyncio.Future[None],
    limit: int | None,
    idle_seconds: float | None,
    *,
    as_json: bool,
) -> int:
    """Prints messages and acknowledges them, up to `limit` or the end; gives their number."""
    printed = 0
    messages = aiter(consumer)
    while limit is None or printed < limit:
        try:
            message = await _next(messages, refused, idle_seconds)
        except TimeoutError:
            if not printed and consumer.errors:
                raise next(iter(consumer.errors.values())) from None
            break
        if message is None:
            break
        _print(message, as_json)
        await consumer.ack(message)
        printed += 1
    return printed


async def _next(
    messages: AsyncIterator[ReceivedMessage], refused: asyncio.Future[None], idle_seconds: float | None
) -> ReceivedMessage | None:
    """The next message, or None at the end. Raises TimeoutError, and NoPermission once `refused` has it."""
    asking = asyncio.ensure_future(anext(messages, None))
    try:
        await asyncio.wait((asking, refused), timeout=idle_seconds, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        if refused.done():
            refused.result()
        raise TimeoutError
    finally:
        asking.cancel()


def _print(message: ReceivedMessage, as_json: bool) -> None:
    if not as_json:
        sys.stdout.buffer.write(message.body + b"\n")
        sys.stdout.buffer.flush()
        return
    try:
        body = {"body": message.body.decode("utf-8")}
    except UnicodeDecodeError:
        body = {"bodyHex": message.body.hex()}
    click.echo(
        json.dumps(
            {
                "topic": message.topic,
                "messageId": message.message_id,
                "broker": message.queue.broker_name,
                "queueId": message.queue.queue_id,
                "queueOffset": message.queue_offset,
                "tag": message.tags,
                "keys": message.keys,
                "properties": message.properties,
                "reconsumeTimes": message.reconsume_times,
                **body,
            },
            ensure_ascii=False,
        )
    )
