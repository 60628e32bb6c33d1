"""An hour without one target of the delay service: the lateness of another one, and the way back.

    python -m benchmarks.delay_away                  an hour
    python -m benchmarks.delay_away --seconds 120

Messages for a broker that was killed come due all the time, and as many for one that is there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.delay import SOURCE, Figures, Service, percentile, wait
from orbitmq import sync
from orbitmq.client import Message
from orbitmq.testing import LocalBroker


def orders(first: int, number: int) -> Iterator[Message]:
    """Orders for both targets, due within the next seconds."""
    for n in range(first, first + number):
        for target in ("other/away", "there"):
            control = {"delay.topic": target, "delay.after": f"{n % 20 * 100}ms", "delay.id": f"{target}-{n}"}
            yield Message(SOURCE, b"%d" % n, properties=control)


def read(broker: LocalBroker, topic: str, number: int) -> list[tuple[int, int, int]]:
    """Number, due time and store time (ms) of all messages of a topic, at least so many different ones."""
    found: list[tuple[int, int, int]] = []
    seen: set[int] = set()
    with sync.PullConsumer("bench", broker.namesrv) as consumer:
        (queue,) = consumer.queues(topic)
        offset, empty = 0, 0
        while len(seen) < number or empty < 5:
            pulled = consumer.pull(queue, offset, wait_ms=1000)
            offset = pulled.next_offset
            empty = 0 if pulled else empty + 1
            for one in pulled:
                found.append((int(one.body), int(one.properties["delay.due"]), one.store_timestamp_ms))
                seen.add(int(one.body))
    return found


def away(seconds: float, per_second: int) -> dict[str, Any]:
    """Figures of both targets while one of them is away for so long, and after it has come back."""
    found = Figures(away_seconds=seconds)
    with (
        TemporaryDirectory(prefix="orbitmq-bench-") as folder,
        LocalBroker(own_process=True) as main,
        LocalBroker(Path(folder) / "other", own_process=True) as other,
        sync.Producer("bench", main.namesrv) as producer,
        Service(
            Path(folder) / "delay", f"rocketmq://{main.namesrv}",
            "--cluster", f"other=rocketmq://{other.namesrv}",
        ) as service,
    ):  # fmt: skip
        for topic in (SOURCE, "orbitmq_delay_dead", "there"):
            main.create_topic(topic, queues=1)
        other.create_topic("away", queues=1)
        service.start()
        found["memory_mb"] = service.memory_mb
        other.kill()
        began, number = time.monotonic(), 0
        while (passed := time.monotonic() - began) < seconds:
            producer.send_all(orders(number, per_second))
            number += per_second
            time.sleep(max(0.0, number / per_second - passed))
        found["messages_for_each_target"] = number
        there = read(main, "there", number)
        stats = service.stats() or {}
        found["pending_for_the_one_away"] = stats["targets"]["other/away"]["pending"]
        found["memory_after_mb"] = service.memory_mb
        found["processor_us_per_message_there"] = round(service.processor_seconds * 1e6 / number)
        began = time.monotonic()
        other.start()
        found["start_of_its_broker_seconds"] = round(time.monotonic() - began, 1)
        wait(lambda: (service.stats() or {"pending": number})["pending"] < number, 600)
        found["first_after_start_of_its_broker_seconds"] = round(time.monotonic() - began, 1)
        came = read(other, "away", number)
        service.end()
    for name, some in (("there", there), ("away", came)):
        numbers = [n for n, _, _ in some]
        found[f"{name}_lost"] = number - len(set(numbers))
        found[f"{name}_twice"] = len(numbers) - len(set(numbers))
        found[f"{name}_early"] = sum(stored < due for _, due, stored in some)
    late = [stored - due for _, due, stored in there]
    found["there_lateness_ms"] = {
        "median": percentile(late, 0.5), "p99": percentile(late, 0.99), "most": max(late),
    }  # fmt: skip
    dues = list({n: due for n, due, _ in came}.values())
    found["away_in_order_of_their_times"] = dues == sorted(dues)
    took = max(stored for _, _, stored in came) - min(stored for _, _, stored in came)
    found["away_delivered_per_second"] = round(number * 1000 / max(took, 1))
    return found


def main() -> None:
    """Measures, and prints the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delay_away")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--per-second", type=int, default=50, help="messages for each of the two targets")
    given = parser.parse_args()
    print(json.dumps(away(given.seconds, given.per_second), indent=2))


if __name__ == "__main__":
    main()
