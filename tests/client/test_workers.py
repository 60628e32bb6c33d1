"""Workers as processes: told to stop by signals, they end in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import orbitmq
from orbitmq import FIRST_OFFSET, InvalidArgument, Message, Producer, PushConsumer, ReceivedMessage, sync
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import Isolated

WORKER = """
import sys, time, asyncio
{imports}
consumer = PushConsumer(sys.argv[1], consume_from_where=FIRST_OFFSET)

@consumer.on(sys.argv[2])
{function}
    print("begun", flush=True)
    {sleep}
    print("ended", flush=True)

sys.exit(run(consumer, timeout_ms=float(sys.argv[4]), health=sys.argv[5] if len(sys.argv) > 5 else None))
"""
NAMES = "FIRST_OFFSET, PushConsumer, run"
ASYNC = WORKER.format(
    imports=f"from orbitmq import {NAMES}",
    function="async def handle(message):",
    sleep="await asyncio.sleep(float(sys.argv[3]))",
)
PLAIN = WORKER.format(
    imports=f"from orbitmq.sync import {NAMES}",
    function="def handle(message):",
    sleep="time.sleep(float(sys.argv[3]))",
)


def worker(program: str, mine: Isolated, *arguments: str) -> subprocess.Popen[str]:
    # A run in the background ignores Ctrl-C, and so would all that it starts.
    return subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-c", textwrap.dedent(program), mine.group(),
         mine.topic(), *arguments],
        env={**os.environ, "NAMESRV_ADDR": mine.namesrv},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def begun(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"


def committed(mine: Isolated) -> int:
    with sync.PullConsumer(mine.group(), mine.namesrv) as consumer:
        return sum(consumer.committed(queue) or 0 for queue in consumer.queues(mine.topic()))


@pytest.mark.parametrize("program", [ASYNC, PLAIN], ids=["async", "plain"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_handlers_end_and_commits(
    rocketmq_isolated: Isolated, program: str, number: signal.Signals
) -> None:
    mine = rocketmq_isolated
    with sync.Producer("g", mine.namesrv) as producer:
        producer.send(Message(mine.topic(), b"x"))
    process = worker(program, mine, "0.3", "20000")
    begun(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, "ended\n"), err
    assert committed(mine) == 1


@pytest.mark.parametrize("program", [ASYNC, PLAIN], ids=["async", "plain"])
def test_a_handler_that_takes_too_long_is_told_by_the_exit_code(
    rocketmq_isolated: Isolated, program: str
) -> None:
    mine = rocketmq_isolated
    with sync.Producer("g", mine.namesrv) as producer:
        producer.send(Message(mine.topic(), b"x"))
    process = worker(program, mine, "10" if program is PLAIN else "60", "60000")
    begun(process)
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)  # two signals at once would be one
    process.send_signal(signal.SIGTERM)  # the second one is urgent
    _, err = process.communicate(timeout=100)
    assert process.returncode == 1, err
    assert committed(mine) == 0


@pytest.mark.parametrize("program", [ASYNC, PLAIN], ids=["async", "plain"])
def test_probes_are_answered(rocketmq_isolated: Isolated, program: str) -> None:
    mine, port = rocketmq_isolated, free_ports()
    with sync.Producer("g", mine.namesrv) as producer:
        producer.send(Message(mine.topic(), b"x"))
    process = worker(program, mine, "0", "20000", f"127.0.0.1:{port}")
    try:
        begun(process)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
            assert (answer.status, answer.read()) == (200, b"ok\n")
    finally:
        process.terminate()
        process.communicate(timeout=100)
    assert process.returncode == 0


async def test_a_client_that_is_not_well_fails_the_probe(rocketmq_isolated: Isolated) -> None:
    from orbitmq.client.running import health_served

    port = free_ports()
    producer = Producer("g", rocketmq_isolated.namesrv)

    def ask() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    async with health_served([producer], f"127.0.0.1:{port}"):
        assert await asyncio.to_thread(ask) == 503
        async with producer:
            assert await asyncio.to_thread(ask) == 200


async def test_a_handler_that_closes_its_consumer_ends_the_run(rocketmq_isolated: Isolated) -> None:
    mine, topic = rocketmq_isolated, rocketmq_isolated.topic()
    consumer = PushConsumer(mine.group(), mine.namesrv, consume_from_where=FIRST_OFFSET)
    producer = Producer("g", mine.namesrv)

    @consumer.on(topic)
    async def handle(message: ReceivedMessage) -> None:
        await producer.send(Message(mine.topic("done"), message.body))
        await consumer.close()

    async with Producer("g", mine.namesrv) as other:
        await other.send(Message(topic, b"x"))
    async with asyncio.timeout(60):
        assert await orbitmq.serve(consumer, producer) == 0
    for wrong in ((), (print,)):
        with pytest.raises(InvalidArgument, match="run takes"):
            await orbitmq.serve(*wrong)


def test_the_worker_of_the_examples(rocketmq_isolated: Isolated) -> None:
    mine = rocketmq_isolated
    with sync.Producer("g", mine.namesrv) as producer:
        producer.send(Message("orders", b"order 1", tags="new"))
    path = Path(__file__).parents[2] / "examples" / "worker.py"
    process = subprocess.Popen(
        [sys.executable, str(path)],
        env={**os.environ, "NAMESRV_ADDR": mine.namesrv},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "billed order 1\n"
    process.terminate()
    process.communicate(timeout=100)
    assert process.returncode == 0
