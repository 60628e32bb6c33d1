"""`orbitmq consume`: messages of a topic as lines, as a member of a group."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator

import click

from orbitmq.access import Access
from orbitmq.admin.admin import Admin
from orbitmq.admin.bodies import FLAG
from orbitmq.admin.diagnosis.joining import OtherFilter, check_filter_of_group
from orbitmq.cli.logs import LineFormatter
from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.errors import FiltersDiffer
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET, LAST_OFFSET
from orbitmq.client.core.subscription import Sql, subscription, tags_of
from orbitmq.flags import Seconds, access_flags, max_body_flag
from orbitmq.net.errors import NetError
from orbitmq.plurals import counted
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.errors import NoPermission, OrbitError

OPTION = "max_inflated_body_bytes"


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
    metavar="NAME",
    help="Consumer group. It continues where it stopped; members that run at the same time share the queues.",
)
@click.option(
    "--tag",
    "tags",
    default="*",
    show_default=False,
    metavar="TAG[ || TAG...]",
    help="Only messages with one of these tags.",
)
@click.option(
    "--sql", metavar="EXPRESSION", help="Only messages whose properties match this SQL92 expression."
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["first", "last"]),
    default="last",
    help="Position of a group without offsets: the first message of each queue, or the end. Brokers also "
    "choose the first message for `last` while they hold all of a queue in memory, as on a young topic.",
)
@click.option(
    "--max", "limit", type=click.IntRange(1), help="Number of messages to read before the command ends."
)
@click.option(
    "--follow/--no-follow", default=True, help="Wait for more messages, or end when no more arrive."
)
@click.option(
    "--idle",
    type=Seconds(0.1),
    default=5.0,
    help="With --no-follow: time without a message after which the command ends.",
)
@max_body_flag(
    "Maximum size of a body that came compressed, once it is inflated. A message with a larger one is "
    "told, not printed, and the group gets it again later."
)
@click.option(
    "--join-anyway",
    is_flag=True,
    help="Join a group that is online with another filter than its members have. The messages that a "
    "member's filter passes over, in the queues that it owns, are lost to the group.",
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
    max_inflated_body_bytes: int,
    join_anyway: bool,
    namesrv: str,
    access: Access,
    as_json: bool,
) -> None:
    """Print the messages of a topic, one body per line.

    Printed messages count as read by the group. All members of a group have to read by the same filter: the
    command does not join one whose members read otherwise. Ctrl-C ends the command, and so does a broker that
    refuses to let the group read.
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

        consumer = PushConsumer(
            group,
            namesrv,
            consume_from_where=where,
            on_error=on_error,
            max_inflated_body_bytes=max_inflated_body_bytes,
            **access.options,
        )
        consumer.subscribe(topic, wanted)
        unknown = (
            None
            if join_anyway
            else await _check_group(namesrv, access, group, subscription(topic, wanted, 0))
        )
        async with consumer:
            if unknown is not None:
                click.echo(f"it is not known by which filter members of {group} read: {unknown}", err=True)
            return await _print_messages(consumer, refused, limit, None if follow else idle, as_json=as_json)

    # The refusal is the one error line of the command; the client logs it as well.
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: not isinstance(getattr(record, "error", None), NoPermission))
    handler.setFormatter(LineFormatter("%(message)s"))
    logging.basicConfig(handlers=[handler])
    try:
        printed = asyncio.run(run())
    except KeyboardInterrupt:
        return
    if sys.stderr.isatty():
        click.echo(counted(printed, "message"), err=True)


async def _check_group(
    namesrv: str, access: Access, group: str, wanted: SubscriptionData
) -> OrbitError | None:
    """Raises OtherFilter if members of the group read otherwise. Gives the error if no broker tells."""
    async with Admin(namesrv, **access.options) as admin:
        try:
            await check_filter_of_group(admin, group, wanted)
        except (NoPermission, NetError) as error:
            return error
        except OtherFilter as error:
            raise OtherFilter(f"{error} (--group), or say --join-anyway") from None
    return None


async def _print_messages(
    consumer: PushConsumer,
    refused: asyncio.Future[None],
    limit: int | None,
    idle_seconds: float | None,
    *,
    as_json: bool,
) -> int:
    """Prints messages and acknowledges them, up to `limit` or the end; gives their number.

    Those whose bodies cannot be inflated are handed out again.
    """
    printed = 0
    messages = aiter(consumer)
    while limit is None or printed < limit:
        try:
            message = await _next(messages, refused, idle_seconds)
        except TimeoutError:
            failures = [one for one in consumer.errors.values() if not isinstance(one, FiltersDiffer)]
            if not printed and failures:
                raise failures[0] from None
            break
        if message is None:
            break
        _print(message, as_json)
        if message.body_error is not None:
            await consumer.retry(message, error=message.body_error)
            continue
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
    if message.body_error is not None and not as_json:
        click.echo(f"not printed: {message.body_error}".replace(OPTION, FLAG), err=True)
        return
    if not as_json:
        sys.stdout.buffer.write(message.body + b"\n")
        sys.stdout.buffer.flush()
        return
    body: dict[str, str]
    try:
        if message.body_error is not None:
            body = {"bodyError": str(message.body_error).replace(OPTION, FLAG)}
        else:
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
