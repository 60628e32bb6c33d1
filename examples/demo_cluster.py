"""A cluster that loses a broker in the middle of its work, and no message: real events go in and come out
while a master is killed.

    make demo-cluster                       the master is started again, as a supervisor would do it
    make demo-cluster ARGS=--failover       a controller makes its slave the master (needs the program etcd)

Ctrl-C stops it at any moment; nothing is left running.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType

import click
from flights import Event, Flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from orbitmq.client import (
    FIRST_OFFSET,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
    SendStatus,
)
from orbitmq.testing.local_broker import StartFailed
from orbitmq.testing.local_cluster import LocalCluster

HERE = Path(__file__).resolve().parent
TOPIC = "flights"
GROUP = "flights-readers"
QUEUES = 4
"""Queues per broker group."""
DOWN_S = 2
"""So long the killed broker stays away."""
BATCH = 64
"""Flights that are sent at a time to a queue."""
STALLED_S = 90
DELIVERY_MS = 120_000

console = Console(highlight=False)


class DemoFailed(Exception):
    """A step did not come out as it must."""


@dataclass(slots=True)
class Seen:
    """The fate of the flights so far."""

    acknowledged: int = 0
    unsure: int = 0
    """Flights that were stored while no slave had them in time: not promised."""
    acknowledged_at: list[float] = field(default_factory=list)
    arrived: dict[str, float] = field(default_factory=dict)
    """First arrival of each flight, in their order."""
    deliveries: int = 0
    killed_at: float = 0.0


@click.command()
@click.option("--rows", type=click.IntRange(100), help="Only the first N flights.  [default: all 336,776]")
@click.option(
    "--masters",
    type=click.IntRange(1, 4),
    default=2,
    show_default=True,
    help="Broker groups, each with a slave.",
)
@click.option(
    "--failover", is_flag=True, help="Let controllers elect another master. Needs the program etcd."
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=HERE.parent / "demo-data" / "cluster",
    help="Stores and logs of all nodes; made anew.  [default: demo-data/cluster beside examples]",
)
def main(rows: int | None, masters: int, failover: bool, data_dir: Path) -> None:
    """Kills a master while flights are published and consumed, and counts what was lost."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        run(rows, masters, failover, data_dir.resolve())
    except (DemoFailed, StartFailed) as error:
        console.print(f"[bold red]The demo cannot go on:[/] {error}", markup=True)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("\nStopped. Nothing is left running.")
        sys.exit(130)


def run(rows: int | None, masters: int, failover: bool, folder: Path) -> None:
    """The steps, one after the other."""
    began = time.monotonic()
    _step(1, "A cluster")
    shutil.rmtree(folder, ignore_errors=True)
    flights = Flights(rows)
    made = LocalCluster(
        folder,
        masters=masters,
        slaves=1,
        name_servers=2,
        mode="sync-master",
        failover=failover,
        timeout_seconds=120,
    )
    with made as cluster:
        for state in cluster.status():
            console.print(f"  {state.node.name:<12}  {state.role:<10}  {state.node.address}")
        console.print("  a message is acknowledged once a master and its slave have it")
        _step(2, f"Publish {len(flights):,} flights, consume them, and kill a master in between")
        seen = Seen()
        told = asyncio.run(work(cluster, flights.events, seen, failover))
        _step(3, "What happened")
        for line in told:
            console.print(f"  {line}")
        check(cluster, flights.events, seen, told)
    _step(4, f"Done in {time.monotonic() - began:.0f} s; stores and logs are in {folder}")


async def work(cluster: LocalCluster, events: list[Event], seen: Seen, failover: bool) -> list[str]:
    """Publishes and consumes all flights over the death of a master; tells what came to pass."""
    at_kill, killed = asyncio.Event(), asyncio.Event()

    async def in_two_parts() -> AsyncIterator[Message]:
        """All flights; the last third waits until the master is dead, however fast the brokers are."""
        for number, event in enumerate(events):
            if number == len(events) * 2 // 3:
                await killed.wait()
            yield _message(event)

    arrived = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        seen.deliveries += 1
        seen.arrived.setdefault(message.keys[0], time.monotonic())
        progress.update(consuming, completed=len(seen.arrived))
        arrived.set()

    def on_sent(results: list[SendResult]) -> None:
        safe = sum(result.status is SendStatus.SEND_OK for result in results)
        seen.acknowledged += safe
        seen.unsure += len(results) - safe
        if safe:
            seen.acknowledged_at.append(time.monotonic())
        progress.update(publishing, completed=seen.acknowledged + seen.unsure)
        if seen.acknowledged >= len(events) // 3:
            at_kill.set()

    async with (
        Producer("flights-publisher", cluster.namesrv, default_topic_queue_nums=QUEUES) as producer,
        PushConsumer(
            GROUP,
            cluster.namesrv,
            consume_from_where=FIRST_OFFSET,
            ordered=True,
            poll_name_server_interval_ms=1000,
        ) as consumer,
    ):
        with _progress() as progress:
            publishing = progress.add_task("published", total=len(events))
            consuming = progress.add_task("consumed", total=len(events))
            consumer.subscribe(TOPIC, "*", handle)
            sending = asyncio.ensure_future(
                producer.send_all(in_two_parts(), batch_size=BATCH, on_sent=on_sent, timeout_ms=DELIVERY_MS)
            )
            await asyncio.wait(
                {sending, asyncio.ensure_future(at_kill.wait())}, return_when=asyncio.FIRST_COMPLETED
            )
            told = await kill_a_master(cluster, seen, killed, failover)
            await sending
            while len(seen.arrived) < len(events):
                arrived.clear()
                try:
                    async with asyncio.timeout(STALLED_S):
                        await arrived.wait()
                except TimeoutError:
                    raise DemoFailed(
                        f"nothing came for {STALLED_S} s, behind {len(seen.arrived):,} of {len(events):,}"
                    ) from None
    return told


