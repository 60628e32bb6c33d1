"""`orbitmq admin delay ...`: messages that wait for their time."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.admin.waiting.delays import broker_delays
from orbitmq.admin.waiting.timers import TimerScan, recall
from orbitmq.cli.admin.command import command, confirm, yes_flag
from orbitmq.plurals import counted
from orbitmq.protocol.errors import OrbitError


class NoTimer(OrbitError):
    """No pending timer has the unique id."""


@command("delay", "list", "orbitmq admin delay list\norbitmq admin delay list --json")
async def show(admin: Admin) -> Rows:
    """Pending messages by delay level, and pending timers by topic, on every master."""
    found = await broker_delays(admin)
    rows: list[tuple[object, ...]] = []
    for one in found:
        rows += [
            (one.broker, "level", state.level, state.delay_ms, None, state.pending, state.next_due_ms)
            for state in one.levels
        ]
        rows += [
            (one.broker, "timer", None, None, topic, count, None)
            for topic, count in one.timers_by_topic.items()
        ]
    return Rows(
        columns("broker kind level delayMs topic pending nextDue", times="nextDue", delayMs="Delay (ms)"),
        rows,
        "\n".join(f"{one.broker}: {one.error}" for one in found if one.error),
    )


@command("delay", "timers", "orbitmq admin delay timers --topic orders --max 20")
@click.option(
    "-t", "--topic", default="", show_default=False, metavar="NAME", help="Only timers of this topic."
)
@click.option("--max", "most", type=click.IntRange(1, 10_000), default=100, help="Rows at most.")
@click.option("--budget", type=click.IntRange(1), default=50_000, help="Records that are read at most.")
async def timers(admin: Admin, topic: str, most: int, budget: int) -> Rows:
    """Pending timers, the soonest first. The brokers' timer topic is read for them."""
    scan = TimerScan(admin, topic, budget)
    async for _ in scan.run():
        pass
    notes = [
        f"{counted(scan.count, 'pending timer')} in {scan.scanned} of {scan.total} records",
        *scan.errors,
    ]
    return Rows.of(
        columns("due topic uniqueId keys broker bodySize", times="due", bodySize="Bytes"),
        scan.soonest(most),
        "\n".join(notes),
        due="due_ms",
    )


@command("delay", "recall", "orbitmq admin delay recall orders 7F000001C4D818B4AAC20B5A7E3C0000")
@click.argument("topic")
@click.argument("unique_id")
@yes_flag
async def take_back(admin: Admin, topic: str, unique_id: str, yes: bool) -> Done:
    """Take the pending timer of TOPIC with this unique id back: it is never delivered.

    The broker needs recallMessageEnable=true.
    """
    scan = TimerScan(admin, topic, 1_000_000)
    async for _ in scan.run():
        pass
    found = [one for one in scan.soonest(scan.count) if one.unique_id == unique_id]
    if not found:
        raise NoTimer(f"no timer of topic {topic} with unique id {unique_id} is pending")
    confirm(f"Take back {unique_id} of {topic}?", yes)
    for one in found:
        await recall(admin, one.broker, one.topic, one.due_ms, one.unique_id)
    return Done(f"took back {unique_id} of {topic}", {"topic": topic, "uniqueId": unique_id})
