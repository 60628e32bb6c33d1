"""The service as a process that is killed, and a disk that is full."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from orbitmq import failpoints, sync
from orbitmq.client import Message
from orbitmq.client.delays import DelayUnavailable
from orbitmq.delay_service import serving
from orbitmq.delay_service.errors import StoreFull
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.fault.test_no_space import small_disk, take_all
from tests.kit.running_delay import RunningDelay, until

__all__ = ["small_disk"]
KILLS = 2
IN_FLIGHT = 300
"""Messages that may be on their way at a kill."""


def read_all(broker, topic, number, seconds=60):
    """All messages of a topic with one queue, at least `number`, and those of a second more."""
    found = []
    with sync.PullConsumer("reader", broker.namesrv) as consumer:
        (queue,) = consumer.queues(topic)
        deadline, offset, rest = time.monotonic() + seconds, 0, 2
        while rest:
            got = consumer.pull(queue, offset, wait_ms=500)
            offset = got.next_offset
            found += got
            assert time.monotonic() < deadline, f"{len({one.body for one in found})} of {number} came"
            if len({one.body for one in found}) >= number:
                rest -= 1
    return found


@pytest.fixture(params=["orbitmq", "apache"])
def cluster_of_the_service(request):
    """Its source, its dead letters, and the topic `t`, at our broker and at Apache's."""
    if request.param == "apache":
        served = contextlib.nullcontext(request.getfixturevalue("apache"))
    else:
        served = LocalBroker(autoCreateTopicEnable="false")
    with served as broker:
        with sync.Admin(broker.namesrv) as admin:
            for topic in ("orbitmq_delay", "orbitmq_delay_dead", "t"):
                admin.create_topic(topic, queues=1)
        yield broker


def test_kills_lose_nothing_and_repeat_only_what_was_on_its_way(cluster_of_the_service, tmp_path):
    broker = cluster_of_the_service
    command = [
        sys.executable, "-m", "orbitmq", "delay", "serve", "--data-dir", str(tmp_path / "delay"),
        "--cluster", f"main=rocketmq://{broker.namesrv}", "--http", f"127.0.0.1:{free_ports()}",
        "--ready-file", str(tmp_path / "ready"), "--log-level", "warning",
    ]  # fmt: skip
    number = 0
    with sync.Producer("p", broker.namesrv) as producer:
        for kill in range(KILLS + 1):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ})
            until((tmp_path / "ready").exists)
            for _ in range(200):
                control = {
                    "delay.topic": "t",
                    "delay.after": f"{number % 7 * 50}ms",
                    "delay.id": f"n{number}",
                }
                producer.send(Message("orbitmq_delay", b"%d" % number, properties=control))
                number += 1
            if kill < KILLS:
                process.send_signal(signal.SIGKILL)
                process.wait(120)
                (tmp_path / "ready").unlink(missing_ok=True)
    found = read_all(broker, "t", number)
    process.terminate()
    assert process.wait(60) == 0
    assert not (tmp_path / "ready").exists()
    assert {one.body for one in found} == {b"%d" % n for n in range(number)}
    assert len(found) - number <= KILLS * IN_FLIGHT
    for one in found:
        assert one.properties["delay.id"] == f"n{one.body.decode()}"
        assert one.store_timestamp_ms >= int(one.properties["delay.due"])


def says_no_space(client):
    """True if the service does; for a moment after it has opened its store again it knows of nothing."""
    try:
        client.stats()
    except DelayUnavailable as error:
        return "no space" in str(error).lower()
    return False


def test_a_full_disk_holds_orders_back_until_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "REOPEN_SECONDS", 0.2)
    with LocalBroker(autoCreateTopicEnable="false") as broker:
        broker.create_topic("t", queues=1)
        with (
            RunningDelay(tmp_path, f"main=rocketmq://{broker.namesrv}") as delay,
            sync.Producer("p", broker.namesrv) as producer,
        ):

            def full():
                raise StoreFull("no space left on device")

            with failpoints.armed_point("delay.write", full), failpoints.armed_point("delay.sync", full):
                for n in range(5):
                    control = {"delay.topic": "t", "delay.after": "1ms"}
                    producer.send(Message("orbitmq_delay", b"%d" % n, properties=control))
                until(lambda: says_no_space(delay.client))
            assert sorted(one.body for one in read_all(broker, "t", 5)) == [b"%d" % n for n in range(5)]


@pytest.mark.parametrize("small_disk", [64], indirect=True)
def test_a_disk_that_others_fill_holds_orders_back(small_disk, monkeypatch):
    monkeypatch.setattr(serving, "REOPEN_SECONDS", 0.2)
    number = 24
    with LocalBroker(autoCreateTopicEnable="false") as broker:
        broker.create_topic("t", queues=1)
        with (
            RunningDelay(small_disk / "delay", f"main=rocketmq://{broker.namesrv}") as delay,
            sync.Producer("p", broker.namesrv) as producer,
        ):
            take_all(small_disk / "others")
            bodies = [b"%d " % n + os.urandom(1 << 20) for n in range(number)]
            for body in bodies:
                control = {"delay.topic": "t", "delay.after": "1ms"}
                producer.send(Message("orbitmq_delay", body, properties=control))
            until(lambda: says_no_space(delay.client))
            (small_disk / "others").unlink()
            came = read_all(broker, "t", number, 120)
    assert {one.body for one in came} == set(bodies)


def test_a_target_that_was_away_gets_its_messages_in_order_and_no_other_waits(tmp_path):
    number, rate = 600, 200
    with LocalBroker() as main, LocalBroker(tmp_path / "other") as other:
        main.create_topic("u", queues=1)
        other.create_topic("t", queues=1)
        clusters = f"main=rocketmq://{main.namesrv};other=rocketmq://{other.namesrv}"
        with (
            RunningDelay(tmp_path / "delay", clusters, delayRates=f"other/t={rate}") as delay,
            sync.Producer("p", main.namesrv) as producer,
        ):
            other.halt()
            begin = int(time.time() * 1000)
            for n in random.Random(1).sample(range(number), number):
                target = {"delay.topic": "other/t", "delay.at": str(begin + n)}
                producer.send(Message("orbitmq_delay", b"%d" % n, properties=target))
            for n in range(20):
                control = {"delay.topic": "u", "delay.after": "1ms"}
                producer.send(Message("orbitmq_delay", b"%d" % n, properties=control))
            read_all(main, "u", 20)

            def waiting():
                return delay.client.stats()["targets"].get("other/t", {"pending": 0, "problem": ""})

            until(lambda: waiting()["pending"] == number and waiting()["problem"])
            other.start()
            came = read_all(other, "t", number, 120)
    first = {}
    for one in came:
        first.setdefault(int(one.body), one.store_timestamp_ms)
    assert list(first) == list(range(number)), "not in the order of their times"
    # The first second's worth may come at once.
    assert first[number - 1] - first[0] >= (number - 2 * rate) * 1000 / rate