async def kill_a_master(
    cluster: LocalCluster, seen: Seen, killed: asyncio.Event, failover: bool
) -> list[str]:
    """Kills the master of the first group, and has it come back; tells what came to pass."""
    group = "broker-a"
    master = await asyncio.to_thread(cluster.master, group)
    if master is None:
        raise DemoFailed(f"{group} has no master")
    seen.killed_at = time.monotonic()
    told = [
        f"kill -9 {master.name}, the master of {group}, behind {seen.acknowledged:,} acknowledged flights"
    ]
    await asyncio.to_thread(cluster.kill, master.name)
    killed.set()
    if failover:
        while (now := await asyncio.to_thread(cluster.master, group)) is None:
            if time.monotonic() - seen.killed_at > STALLED_S:
                raise DemoFailed(f"{group} got no other master within {STALLED_S} s")
            await asyncio.sleep(0.02)
        told.append(f"{now.name} is master {time.monotonic() - seen.killed_at:.1f} s later")
    await asyncio.sleep(max(0.0, seen.killed_at + DOWN_S - time.monotonic()))
    await asyncio.to_thread(cluster.start_node, master.name)
    role = "to follow the new master" if failover else "as the master"
    told.append(f"{master.name} was started again {time.monotonic() - seen.killed_at:.1f} s later, {role}")
    return told


def check(cluster: LocalCluster, events: list[Event], seen: Seen, told: list[str]) -> None:
    """Compares what came with what was sent."""
    gaps = [after - before for before, after in pairwise(seen.acknowledged_at) if after >= seen.killed_at]
    console.print(f"  longest time without an acknowledgement afterwards: {max(gaps, default=0.0):.1f} s")
    twice = seen.deliveries - len(seen.arrived)
    console.print(f"  flights that came twice, for at least once is the rule: {twice:,}")
    if seen.unsure:
        console.print(f"  stored, but not at the slave in time, and so not promised: {seen.unsure:,}")
    keys = {event.key for event in events}
    lost = len(keys - seen.arrived.keys())
    _expect("flights lost", lost, 0)
    _expect("flights consumed, all different", len(seen.arrived), len(keys))
    _expect("aircraft whose flights came in another order", _out_of_order(events, list(seen.arrived)), 0)
    # Every node is there again, and each slave follows its master.
    cluster.start()
    behind = {state.node.name: state.behind_bytes for state in cluster.status() if state.role == "slave"}
    _expect(f"bytes of the log missing at {', '.join(behind)}", sum(behind.values()), 0)


def _out_of_order(events: list[Event], arrived: list[str]) -> int:
    """The number of aircraft whose flights did not come in the order in which they were published."""
    place = {event.key: (event.shard, number) for number, event in enumerate(events)}
    last: dict[str, int] = {}
    wrong: Counter[str] = Counter()
    for key in arrived:
        aircraft, number = place[key]
        if number < last.get(aircraft, -1):
            wrong[aircraft] += 1
        last[aircraft] = number
    return len(wrong)


def _message(event: Event) -> Message:
    return Message(TOPIC, event.body, keys=event.key, tags=event.tag, sharding_key=event.shard)


def _step(number: int, title: str) -> None:
    console.print(f"\n[bold]{number}. {title}[/]", soft_wrap=True)


def _expect(what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise DemoFailed(f"{what}: {found:,}, but it should be {wanted:,}")
    console.print(f"  [green]✓[/] {what}: {found:,}", soft_wrap=True)


def _progress() -> Progress:
    columns = (BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(TextColumn("  {task.description}"), *columns, console=console)


def _interrupt(_: int, __: FrameType | None) -> None:
    """SIGTERM stops the demo like Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
