"""A look at the delay service: a reminder, a repetition, a cancel, a move, and a list of what still waits.

    make demo-delay

It starts `orbitmq standalone --delay` in a folder of its own, which goes when it ends.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime

from orbitmq import sync
from orbitmq.client.delays import DelayClient, DelayUnavailable
from orbitmq.server.turn.listener import free_ports

SECONDS = 11


def main() -> None:
    """Runs the demonstration. Raises RuntimeError if something is not as it says."""
    broker, namesrv, api = free_ports(-2, 1), free_ports(), free_ports()
    with tempfile.TemporaryDirectory(prefix="orbitmq-demo-") as folder:
        command = [
            sys.executable, "-m", "orbitmq", "standalone", "--data-dir", folder, "--delay",
            "--broker-port", str(broker), "--namesrv-port", str(namesrv), "--delay-port", str(api),
            "--log-level", "warning",
        ]  # fmt: skip
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            show(DelayClient(f"http://127.0.0.1:{api}"), f"127.0.0.1:{namesrv}")
        finally:
            server.terminate()
            server.wait(60)


def show(client: DelayClient, namesrv: str) -> None:
    """Schedules messages, and prints them as they come."""
    print("a broker and the delay service start ...")
    deadline = time.monotonic() + 60
    while True:
        try:
            client.ready()
            break
        except DelayUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s  {text}", flush=True)

    say("a reminder in 3 s, a repetition every 2 s, a message in 6 s, one in an hour, one in 30 days")
    client.send_after("demo", "pay your order", "3s", id="reminder")
    client.repeat("demo", "still here", "2s", times=4, id="repetition")
    client.send_after("demo", "you will never read this", "6s", id="mistake")
    client.send_after("demo", "an hour was too long", "1h", id="impatient")
    client.send_after("demo", "far away", "30d", id="far")
    say(f"the mistake: {client.cancel('mistake').outcome}")
    say(f"the message in an hour, now in 5 s: {client.move('impatient', after='5s').outcome}")
    bodies = read(namesrv, say)
    if sorted(bodies) != sorted(["pay your order", "an hour was too long", *["still here"] * 4]):
        raise RuntimeError(f"other messages than scheduled: {bodies}")
    say(f"a cancel of the reminder: {client.cancel('reminder').outcome}")
    for one in client.list():
        due = datetime.fromtimestamp(one.due_ms / 1000, UTC)
        say(f"still waiting: {one.id}, for {one.target}, until {due:%Y-%m-%d %H:%M}")


def read(namesrv: str, say: Callable[[str], None]) -> list[str]:
    """The messages that come, and when each was due."""
    bodies = []
    deadline = time.monotonic() + SECONDS
    with sync.PullConsumer("demo", namesrv) as consumer:
        queues = None
        while queues is None:
            try:
                queues = dict.fromkeys(consumer.queues("demo"), 0)
            except Exception as error:
                if time.monotonic() > deadline:
                    raise
                del error
                time.sleep(0.1)
        while time.monotonic() < deadline:
            for queue, offset in queues.items():
                found = consumer.pull(queue, offset, wait_ms=50)
                queues[queue] = found.next_offset
                for one in found:
                    late = one.store_timestamp_ms - int(one.properties["delay.due"])
                    bodies.append(one.body.decode())
                    occurrence = one.properties["delay.occurrence"]
                    say(f"came: {one.body.decode()} (time {occurrence}, {late} ms late)")
    return bodies


if __name__ == "__main__":
    main()
