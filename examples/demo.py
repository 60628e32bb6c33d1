"""The whole job in one go: real events into a broker, back out with a filter, into a Parquet lake, and into
an archive as a stream.

    make demo                                    or
    python examples/demo.py [--rows N] [--namesrv-port N] [--broker-port N] [--data-dir DIR]

Ctrl-C stops it at any moment; nothing is left running, and the next run goes on over the same store.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click
from broker_process import Broker, NotStarted, check_ports, child, live_console, standalone
from flights import Event, Flights, Lake, same_figures
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from orbitmq import __version__
from orbitmq.admin.admin import Admin
from orbitmq.admin.progress import group_progress
from orbitmq.client import (
    FIRST_OFFSET,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
    SendStatus,
)
from orbitmq.compiled import hot_modules
from orbitmq.spark.errors import BadOption, JavaNotFound
from orbitmq.spark.read.cluster import queue_bounds, readable_queues
from orbitmq.spark.session.java import find_java_home, java_version

HERE = Path(__file__).resolve().parent
TOPIC = "flights"
GROUP = "flights-readers"
QUEUES = 8
ARCHIVE = "flights-archive"
BATCHES = 6
"""About so many micro-batches the stream takes that archives the topic."""
CARRIERS = ("AA", "DL", "UA")
"""American, Delta and United: the tags that the consumer group asks for."""
STALLED_S = 60
"""A consumer that hears nothing for so long is no longer waited for."""

console = Console(highlight=False)


class DemoFailed(Exception):
    """A step did not come out as it must."""


@dataclass(slots=True)
class Places:
    """Where everything is."""

    folder: Path

    @property
    def lake(self) -> Path:
        return self.folder / "flights.parquet"

    @property
    def summary(self) -> Path:
        return self.folder / "delays.json"

    @property
    def archive(self) -> Path:
        return self.folder / "flights.archive"

    @property
    def archived(self) -> Path:
        return self.folder / "archived.json"

    @property
    def spark_log(self) -> Path:
        return self.folder / "spark.log"


@click.command()
@click.option("--rows", type=click.IntRange(1), help="Only the first N flights.  [default: all 336,776]")
@click.option("--namesrv-port", default=9876, show_default=True, type=click.IntRange(1, 65535))
@click.option("--broker-port", default=10911, show_default=True, type=click.IntRange(3, 65534))
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=HERE.parent / "demo-data",
    help="Store, logs and results.  [default: demo-data beside examples]",
)
def main(rows: int | None, namesrv_port: int, broker_port: int, data_dir: Path) -> None:
    """Runs OrbitMQ's main job on real data: publish, consume with a filter, read and stream with Spark."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        run(rows, namesrv_port, broker_port, Places(data_dir.resolve()))
    except (NotStarted, DemoFailed, JavaNotFound) as error:
        console.print(f"[bold red]The demo cannot go on:[/] {error}", markup=True)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("\nStopped. Nothing is left running; the store opens again with the next `make demo`.")
        sys.exit(130)


def run(rows: int | None, namesrv_port: int, broker_port: int, places: Places) -> None:
    """The steps, one after the other."""
    began = time.monotonic()
    # Before anything is read: an end right behind the reading, with its threads, is not always a clean one.
    check_ports(namesrv_port, broker_port)
    _step(1, "Environment")
    java = find_java_home()
    version = java_version(java / "bin" / "java")
    hot = hot_modules()
    compiled = sum(path is not None for path in hot.values())
    console.print(
        f"  OrbitMQ {__version__} on Python {platform.python_version()}, "
        f"{compiled} of {len(hot)} hot modules compiled; Java {version} at {java}",
        soft_wrap=True,
    )
    flights = Flights(rows)
    _step(2, "Name server and broker")
    with standalone(places.folder, namesrv_port, broker_port) as broker:
        console.print(
            f"  ready after {broker.ready_after_s:.2f} s: name server {broker.namesrv}, broker on port "
            f"{broker_port}, process {broker.pid}",
            soft_wrap=True,
        )
        starts = end_offsets(broker)
        if sum(starts.values()):
            console.print(f"  the topic holds {sum(starts.values()):,} messages of earlier runs; they stay")
        _step(3, f"Publish {len(flights):,} flights to topic {TOPIC}")
        asyncio.run(publish(broker, flights.events))
        ends = end_offsets(broker)
        stored = sum(ends.values()) - sum(starts.values())
        _expect("messages in the topic", stored, len(flights))
        _step(4, f"Consume what {', '.join(CARRIERS)} flew: group {GROUP}, tags {' || '.join(CARRIERS)}")
        expected = {carrier: flights.count_by_tag()[carrier] for carrier in CARRIERS}
        consumed = asyncio.run(consume(broker, starts, sum(expected.values())))
        for carrier, count in expected.items():
            _expect(f"flights of {carrier}", consumed[carrier], count)
        _step(5, "Read the topic with Spark, write Parquet partitioned by origin")
        spark_job(broker, places, starts, ends)
        check_lake(places, flights)
        _step(6, f"Archive the topic as a stream, in micro-batches: group {ARCHIVE}")
        stream_job(broker, places, starts, len(flights))
        check_archive(broker, places, flights)
        _step(7, f"Done in {time.monotonic() - began:.0f} s")
        _say_what_is_there(places)
        _look_around(broker, places)
    _say_what_next(places)


