"""Very many timer messages that wait: what they cost in memory, and how late they come under load.

`python -m benchmarks.timers` has a broker of its own hold a million of them, due within a minute and a half,
and sends plain messages all the while. Lateness is the time a message is stored in its queue after the moment
it was due; both are in the record, so reading them late changes nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from benchmarks.processes import anonymous_bytes
from benchmarks.scale.probe import pull_request
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.testing import LocalBroker

QUEUES = 4
SENDERS = 64
DUE_WITHIN_S = 90
MIB = 1 << 20


def now_ms() -> int:
    """Wall clock."""
    return time.time_ns() // 1_000_000


class Bench:
    """One broker and its clients."""

    def __init__(self, broker: LocalBroker) -> None:
        self._broker = broker
        self._pool = ConnectionPool()
        self.pings: list[float] = []
        """Seconds that plain sends took while timers came due."""

    async def send(self, topic: str, queue_id: int, properties: str) -> None:
        """One message of 128 B."""
        request = SendMessageV2(
            "P", topic, "TBW102", QUEUES, queue_id, 0, now_ms(), 0, properties, body=b"x" * 128
        )
        await self._pool.call(self._broker.broker, request, 60_000)

    async def fill(self, count: int, first_due_ms: int) -> None:
        """Sends `count` timer messages, due one after the other."""
        step_ms = DUE_WITHIN_S * 1000 / count
        numbers = iter(range(count))

        async def some() -> None:
            for number in numbers:
                due_ms = first_due_ms + int(number * step_ms)
                await self.send("Timed", number % QUEUES, f"TIMER_DELIVER_MS\x01{due_ms}\x02")

        await asyncio.gather(*(some() for _ in range(SENDERS)))

    async def load(self, until: Callable[[], Awaitable[bool]]) -> None:
        """Sends plain messages, a thousand a second at most, until there is nothing to wait for."""
        while not await until():
            for _ in range(100):
                before = time.perf_counter()
                await self.send("Plain", 0, "")
                self.pings.append(time.perf_counter() - before)
                await asyncio.sleep(0.001)

    async def delivered(self) -> int:
        """Number of timer messages in their queues."""
        asked = [
            self._pool.call(self._broker.broker, GetMaxOffset("Timed", queue_id), 60_000)
            for queue_id in range(QUEUES)
        ]
        return sum(reply.offset for reply in await asyncio.gather(*asked))

    async def lateness_ms(self) -> list[int]:
        """Of each message that came, in ms; below 0 is early."""
        late = []
        for queue_id in range(QUEUES):
            offset = 0
            while True:
                ask = pull_request("Timed", queue_id, offset, group="TOOLS_CONSUMER", count=1024)
                reply = await self._pool.call(self._broker.broker, ask, 60_000)
                records, _ = decode_records(reply.body or b"")
                if not records:
                    break
                for record in records:
                    due_ms = int(record.property_map()["TIMER_DELIVER_MS"])
                    late.append(record.store_timestamp - due_ms)
                offset = reply.next_begin_offset
        return late

    async def close(self) -> None:
        """Closes the connections."""
        await self._pool.close()


async def measure(broker: LocalBroker, count: int) -> None:
    """The whole of it; prints as it goes."""
    bench = Bench(broker)
    try:
        await bench.send("Plain", 0, "")
        before = anonymous_bytes(broker.pid)
        click.echo(f"anonymous memory at first: {before / MIB:,.0f} MiB")
        begun = time.perf_counter()
        first_due_ms = now_ms() + max(20_000, count // 4)
        await bench.fill(count, first_due_ms)
        took = time.perf_counter() - begun
        left_s = (first_due_ms - now_ms()) / 1000
        waiting = anonymous_bytes(broker.pid)
        click.echo(f"{count:,} timers were sent in {took:,.0f} s, {left_s:,.0f} s before the first is due")
        click.echo(f"anonymous memory with all of them: {waiting / MIB:,.0f} MiB")
        await asyncio.sleep(max(0, left_s))

        async def all_there() -> bool:
            return await bench.delivered() >= count

        await bench.load(all_there)
        click.echo(f"anonymous memory when all have come: {anonymous_bytes(broker.pid) / MIB:,.0f} MiB")
        late = sorted(await bench.lateness_ms())
    finally:
        await bench.close()
    cuts = statistics.quantiles(late, n=1000)
    click.echo(f"came: {len(late):,}; early: {sum(value < 0 for value in late):,}")
    click.echo(f"late by p50 {cuts[499]:.0f}, p99 {cuts[989]:.0f}, p99.9 {cuts[998]:.0f}, max {late[-1]} ms")
    slow = statistics.quantiles(bench.pings, n=1000)
    click.echo(
        f"{len(bench.pings):,} plain sends meanwhile took p50 {slow[499] * 1000:.1f}, "
        f"p99 {slow[989] * 1000:.1f}, max {max(bench.pings) * 1000:.0f} ms"
    )


@click.command()
@click.option("--count", type=click.IntRange(1000), default=1_000_000, show_default=True)
def main(count: int) -> None:
    """Holds COUNT timer messages and tells how late they come."""
    with tempfile.TemporaryDirectory() as folder:
        broker = LocalBroker(
            Path(folder) / "store", own_process=True, timeout_seconds=120, mappedFileSizeCommitLog=1 << 30
        )
        with broker:
            asyncio.run(measure(broker, count))


if __name__ == "__main__":
    main()
