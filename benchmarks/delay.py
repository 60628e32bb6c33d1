"""The delay service beside a broker: intake, delivery, lateness, memory, restart, cancels, room over rounds.

    python -m benchmarks.delay                  200,000 messages, some minutes
    python -m benchmarks.delay --messages 20000000
    python -m benchmarks.delay --waiting 1000 20000000    while so many wait; stores are filled directly

With --waiting, the broker's own timers are measured as well, and a table for the guide is printed at the end.
Broker, service and measurement share the machine. Bodies have 200 bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from orbitmq import sync
from orbitmq.client import Message, Producer, ReceivedMessage
from orbitmq.client.delays import DelayClient, DelayUnavailable
from orbitmq.delay_service.rules.delivery import Delivery, Result, Sent
from orbitmq.delay_service.rules.intake import CLUSTER_PREFIX, Intake, Queue, SourceMessage
from orbitmq.delay_service.rules.lanes import Lanes
from orbitmq.delay_service.rules.sharing import QUEUE_PREFIX
from orbitmq.delay_service.rules.targets import Known, Target
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import Content, NameEntry, Pending, encode
from orbitmq.delay_service.store.store import DelayStore
from orbitmq.protocol.names import TIMER_DELIVER_MS
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker

BODY = os.urandom(200)
SOURCE = "orbitmq_delay"
START_SECONDS = 600
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ACTIONS = 50_000
"""Moves, and cancels, of one run."""
TIMERS_AHEAD_MS = 30_000
"""Timers are sent one by one: all of them have to be there before the first is due."""
UNDER_WAY = ("rocksdb.compaction-pending", "rocksdb.num-running-compactions")


def now_ms() -> int:
    """The time of the machine."""
    return int(time.time() * 1000)


class Service:
    """The service as a process."""

    def __init__(self, folder: Path, cluster: str, *more: str) -> None:
        """`cluster` is a URL, `more` are other flags."""
        self.port = free_ports()
        self.client = DelayClient(f"http://127.0.0.1:{self.port}")
        self._command = [
            sys.executable, "-m", "orbitmq", "delay", "serve", "--data-dir", str(folder),
            "--cluster", f"main={cluster}", "--http", f"127.0.0.1:{self.port}",
            "--log-level", "warning", *more,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Starts it; gives the seconds until its API answers with an open store."""
        began = time.monotonic()
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        wait(lambda: self.stats() is not None, START_SECONDS, 0.02)
        return time.monotonic() - began

    def stats(self) -> dict[str, Any] | None:
        """Its counts, None while it does not answer."""
        try:
            return self.client.stats()
        except DelayUnavailable:
            return None

    def end(self, number: int = signal.SIGTERM) -> None:
        """Ends it."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kills it if it still runs: a measurement has failed."""
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)

    @property
    def processor_seconds(self) -> float:
        """Processor time so far. It says more than rates where the machine does other work as well."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def background_seconds(self) -> float:
        """The part of it that RocksDB's own threads took, for flushes and compactions."""
        assert self._process is not None
        ticks = 0
        for one in Path(f"/proc/{self._process.pid}/task").iterdir():
            name, _, fields = (one / "stat").read_text().rpartition(")")
            if "rocksdb" in name:
                ticks += sum(map(int, fields.split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mb(self) -> int:
        """Its resident set."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) // 1024


def wait(condition: Callable[[], object], seconds: float, every: float = 0.1) -> None:
    """Returns when the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waits for something that does not come")
        time.sleep(every)


def orders(number: int, **control: object) -> Iterator[Message]:
    """Orders; `{n}` in a value is the number of the message."""
    given = {f"delay.{name}": str(value) for name, value in control.items()}
    for n in range(number):
        yield Message(SOURCE, BODY, properties={k: v.replace("{n}", str(n)) for k, v in given.items()})


def percentile(values: list[int], share: float) -> int:
    """A percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


Rows = Sequence[tuple[str, str]]
"""Titles of rows, and their texts with the names of figures in braces."""
LATENESS = "{lateness_p50_ms:,} ms, {lateness_p99_ms:,} ms; {early} early"


def table(rows: Rows, columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Columns of figures by their titles, as a table in Markdown. Cells without figures are empty."""
    lines = [["", *columns], ["---"] * (1 + len(columns))]
    for title, text in rows:
        cells = []
        for figures in columns.values():
            try:
                cells.append(text.format_map(figures))
            except KeyError:
                cells.append("")
        lines.append([title, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


class Figures(dict[str, Any]):
    """Figures by name. Each is shown on stderr as soon as it is known: a run of millions takes its time."""

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, value)
        print(f"{name}: {value}", file=sys.stderr, flush=True)

    def add(self, found: dict[str, Any]) -> None:
        """Several of them."""
        for name, value in found.items():
            self[name] = value


def make_topics(broker: LocalBroker) -> None:
    """Makes all topics of a run."""
    for topic in (SOURCE, "orbitmq_delay_dead", "bench", "late", "overdue"):
        broker.create_topic(topic, queues=1 if topic in {"late", "overdue"} else 4)


def through_a_broker(number: int, per_second: int) -> dict[str, Any]:
    """The figures of a service beside a broker."""
    found = Figures(messages=number)
    with (
        tempfile.TemporaryDirectory(prefix="orbitmq-bench-") as folder,
        LocalBroker(own_process=True, mappedFileSizeCommitLog=str(256 << 20)) as broker,
        sync.Producer("bench", broker.namesrv) as producer,
        Service(Path(folder), f"rocketmq://{broker.namesrv}") as service,
    ):
        make_topics(broker)
        due = now_ms() + 20 * HOUR_MS
        producer.send_all(orders(number, topic="bench", at=due, id="m{n}"))
        service.start()
        found["intake_per_second"] = round(rate(lambda: pending(service), number))
        found["memory_mb"] = service.memory_mb
        found["store_bytes_per_message"] = round((service.stats() or {})["store_bytes"] / number)
        service.end(signal.SIGKILL)
        found["open_after_kill_seconds"] = round(service.start(), 2)
        found.add(lateness_of_orders(broker, producer, per_second))
        cancels = min(number, 100_000)
        producer.send_all(cancel_orders(cancels))
        found["cancels_per_second"] = round(rate(lambda: count(service, "cancelled"), cancels))
        service.end()
        producer.send_all(orders(number, topic="bench", at=now_ms() - 1000))
        service.start()
        before = (service.stats() or {})["delivered"]
        found["taken_in_and_delivered_per_second"] = round(
            rate(lambda: (service.stats() or {})["delivered"] - before, number)
        )
        found["memory_at_the_end_mb"] = service.memory_mb
        service.end()
    return found


def with_many_waiting(number: int, due: int, per_second: int) -> dict[str, Any]:
    """The figures of a service whose store holds so many messages that are due in a day, each with a body of
    its own. `due` more are due as it starts.
    """
    found = Figures(waiting=number)
    with (
        tempfile.TemporaryDirectory(prefix="orbitmq-bench-") as folder,
        LocalBroker(own_process=True, mappedFileSizeCommitLog=str(256 << 20)) as broker,
        sync.Producer("bench", broker.namesrv) as producer,
        Service(Path(folder), f"rocketmq://{broker.namesrv}") as service,
    ):
        make_topics(broker)
        began = time.monotonic()
        bytes_of_messages = fill(Path(folder), number, due)
        found["filled_per_second"] = round((number + due) / (time.monotonic() - began))
        found["open_seconds"] = round(service.start(), 2)
        found["delivered_per_second"] = round(rate(lambda: (service.stats() or {})["delivered"], due))
        found["processor_us_per_delivery"] = round(service.processor_seconds * 1e6 / due, 1)
        found["of_it_flushes_and_compactions_us"] = round(service.background_seconds * 1e6 / due, 1)
        found["memory_mb"] = service.memory_mb
        if number > due:
            found["store_bytes_to_message_bytes"] = round(
                (service.stats() or {})["store_bytes"] / bytes_of_messages, 2
            )
        found.add(lateness_of_orders(broker, producer, per_second))
        if number >= ACTIONS:
            producer.send_all(move_orders(ACTIONS))
            found["moves_per_second"] = round(rate(lambda: count(service, "moved"), ACTIONS))
            producer.send_all(cancel_orders(ACTIONS))
            found["cancels_per_second"] = round(rate(lambda: count(service, "cancelled"), ACTIONS))
        found["memory_at_the_end_mb"] = service.memory_mb
        found.add(start_after_kill(broker, producer, service))
        service.end()
    return found


def timers(due: int, per_second: int) -> dict[str, Any]:
    """The figures of the broker's own timers. `due` of them are due at the same time."""
    found = Figures()
    with LocalBroker(own_process=True, mappedFileSizeCommitLog=str(256 << 20)) as broker:
        make_topics(broker)

        def send(topic: str, times: Iterable[int]) -> None:
            asyncio.run(submit(broker.namesrv, (Message(topic, BODY, deliver_at_ms=at) for at in times)))

        found.add(lateness(broker, lambda times: send("late", times), per_second, TIMERS_AHEAD_MS))
        took_ms = TIMERS_AHEAD_MS - found["sent_ahead_ms"]
        at = now_ms() + 5000 + 2 * took_ms * due // (10 * per_second)
        began = time.monotonic()
        send("overdue", (at for _ in range(due)))
        found["taken_in_per_second"] = round(due / (time.monotonic() - began))
        found["burst_sent_ahead_ms"] = at - now_ms()
        stored = sorted(one.store_timestamp_ms for one in read(broker, "overdue", due))
        found["delivered_per_second"] = round(due * 1000 / max(stored[-1] - stored[0], 1))
    return found


async def submit(namesrv: str, messages: Iterable[Message]) -> None:
    """Sends messages that no batch takes, many at a time."""
    async with Producer("bench", namesrv) as producer:
        for one in messages:
            await producer.submit(one)
        await producer.flush()


def start_after_kill(
    broker: LocalBroker, producer: sync.Producer, service: Service, number: int = 100
) -> dict[str, Any]:
    """Seconds from a start after a kill to an open store, and to the last message that came due before it."""
    before = count(service, "scheduled")
    producer.send_all(orders(number, topic="overdue", at=now_ms() + 3000))
    wait(lambda: count(service, "scheduled") >= before + number, 60)
    service.end(signal.SIGKILL)
    time.sleep(4)
    began = time.monotonic()
    found = {"open_after_kill_seconds": round(service.start(), 2)}
    read(broker, "overdue", number)
    found["overdue_delivered_seconds"] = round(time.monotonic() - began, 2)
    return found


def fill(folder: Path, number: int, due: int) -> int:
    """Fills a store without a broker, one message due after the other; gives the bytes of names, properties
    and bodies that wait.
    """
    store = DelayStore(folder)
    changes = store.changes()
    lane = Lanes(store).of(Target("main", "bench"), changes).number
    cluster = store.number_of(f"{CLUSTER_PREFIX}main", changes)
    source = store.number_of(f"{QUEUE_PREFIX}main/filled/b:0", changes)
    store.write(changes)
    now = now_ms()
    bodies = os.urandom(1 << 24)
    properties = {"colour": "red"}
    size = 0
    for begin in range(0, number + due, 1000):
        changes = store.changes()
        for n in range(begin, begin + 1000):
            at = now + DAY_MS + n % DAY_MS if n < number else now
            name, start = f"m{n}", n * 7919 % (len(bodies) - 200)
            key = keys.pending_key(lane, at, source, n)
            content = Content(bodies[start : start + 200], properties)
            changes.add(key, encode(Pending(name, cluster, at, content)))
            changes.put(keys.name_key(cluster, name), encode(NameEntry(key)))
            size += 200 + len(name) + len("colourred")
        store.write(changes)
    # A service pays for compactions as messages come in; here it would do so after its start.
    database = store._db
    database.flush()
    while any(map(database.property_int_value, UNDER_WAY)):
        time.sleep(0.1)
    store.close()
    return size


def move_orders(number: int) -> Iterator[Message]:
    """Moves of the first messages."""
    for n in range(number):
        control = {"delay.action": "move", "delay.id": f"m{n}", "delay.after": "30h"}
        yield Message(SOURCE, b"m", properties=control)


def cancel_orders(number: int) -> Iterator[Message]:
    """Cancels of the first messages."""
    for n in range(number):
        yield Message(SOURCE, b"c", properties={"delay.action": "cancel", "delay.id": f"m{n}"})


def pending(service: Service) -> int:
    """Number of pending messages."""
    return int((service.stats() or {"pending": 0})["pending"])


def count(service: Service, outcome: str) -> int:
    """Number of orders with an outcome."""
    return int((service.stats() or {"orders": {}})["orders"].get(outcome, 0))


def rate(done: Callable[[], int], number: int) -> float:
    """How many in a second, from the first that is seen to the last; 0 if none was left at the first look."""
    wait(lambda: done() > 0, 300, 0.02)
    began, first = time.monotonic(), done()
    wait(lambda: done() >= number, 3600, 0.05)
    return (number - first) / max(time.monotonic() - began, 0.001)


def read(broker: LocalBroker, topic: str, number: int) -> Iterator[ReceivedMessage]:
    """So many messages of a topic with one queue, as they come."""
    with sync.PullConsumer("bench", broker.namesrv) as consumer:
        (queue,) = consumer.queues(topic)
        offset = 0
        while offset < number:
            got = consumer.pull(queue, offset, wait_ms=1000)
            offset = got.next_offset
            yield from got


def lateness_of_orders(broker: LocalBroker, producer: sync.Producer, per_second: int) -> dict[str, Any]:
    """Lateness of orders for the topic `late`."""

    def send(times: Iterable[int]) -> None:
        given = ({"delay.topic": "late", "delay.at": str(at)} for at in times)
        producer.send_all(Message(SOURCE, BODY, properties=properties) for properties in given)

    return lateness(broker, send, per_second)


def lateness(
    broker: LocalBroker, send: Callable[[Iterable[int]], None], per_second: int, ahead_ms: int = 8000
) -> dict[str, Any]:
    """Lateness by the target's store time, while so many are due in each of ten seconds."""
    begin = now_ms() + ahead_ms
    number = per_second * 10
    send(begin + n * 1000 // per_second for n in range(number))
    ahead = begin - now_ms()
    late = [
        one.store_timestamp_ms - int(one.properties.get("delay.due") or one.properties[TIMER_DELIVER_MS])
        for one in read(broker, "late", number)
    ]
    return {
        "due_per_second": per_second,
        "sent_ahead_ms": ahead,
        "early": sum(one < 0 for one in late),
        "lateness_p50_ms": percentile(late, 0.5),
        "lateness_p99_ms": percentile(late, 0.99),
    }


def rounds(number: int) -> list[int]:
    """Bytes of a store after each of ten rounds of filling and draining, without network."""
    sizes = []
    queue = Queue("main", SOURCE, "b:0")
    with tempfile.TemporaryDirectory(prefix="orbitmq-bench-") as folder:
        store = DelayStore(Path(folder))
        lanes = Lanes(store)
        known = Known({"main": False}, frozenset(), "dead")
        intake, delivery = Intake(store, lanes, known), Delivery(store, lanes, known)
        now, offset = 1_700_000_000_000, 0
        for _ in range(10):
            for begin in range(0, number, 1000):
                part = [
                    SourceMessage(
                        offset + n, now,
                        {"delay.topic": "t", "delay.after": str(begin + n), "delay.id": f"{n + begin}"},
                        Content(BODY, {}),
                    )
                    for n in range(1000)
                ]  # fmt: skip
                offset += 1000
                intake.take(queue, part, offset, now)
            now += number + 1000
            while (lane := lanes.due(now)) is not None:
                batch = delivery.take(lane, now)
                delivery.done(lane, batch, [Sent(Result.SENT)] * len(batch), now)
            now += 26 * HOUR_MS
            store.forget(now)
            store.reclaim([(b"P", b"Q"), (b"N", b"O"), (b"G", b"H")])
            sizes.append(store.size_bytes)
        store.close()
    return sizes


def waiting_rows(due: int, per_second: int) -> Rows:
    """The rows of the table of messages that wait."""
    return (
        (f"lateness with {per_second:,} due in a second: median, 99th percentile", LATENESS),
        ("memory, and after all other measurements", "{memory_mb} MB, {memory_at_the_end_mb} MB"),
        (
            "time from a start to an open store; after a kill",
            "{open_seconds} s; {open_after_kill_seconds} s",
        ),
        (
            "100 messages that came due while the service was down are at their topic, after the start",
            "{overdue_delivered_seconds} s",
        ),
        (f"{due:,} messages that are due at once: delivered in a second", "{delivered_per_second:,}"),
        (
            "processor time for each, the start of the process included; flushes and compactions in it",
            "{processor_us_per_delivery} µs; {of_it_flushes_and_compactions_us} µs",
        ),
        ("files, in sizes of names, properties and bodies that wait", "{store_bytes_to_message_bytes}"),
        (f"moves and cancels in a second, of {ACTIONS:,}", "{moves_per_second:,}, {cancels_per_second:,}"),
        ("timers sent one by one, in a second", "{taken_in_per_second:,}"),
    )


def main() -> None:
    """Measures, and prints the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delay")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument(
        "--per-second", type=int, default=2000, help="due at the same time as lateness is measured"
    )
    parser.add_argument("--round", type=int, default=50_000, help="messages of each of ten rounds")
    parser.add_argument(
        "--waiting", type=int, nargs="+", help="messages that wait in a store filled directly; a run for each"
    )
    parser.add_argument("--due", type=int, default=100_000, help="messages due as the service starts")
    given = parser.parse_args()
    if given.waiting:
        columns = {
            f"{number:,}": with_many_waiting(number, given.due, given.per_second) for number in given.waiting
        }
        columns["the broker's own timers"] = timers(given.due, given.per_second)
        print(json.dumps(columns, indent=2))
        print(table(waiting_rows(given.due, given.per_second), columns))
        return
    found = through_a_broker(given.messages, given.per_second)
    found["store_bytes_after_rounds"] = rounds(given.round)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
