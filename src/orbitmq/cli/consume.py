"""`orbitmq consume`: messages of a topic as lines, as a member of a group."""

from __future__ import annotations

import asyncio
import json
import sys

import click

from orbitmq.access import Access, access_flags
from orbitmq.client.consumer import PushConsumer
from orbitmq.client.message import ReceivedMessage
from orbitmq.client.options import FIRST_OFFSET, LAST_OFFSET
from orbitmq.client.subscription import Sql, tags_of


@click.command(
    epilog="""\b
Examples:
  orbitmq consume --topic greetings
  orbitmq consume --topic flights --tag "UA || DL" --group readers --from first --max 10
  orbitmq consume --topic flights --sql "origin = 'JFK' AND dest IN ('LAX', 'SFO')"
  orbitmq consume --topic flights --group export --from first --no-follow --json > flights.jsonl"""
)
@click.option("-t", "--topic", required=True, metavar="NAME", help="The topic to read.")
@click.option(
    "-g",
    "--group",
    default="orbitmq-consume",
    show_default=True,
    metavar="NAME",
    help="The group whose share is read; it goes on where it ended.",
)
@click.option("--tag", "tags", default="*", metavar="TAG[ || TAG...]", help="Only messages with such a tag.")
@click.option(
    "--sql", metavar="EXPRESSION", help="Only messages whose properties this SQL92 expression chooses."
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["first", "last"]),
    default="last",
    show_default=True,
    help="Where a group begins that has not read the topic before.",
)
@click.option("--max", "limit", type=click.IntRange(1), help="End after so many messages.")
@click.option(
    "--follow/--no-follow", default=True, show_default=True, help="Wait for more, or end when none come."
)
@click.option(
    "--idle",
    type=click.FloatRange(0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="With --no-follow: end after so long without a message.",
)
@access_flags
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message and line.")
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
    """Print the messages of a topic, a body per line. Ctrl-C ends it; what was printed counts as read."""
    if sql is not None and tags != "*":
        raise click.UsageError("--tag or --sql, not both: in SQL92 the tag is the property TAGS")
    try:
        wanted = tags if sql is None else Sql(sql)
        tags_of(tags)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--tag" if sql is None else "--sql") from None

    async def run() -> int:
        where = FIRST_OFFSET if start == "first" else LAST_OFFSET
        consumer = PushConsumer(group, namesrv, consume_from_where=where, **access.options)
        consumer.subscribe(topic, wanted)
        printed = 0
        async with consumer:
            messages = aiter(consumer)
            while limit is None or printed < limit:
                try:
                    async with asyncio.timeout(None if follow else idle):
                        message = await anext(messages, None)
                except TimeoutError:
                    if not printed and consumer.trouble:
                        raise next(iter(consumer.trouble.values())) from None
                    break
                if message is None:
                    break
                _print(message, as_json)
                await consumer.ack(message)
                printed += 1
        return printed

    try:
        printed = asyncio.run(run())
    except KeyboardInterrupt:
        return
    if sys.stderr.isatty():
        click.echo(f"{printed} messages", err=True)


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
