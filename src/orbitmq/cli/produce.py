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

import click

from orbitmq.access import Access, access_flags
from orbitmq.client.message import Message, SendResult
from orbitmq.client.producer import Producer

AT_ONCE = 64
"""Sends under way at a time, where order does not matter."""
CHUNK_BYTES = 64 << 10
QUEUED_CHUNKS = 4
MAX_LINE_BYTES = 16 << 20


@click.command(
    epilog="""\b
Examples:
  orbitmq produce --topic greetings --body hello --tag polite --key 17
  seq 1000 | orbitmq produce --topic numbers --quiet
  tail -f app.log | orbitmq produce --topic logs --tag app
  orbitmq produce --topic load --body x --count 100000 --rate 2000"""
)
@click.option("-t", "--topic", required=True, metavar="NAME", help="The topic to send to.")
@click.option("--body", metavar="TEXT", help="The body; without it every line of standard input is one.")
@click.option("--tag", metavar="TEXT", help="What consumers can filter by.")
@click.option("--key", "keys", metavar="TEXT", multiple=True, help="What it can be found by. Repeatable.")
@click.option(
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    help="A property of your own, which --sql can choose by. Repeatable.",
)
@click.option("--sharding-key", metavar="TEXT", help="Messages with the same one keep their order.")
@click.option(
    "--delay-level",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="When it is delivered: 0 at once, 1 after 1 s, 2 after 5 s, ... 18, the last, after 2 h.",
)
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Send the body so often.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Messages per second at most.")
@click.option(
    "--group",
    default="orbitmq-produce",
    show_default=True,
    metavar="NAME",
    help="The producer group that brokers are told.",
)
@access_flags
@click.option(
    "--json", "as_json", is_flag=True, help="Print what became of each message as JSON, one per line."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the sum, on standard error.")
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
    """Send messages to a topic, which the broker creates if it may."""
    if body is None and count != 1:
        raise click.UsageError("--count needs --body")
    own = {}
    for text in properties:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--property {text}: expected NAME=VALUE")
        own[name] = value

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
        async with Producer(group, namesrv, **access.options) as producer:
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
        click.echo(f"{sent} messages in {seconds:.1f} s, {sent / max(seconds, 1e-9):.0f}/s", err=True)


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

    async def tell() -> int:
        sent = 0
        while (task := await under_way.get()) is not None:
            say(await task)
            sent += 1
        return sent

    try:
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(tell())
            async for message in messages:
                await slots.acquire()
                task = group.create_task(producer.send(message))
                task.add_done_callback(lambda _: slots.release())
                under_way.put_nowait(task)
            under_way.put_nowait(None)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return telling.result()


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
        # Nobody is left to hear of lines once the loop has ended.
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
