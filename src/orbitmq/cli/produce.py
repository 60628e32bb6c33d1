"""`orbitmq produce`: messages from the command line or from standard input, one per line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import click

from orbitmq.access import Access
from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.producer.producer import Producer
from orbitmq.flags import access_flags, pairs_of
from orbitmq.plurals import counted

AT_ONCE = 64
"""Sends under way at a time, where order does not matter."""
CHUNK_BYTES = 64 << 10
QUEUED_CHUNKS = 4
MAX_LINE_BYTES = 16 << 20


HIGHEST_DELAY_LEVEL = 18
"""Of brokers with their default delays; a level above it would be taken for the highest without a word."""

if TYPE_CHECKING:
    _LevelType = click.ParamType[int]
else:  # older releases have no parameter there
    _LevelType = click.ParamType


class DelayLevel(_LevelType):
    """A delay level of a broker with its default delays."""

    name = "LEVEL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        if not text.isdecimal() or int(text) > HIGHEST_DELAY_LEVEL:
            self.fail(
                f"{text!r} is not a delay level: 0 delivers at once, 1 to {HIGHEST_DELAY_LEVEL} after "
                "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
                param,
                ctx,
            )
        return int(text)


@click.command(
    epilog="""\b
Examples:
  orbitmq produce --topic greetings --body hello --tag polite --key 17
  seq 1000 | orbitmq produce --topic numbers --quiet
  tail -f app.log | orbitmq produce --topic logs --tag app
  orbitmq produce --topic load --body x --count 100000 --rate 2000"""
)
@click.option("-t", "--topic", required=True, metavar="NAME", help="The topic to send to.")
@click.option(
    "--body",
    metavar="TEXT",
    help="Body of the message. [default: one message for each line of standard input]",
)
@click.option("--tag", metavar="TEXT", help="Tag, for filters of consumers.")
@click.option(
    "--key",
    "keys",
    metavar="TEXT",
    multiple=True,
    help="Key, for finding the message later, without blanks. Repeatable.",
)
@click.option(
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    help="User property, for filters with --sql. Repeatable.",
)
@click.option("--sharding-key", metavar="TEXT", help="Messages with the same sharding key keep their order.")
@click.option(
    "--delay-level",
    type=DelayLevel(),
    default=0,
    help="Delay level: 0 delivers at once, 1 after 1 s, 2 after 5 s, up to 18 after 2 h.",
)
@click.option("--count", type=click.IntRange(1), default=1, help="Number of times to send the body.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Maximum of messages per second.")
@click.option("--group", default="orbitmq-produce", metavar="NAME", help="Producer group sent to brokers.")
@access_flags
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result of each send as a JSON object, one per line."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the totals, on standard error.")
def produce(
    topic: str,
    body: str | None,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    sharding_key: str | None,
    delay_level: int,
    count: int,
    rate: float | None,
    group: str,
    namesrv: str,
    access: Access,
    as_json: bool,
    quiet: bool,
) -> None:
    """Send messages to a topic. The broker creates it if its options allow that."""
    if body is None and count != 1:
        raise click.UsageError("--count needs --body")
    own = dict(pairs_of(properties, "--property"))

    def message(content: bytes) -> Message:
        return Message(
            topic,
            content,
            tags=tag,
            keys=keys,
            properties=own,
            delay_level=delay_level,
            sharding_key=sharding_key,
        )

    bodies = _repeated(body.encode(), count) if body is not None else _lines()

    async def run() -> int:
        # A broker that is started again costs a pipe nothing: messages are tried for as long as in programs.
        # Each message is a send of its own: they spread over the queues, as those of applications do in time.
        async with Producer(group, namesrv, join_sends=False, **access.options) as producer:
            return await _send_all(
                producer,
                (message(content) async for content in _paced(bodies, rate)),
                1 if sharding_key else AT_ONCE,
                lambda result: _say(result, as_json, quiet),
            )

    started = time.monotonic()
    sent = asyncio.run(run())
    if sent != 1 or quiet:
        seconds = time.monotonic() - started
        click.echo(
            f"{counted(sent, 'message')} in {seconds:.1f} s, {sent / max(seconds, 1e-9):.0f}/s", err=True
        )


async def _send_all(
    producer: Producer,
    messages: AsyncIterator[Message],
    at_once: int,
    say: Callable[[SendResult], None],
) -> int:
    """Sends messages, `at_once` at a time; says in their order what became of them, as soon as it is known.

    Gives their number. The first failure ends it.
    """
    under_way: asyncio.Queue[asyncio.Task[SendResult] | None] = asyncio.Queue()
    slots = asyncio.Semaphore(at_once)

    async def report() -> int:
        sent = 0
        while (task := await under_way.get()) is not None:
            say(await task)
            sent += 1
        return sent

    try:
        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(report())
            async for message in messages:
                await slots.acquire()
                task = group.create_task(producer.send(message))
                task.add_done_callback(lambda _: slots.release())
                under_way.put_nowait(task)
            under_way.put_nowait(None)
    except ExceptionGroup as failed:
        first = failed.exceptions[0]
        raise first from first.__cause__
    return reporting.result()


async def _lines() -> AsyncIterator[bytes]:
    """The lines of standard input, without their ends; empty ones are passed over.

    A thread of its own reads them, one that the end of the process does not wait for: Ctrl-C ends a command
    whose input says nothing.
    """
    if sys.stdin.isatty():
        click.echo("One message per line; Ctrl-D ends.", err=True)
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
    slots = threading.Semaphore(QUEUED_CHUNKS)

    def hand_over(lines: list[bytes] | None) -> None:
        slots.acquire()
        loop.call_soon_threadsafe(chunks.put_nowait, lines)

    def read() -> None:
        rest = b""
        # No task is left to hear of lines once the loop has ended.
        with contextlib.suppress(RuntimeError):
            while data := os.read(sys.stdin.fileno(), CHUNK_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > MAX_LINE_BYTES:
                    lines, rest = [*lines, rest], b""  # no broker takes it: the producer says so
                hand_over(lines)
            hand_over([rest])
            hand_over(None)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    while (lines := await chunks.get()) is not None:
        slots.release()
        for line in lines:
            if line := line.removesuffix(b"\r"):
                yield line


async def _repeated(body: bytes, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield body


async def _paced(bodies: AsyncIterator[bytes], rate: float | None) -> AsyncIterator[bytes]:
    """The same bodies, `rate` a second at most."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    async for body in bodies:
        if rate is not None:
            await asyncio.sleep(due - loop.time())
            due = max(due, loop.time() - 1) + 1 / rate
        yield body


def _say(result: SendResult, as_json: bool, quiet: bool) -> None:
    if quiet:
        return
    queue = result.queue
    if as_json:
        click.echo(
            json.dumps(
                {
                    "messageId": result.message_id,
                    "offsetMessageId": result.offset_message_id,
                    "topic": queue.topic,
                    "broker": queue.broker_name,
                    "queueId": queue.queue_id,
                    "queueOffset": result.queue_offset,
                    "status": result.status.name,
                }
            )
        )
    else:
        click.echo(
            f"{result.status.name} {result.message_id} {queue.broker_name} queue {queue.queue_id} "
            f"offset {result.queue_offset}"
        )
