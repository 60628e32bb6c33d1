"""The delay service beside a broker: intake, delivery, lateness, memory, restart, cancels, room over rounds.

    python -m benchmarks.delay                  200,000 messages, some minutes
    python -m benchmarks.delay --messages 20000000
    python -m benchmarks.delay --waiting 20000000    while so many wait, in a store that is filled directly

Broker, service and measurement share the machine. Bodies have 200 bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from orbitmq import sync
from orbitmq.client import Message
from orbitmq.client.delays import DelayClient, DelayUnavailable
from orbitmq.delay_service.rules.delivery import Delivery, Result, Sent
from orbitmq.delay_service.rules.intake import CLUSTER_PREFIX, Intake, Queue, SourceMessage
from orbitmq.delay_service.rules.lanes import Lanes
from orbitmq.delay_service.rules.sharing import QUEUE_PREFIX
from orbitmq.delay_service.rules.targets import Known, Target
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import Content, NameEntry, Pending, encode
from orbitmq.delay_service.store.store import DelayStore
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker

BODY = os.urandom(200)
SOURCE = "orbitmq_delay"
START_SECONDS = 600
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
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


class Figures(dict[str, Any]):
    """Figures by name. Each is shown on stderr as soon as it is known: a run of millions takes its time."""

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, value)
        print(f"{name}: {value}", file=sys.stderr, flush=True)

    def add(self, found: dict[str, Any]) -> None:
        """Several of them."""
        for name, value in found.items():
            self[name] = value


def through_a_broker(number: int, per_second: int) -> dict[str, Any]:
    """The figures of a service beside a broker."""
    found = Figures(messages=number)
    with (
        tempfile.TemporaryDirectory(prefix="orbitmq-bench-") as folder,
        LocalBroker(own_process=True, mappedFileSizeCommitLog=str(256 << 20)) as broker,
        sync.Producer("bench", broker.namesrv) as producer,
        Service(Path(folder), f"rocketmq://{broker.namesrv}") as service,
    ):
        for topic in (SOURCE, "orbitmq_delay_dead", "bench", "late"):
            broker.create_topic(topic, queues=4 if topic != "late" else 1)
        due = now_ms() + 20 * HOUR_MS
        producer.send_all(orders(number, topic="bench", at=due, id="m{n}"))
        service.start()
        found["intake_per_second"] = round(rate(lambda: pending(service), number))
        found["memory_mb"] = service.memory_mb
        found["store_bytes_per_message"] = round((service.stats() or {})["store_bytes"] / number)
        service.end(signal.SIGKILL)
        found["open_after_kill_seconds"] = round(service.start(), 2)
        found.add(lateness(broker, producer, per_second))
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
        for topic in (SOURCE, "orbitmq_delay_dead", "bench", "late", "overdue"):
            broker.create_topic(topic, queues=1 if topic in {"late", "overdue"} else 4)
        began = time.monotonic()
        bytes_of_messages = fill(Path(folder), number, due)
        found["filled_per_second"] = round((number + due) / (time.monotonic() - began))
        found["open_seconds"] = round(service.start(), 2)
        found["delivered_per_second"] = round(rate(lambda: (service.stats() or {})["delivered"], due))
        found["processor_us_per_delivery"] = round(service.processor_seconds * 1e6 / due, 1)
        found["of_it_flushes_and_compactions_us"] = round(service.background_seconds * 1e6 / due, 1)
        found["memory_mb"] = service.memory_mb
        found["store_bytes_to_message_bytes"] = round(
            (service.stats() or {})["store_bytes"] / bytes_of_messages, 2
        )
        found.add(lateness(broker, producer, per_second))
        actions = min(number, 50_000)
        producer.send_all(move_orders(actions))
        found["moves_per_second"] = round(rate(lambda: count(service, "moved"), actions))
        producer.send_all(cancel_orders(actions))
        found["cancels_per_second"] = round(rate(lambda: count(service, "cancelled"), actions))
        found["memory_at_the_end_mb"] = service.memory_mb
        found.add(start_after_kill(broker, producer, service))
        service.end()
    return found


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
    with sync.PullConsumer("bench", broker.namesrv) as consumer:
        (queue,) = consumer.queues("overdue")
        offset = 0
        while offset < number:
            offset = consumer.pull(queue, offset, wait_ms=1000).next_offset
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
    wait(lambda: done() >= number, 3600)
    return (number - first) / max(time.monotonic() - began, 0.001)


def lateness(broker: LocalBroker, producer: sync.Producer, per_second: int) -> dict[str, Any]:
    """Lateness by the target's store time, while so many are due in each of ten seconds."""
    begin = now_ms() + 8000
    number = per_second * 10
    messages = (
        Message(
            SOURCE, BODY, properties={"delay.topic": "late", "delay.at": str(begin + n * 1000 // per_second)}
        )
        for n in range(number)
    )
    producer.send_all(messages)
    ahead = begin - now_ms()
    late: list[int] = []
    with sync.PullConsumer("bench", broker.namesrv) as consumer:
        (queue,) = consumer.queues("late")
        offset = 0
        while len(late) < number:
            got = consumer.pull(queue, offset, wait_ms=1000)
            offset = got.next_offset
            late += [one.store_timestamp_ms - int(one.properties["delay.due"]) for one in got]
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


def main() -> None:
    """Measures, and prints the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delay")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument(
        "--per-second", type=int, default=2000, help="due at the same time as lateness is measured"
    )
    parser.add_argument("--round", type=int, default=50_000, help="messages of each of ten rounds")
    parser.add_argument(
        "--waiting", type=int, default=0, help="messages that wait in a store filled directly"
    )
    given = parser.parse_args()
    if given.waiting:
        print(json.dumps(with_many_waiting(given.waiting, 100_000, given.per_second), indent=2))
        return
    found = through_a_broker(given.messages, given.per_second)
    found["store_bytes_after_rounds"] = rounds(given.round)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
