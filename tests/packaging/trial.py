"""A developer's first day with an install that holds nothing else: an order service, and its faults.

Everything is done as the guide says it, with the commands and programs that the installation and the examples
have. Whatever a newcomer has stumbled over is looked at.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from orbitmq.server.turn.listener import free_ports
from tests.peers.machine import Process

EXAMPLE = Path(__file__).parents[2] / "examples" / "order_service.py"
EVENTS = ["created", "paid", "shipped"]


class Trial:
    """One environment, one broker, one folder."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder = python, folder
        self.orbitmq = python.with_name("orbitmq")
        self.names, self.broker, self.health = free_ports(), free_ports(-2, 1, 2), free_ports()
        self.environment = {
            "PYTHONPATH": "",
            "NAMESRV_ADDR": f"127.0.0.1:{self.names}",
            "HEALTH": f"127.0.0.1:{self.health}",
        }
        self.program = folder / EXAMPLE.name
        shutil.copy(EXAMPLE, self.program)
        self.logs: list[Path] = []
        self.start_service()
        self.server: Process | None = None

    def start_service(self) -> None:
        self.logs.append(self.folder / f"service-{len(self.logs)}.log")
        command = [str(self.python), "-u", str(self.program)]
        self.service = Process(command, self.logs[-1], self.environment)

    def start_broker(self) -> None:
        flags = (
            "--namesrv-port",
            self.names,
            "--broker-port",
            self.broker,
            "--data-dir",
            self.folder / "data",
        )
        command = [str(word) for word in (self.orbitmq, "standalone", *flags)]
        self.server = Process(command, self.folder / "server.log", self.environment)

    def end(self) -> None:
        for process in (self.service, self.server):
            if process is not None and process.alive():
                process.end(signal.SIGTERM)

    def run(self, *command: str | Path, fails: bool = False, given: str = "", **environment: str) -> str:
        """The output of a command that is `given` an input, of one that `fails` its errors as one line."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env={**os.environ, **self.environment, **environment},
            input=given,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return " ".join(done.stderr.split()) if fails else done.stdout

    def fails(self, *command: str | Path) -> str:
        return self.run(*command, fails=True)

    def probe(self) -> tuple[int, str]:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/", timeout=60) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()
            except urllib.error.URLError:
                time.sleep(0.1)
        raise AssertionError(f"no answer; {self.service.tail()}")

    def log(self) -> str:
        return "".join(log.read_text() for log in self.logs)


def try_out(python: Path, folder: Path, kills: int = 0) -> None:
    """The whole day, longer by so many kills."""
    trial = Trial(python, folder)
    try:
        _start_before_the_broker(trial)
        _orders(trial)
        _an_event_that_nobody_can_handle(trial)
        _mistakes(trial)
        for number in range(kills):
            _an_order_over_a_kill(trial, number)
        assert trial.service.end(signal.SIGTERM) == 0, trial.service.tail()
    finally:
        trial.end()


def _start_before_the_broker(trial: Trial) -> None:
    """The service is deployed first: it waits, its log and its probe say for what, and then it works."""
    waits = "PushConsumer of group shipping waits up to 60 s for its servers: no name server answers"
    trial.service.wait_until("the service waits", lambda: waits in trial.log(), 120)
    status, text = trial.probe()
    assert status == 503
    assert text.startswith("PushConsumer of group shipping is not healthy: it has not started yet: ")
    trial.start_broker()
    trial.run(trial.orbitmq, "ping", "--wait", "60")
    # A consumer is there before its topic is: the first message makes the topic.
    trial.run(trial.python, trial.program, "publish")
    trial.service.wait_until("the service is well", lambda: trial.probe() == (200, "ok\n"), 120)


def _orders(trial: Trial) -> None:
    """Each order is handled in order, and the one whose payment fails holds up no other."""
    trial.service.wait_until("all is shipped", lambda: trial.log().count("is shipped") == 3, 120)
    lines = re.findall(r"^order (\w) is (\w+)$", trial.log(), re.MULTILINE)
    for order in "ABC":
        assert [event for one, event in lines if one == order] == EVENTS
    assert lines[-2:] == [("B", "paid"), ("B", "shipped")]
    failures = [line for line in trial.log().splitlines() if "the bank does not answer" in line]
    assert [re.findall(r"keys=(\w) .*attempt=(\d)", line)[0] for line in failures] == [("B", "1"), ("B", "2")]
    assert re.search(
        r"ConnectionError: the bank does not answer, at \S*order_service.py:\d+ in handle$", failures[0]
    )
    assert "Traceback" not in trial.log()


def _an_event_that_nobody_can_handle(trial: Trial) -> None:
    """It is a dead letter at once, and an operator finds it with its reason."""
    trial.run(trial.orbitmq, "produce", "--topic=order-events", "--body={}", "--key=strange")
    read = ("--topic=%DLQ%shipping", "--group=look", "--from=first", "--max=1", "--json")
    letter = ""
    deadline = time.monotonic() + 120
    while not letter and time.monotonic() < deadline:
        if "shipping" in trial.run(trial.orbitmq, "admin", "group", "dead-letters", "--json"):
            letter = trial.run(trial.orbitmq, "consume", *read)
    assert "an event without an order" in letter
    assert "PermanentFailure" in letter


def _an_order_over_a_kill(trial: Trial, number: int) -> None:
    """Broker and service are killed in turn while an order is on its way: it is shipped, and in order."""
    order = f"K{number}"
    events = "".join(json.dumps({"order": order, "is": event}) + "\n" for event in EVENTS)
    produce = (trial.orbitmq, "produce", "--topic=order-events", f"--key={order}", f"--sharding-key={order}")
    trial.run(*produce, "--delay-level=1", given=events)
    if number % 2:
        trial.service.end(signal.SIGKILL)
        trial.start_service()
    else:
        assert trial.server is not None
        trial.server.end(signal.SIGKILL)
        trial.start_broker()
        trial.run(trial.orbitmq, "ping", "--wait", "120")
    shipped = f"order {order} is shipped\n"
    trial.service.wait_until(f"{order} is shipped", lambda: shipped in trial.log(), 300)
    trial.service.wait_until("the service is well", lambda: trial.probe() == (200, "ok\n"), 300)
    handled = re.findall(rf"^order {order} is (\w+)$", trial.log(), re.MULTILINE)
    assert list(dict.fromkeys(handled)) == EVENTS  # after a crash some come again, and none too early


def _says(text: str, *parts: str) -> None:
    for part in parts:
        assert part in text, text


def _mistakes(trial: Trial) -> None:
    """Everyday mistakes: each answer says what was wrong, and what to do."""
    orbitmq = trial.orbitmq
    _says(trial.fails(orbitmq, "admin", "topic", "status", "order-event"), "Is it order-events?")
    elsewhere = f"127.0.0.1:{trial.broker}"
    wrong = trial.fails(orbitmq, "admin", "topic", "list", f"--namesrv={elsewhere}")
    _says(wrong, f"{elsewhere} is the port of a broker, and a name server is meant")
    _says(trial.fails(orbitmq, "console"), "pip install 'orbitmq[console]'")
    _says(trial.fails(orbitmq, "produce", "--topic=order-events", "--body=x", "--key=a b"), "blank")
    _says(
        trial.run(trial.python, "-c", "import orbitmq; help(orbitmq.PushConsumer)"),
        "ordered_by_key: bool = False",
    )
    program = (
        "import orbitmq, sys\n"
        "try: orbitmq.PushConsumer('g', ordered_by_key=True, max_in_flight_per_key=1)\n"
        "except orbitmq.InvalidArgument as error: sys.exit(f'refused: {error}')"
    )
    refused = trial.fails(trial.python, "-c", program)
    _says(refused, "refused: PushConsumer: max_in_flight_per_key is not for ordered consumers")