def end_offsets(broker: Broker) -> dict[str, int]:
    """The next offset of every queue of the topic, by `broker|queue`; empty where it does not exist yet."""
    try:
        queues = readable_queues([broker.namesrv], [TOPIC])
    except BadOption:
        return {}
    return {queue.key: high for queue, (_, high) in queue_bounds(queues).items()}


async def publish(broker: Broker, events: list[Event]) -> None:
    """Sends every event; those of one aircraft keep their order. A batch that is not stored ends the demo."""
    acknowledged = 0
    with _progress() as progress:
        task = progress.add_task("publishing", total=len(events))

        def on_sent(results: list[SendResult]) -> None:
            nonlocal acknowledged
            acknowledged += sum(result.status == SendStatus.SEND_OK for result in results)
            progress.update(task, completed=acknowledged)

        async with Producer("flights-publisher", broker.namesrv, default_topic_queue_nums=QUEUES) as producer:
            await producer.send_all(map(_message, events), on_sent=on_sent)
    _expect("acknowledged by the broker", acknowledged, len(events))


def _message(event: Event) -> Message:
    return Message(
        TOPIC,
        event.body,
        keys=event.key,
        tags=event.tag,
        properties={"origin": event.origin, "dest": event.dest},
        sharding_key=event.shard,
    )


async def consume(broker: Broker, starts: dict[str, int], expected: int) -> Counter[str]:
    """Reads with the tag filter until `expected` messages of this run have come; how many per tag.

    A message may come twice (at least once is the rule), so places are counted, not deliveries.
    """
    seen: set[tuple[str, int]] = set()
    by_tag: Counter[str] = Counter()
    heard = asyncio.Event()
    with _progress() as progress:
        task = progress.add_task("consuming", total=expected)

        async def handle(message: ReceivedMessage) -> None:
            heard.set()
            queue = f"{message.queue.broker_name}|{message.queue.queue_id}"
            place = (queue, message.queue_offset)
            if message.queue_offset < starts.get(queue, 0) or place in seen:
                return
            seen.add(place)
            by_tag[message.tags or ""] += 1
            progress.update(task, completed=len(seen))

        async with PushConsumer(GROUP, broker.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
            consumer.subscribe(TOPIC, " || ".join(CARRIERS), handle)
            while len(seen) < expected:
                heard.clear()
                try:
                    async with asyncio.timeout(STALLED_S):
                        await heard.wait()
                except TimeoutError:
                    raise DemoFailed(f"nothing was delivered for {STALLED_S} s, {len(seen):,} came") from None
    return by_tag


def spark_job(broker: Broker, places: Places, starts: dict[str, int], ends: dict[str, int]) -> None:
    """Runs examples/spark_read.py over exactly this run's offsets, as a process of its own."""
    shutil.rmtree(places.lake, ignore_errors=True)
    places.summary.unlink(missing_ok=True)
    command = [
        sys.executable,
        str(HERE / "spark_read.py"),
        f"--namesrv={broker.namesrv}",
        f"--topic={TOPIC}",
        f"--starting-offsets={json.dumps({TOPIC: {queue: starts.get(queue, 0) for queue in ends}})}",
        f"--ending-offsets={json.dumps({TOPIC: ends})}",
        f"--out={places.lake}",
        f"--summary={places.summary}",
    ]
    environment = {**os.environ, "COLUMNS": str(console.width)}
    with (
        places.spark_log.open("wb") as log,
        child(command, stdout=subprocess.PIPE, stderr=log, env=environment) as job,
        console.status("  Spark starts, reads, writes … (a minute or less)"),
    ):
        output, _ = job.communicate()
    if job.returncode != 0 or not places.summary.exists():
        raise DemoFailed(
            f"the Spark job failed (exit code {job.returncode}); its output is in {places.spark_log}"
        )
    console.print(output.decode(), end="", markup=False)


def stream_job(broker: Broker, places: Places, starts: dict[str, int], count: int) -> None:
    """Runs examples/spark_stream.py from this run's first offsets on; it draws its own progress."""
    shutil.rmtree(places.archive, ignore_errors=True)
    places.archived.unlink(missing_ok=True)
    begin = {queue: starts.get(queue, 0) for queue in end_offsets(broker)}
    command = [
        sys.executable,
        str(HERE / "spark_stream.py"),
        f"--namesrv={broker.namesrv}",
        f"--topic={TOPIC}",
        f"--starting-offsets={json.dumps({TOPIC: begin})}",
        f"--group={ARCHIVE}",
        f"--at-once={-(-count // BATCHES)}",
        f"--out={places.archive}",
        f"--summary={places.archived}",
    ]
    environment = {**os.environ, "COLUMNS": str(console.width)}
    with places.spark_log.open("ab") as log, child(command, stderr=log, env=environment) as job:
        job.wait()
    if job.returncode != 0 or not places.archived.exists():
        raise DemoFailed(
            f"the stream failed (exit code {job.returncode}); its output is in {places.spark_log}"
        )


def check_archive(broker: Broker, places: Places, flights: Flights) -> None:
    """Compares what the stream has archived with the source data, and what the broker knows of it."""
    archive = Lake(places.archive)
    told = json.loads(places.archived.read_text())
    _expect("flights archived", len(archive), len(flights))
    _expect("of them different", archive.distinct_keys(), len(flights))
    _expect_true("every aircraft's flights are in one queue, in order", archive.keeps_order(flights))
    _expect(f"flights in its {told['micro_batches']} micro-batches", told["flights"], len(flights))
    _expect(f"lag of group {ARCHIVE}, as every admin tool sees it", asyncio.run(lag(broker)), 0)


async def lag(broker: Broker) -> int:
    """Number of messages that the archive has not read yet, by the offsets that it has committed."""
    async with Admin(broker.namesrv) as admin:
        return (await group_progress(admin, ARCHIVE, TOPIC)).lag


def check_lake(places: Places, flights: Flights) -> None:
    """Compares what Spark computed and what lies in the files with the source data."""
    lake = Lake(places.lake)
    told = {
        carrier: (count, mean) for carrier, (count, mean) in json.loads(places.summary.read_text()).items()
    }
    _expect("flights in the Parquet files", len(lake), len(flights))
    _expect("of them different", lake.distinct_keys(), len(flights))
    _expect_true("Spark's figures are those of the source data", same_figures(told, flights.delays()))
    _expect_true(
        "the files give the same figures without Spark", same_figures(lake.delays(), flights.delays())
    )
    _expect_true("every aircraft's flights are in one queue, in order", lake.keeps_order(flights))


def _step(number: int, title: str) -> None:
    console.print(f"\n[bold]{number}. {title}[/]")


def _expect(what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise DemoFailed(f"{what}: {found:,}, but it should be {wanted:,}")
    console.print(f"  [green]✓[/] {what}: {found:,}")


def _expect_true(what: str, holds: bool) -> None:
    if not holds:
        raise DemoFailed(f"this does not hold: {what}")
    console.print(f"  [green]✓[/] {what}")


class _Rate(ProgressColumn):
    """Messages per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


def _progress() -> Progress:
    columns = (BarColumn(30), MofNCompleteColumn(), _Rate(), TimeElapsedColumn())
    return Progress(TextColumn("  {task.description}"), *columns, console=console)


def _look_around(broker: Broker, places: Places) -> None:
    """The console over the broker that still runs: live until Enter, where somebody is there to press it."""
    with live_console(places.folder, broker.namesrv) as url:
        with urllib.request.urlopen(f"{url}api/clusters/default/overview") as answer:
            brokers = json.load(answer)["brokers"]
        _expect_true(f"the console is live at {url}", [one["state"] for one in brokers] == ["active"])
        if sys.stdin.isatty() and sys.stdout.isatty():
            console.print("  Open it in a browser; Enter ends the demo.")
            sys.stdin.readline()


def _say_what_is_there(places: Places) -> None:
    console.print(
        f"""  {places.folder / "store"}  the broker's store, as Apache RocketMQ would have written it
  {places.lake}  the flights, partitioned by origin
  {places.archive}  the same as a stream wrote them
  {places.folder / "broker.log"}, {places.spark_log}  what broker and Spark had to say
""",
        soft_wrap=True,
    )


def _say_what_next(places: Places) -> None:
    console.print(
        f"""
Broker and console have been stopped. To look around once more:
  .venv/bin/orbitmq standalone --console --data-dir {places.folder / "store"}
  .venv/bin/orbitmq admin topic status {TOPIC}
  .venv/bin/orbitmq admin group progress {ARCHIVE}
  .venv/bin/python examples/spark_read.py --out /tmp/flights.parquet
  .venv/bin/python examples/spark_stream.py --out /tmp/flights.archive
  docs/data/data-guide.md  what the Spark source can do""",
        soft_wrap=True,
    )


def _interrupt(_: int, __: FrameType | None) -> None:
    """SIGTERM stops the demo like Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
