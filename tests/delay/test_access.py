"""A delay service beside a broker with access control: its rights, and owners by the topics they may use."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import httpx
import pytest

from orbitmq import sync
from orbitmq.admin import Admin
from orbitmq.admin.acls import delete_rules, put_rules
from orbitmq.admin.users import create_user
from orbitmq.cli.app import run
from orbitmq.client import Message
from orbitmq.delay_service.targets import missing
from orbitmq.protocol.errors import NoPermission
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.kit.running_delay import RunningDelay, until

OWNED = "orders_of_ann"
RULES = {
    "service": {
        "Topic:orbitmq_delay": ("create", "sub", "get", "pub"),
        f"Topic:{OWNED}": ("create", "sub", "get", "pub"),
        "Group:orbitmq_delay": ("sub",),
        "Topic:orbitmq_delay_dead": ("create", "pub"),
        "Topic:reminders": ("pub",),
    },
    "ann": {f"Topic:{OWNED}": ("pub",)},
    "bob": {"Topic:orbitmq_delay": ("pub",)},
}
"""The rights that docs/operate/delay-service.md names, and no more."""


def as_root(broker, work):
    async def run():
        async with Admin(broker.namesrv, access_key="root", secret_key="root-secret") as admin:
            return await work(admin)

    return asyncio.run(run())


def give(broker, user, resource):
    actions = RULES[user][resource]
    as_root(broker, lambda admin: put_rules(admin, broker.broker, user, [resource], actions))


@pytest.fixture(scope="module")
def broker():
    root = json.dumps({"username": "root", "password": "root-secret"})
    access = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": root}
    with LocalBroker(autoCreateTopicEnable="false", **access) as broker:

        async def prepare(admin):
            for topic in ("reminders", "payroll"):
                await admin.create_topic(topic, queues=1)
            for user in RULES:
                await create_user(admin, broker.broker, user, f"{user}-secret")

        as_root(broker, prepare)
        for user, resources in RULES.items():
            for resource in resources:
                give(broker, user, resource)
        yield broker


@pytest.fixture(scope="module")
def delay(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    (folder / "secret").write_text("service-secret\n")
    (folder / "tokens").write_text("operator-token\nann ann-token\n")
    query = f"access_key=service&secret_file={folder / 'secret'}"
    options = {
        "delayOwners": f"ann=main/{OWNED}",
        "delayTokenFile": str(folder / "tokens"),
        "delayQueues": "1",
    }
    with RunningDelay(folder / "store", f"main=rocketmq://{broker.namesrv}?{query}", **options) as delay:
        yield delay


def send(broker, user, to, body, **control):
    given = {f"delay.{name}": value for name, value in control.items()}
    with sync.Producer("p", broker.namesrv, access_key=user, secret_key=f"{user}-secret") as producer:
        producer.send(Message(to, body, properties=given))


def read(broker, topic, number):
    """The messages of a topic with one queue, once there are so many."""
    with sync.PullConsumer("r", broker.namesrv, access_key="root", secret_key="root-secret") as consumer:
        (queue,) = consumer.queues(topic)
        until(lambda: consumer.max_offset(queue) >= number)
        return list(consumer.pull(queue, 0))


def test_a_service_beside_a_broker_signs_in_as_the_broker_does(tmp_path, capsys):
    port = free_ports(-2, 1, 2, 3)
    flags = ["standalone", "--data-dir", str(tmp_path), "--init", "--broker-port", str(port)]
    flags += ["--namesrv-port", str(port + 2), "--delay", "--delay-port", str(port + 3)]
    flags += [
        "--set",
        "authenticationEnabled=true",
        "--set",
        'initAuthenticationUser={"username":"r","password":"s"}',
    ]
    assert run(flags) == 2
    assert "innerClientAuthenticationCredentials" in capsys.readouterr().err
    own = 'innerClientAuthenticationCredentials={"accessKey":"r","secretKey":"s"}'
    command = [sys.executable, "-m", "orbitmq", *flags, "--set", own]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.endswith(f", delay service 127.0.0.1:{port + 3}\n")
            assert run(["ping", "--delay", f"127.0.0.1:{port + 3}", "--wait", "60"]) == 0
        finally:
            process.terminate()
    assert process.returncode == 0


def test_names_of_an_owner_are_changed_only_by_those_who_may_send_to_its_topic(broker, delay):
    operator = delay.client_with("operator-token")
    send(broker, "ann", OWNED, b"of ann", topic="reminders", after="1h", id="n")
    until(lambda: operator.get("n") is not None)
    with pytest.raises(NoPermission):
        send(broker, "bob", OWNED, b"c", action="cancel", id="n")
    for owner in ({}, {"owner": "ann"}):
        send(broker, "bob", "orbitmq_delay", b"c", action="cancel", id="n", **owner)
    until(lambda: operator.stats()["orders"].get("refused") == 2)
    assert operator.get("n") is not None
    # The API writes ann's orders to that topic by the service's own rights.
    assert delay.client_with("ann-token").move("n", after="1s").outcome == "moved"
    assert [one.body for one in read(broker, "reminders", 1)] == [b"of ann"]


def test_a_topic_to_which_the_service_may_not_send_makes_a_dead_letter(broker, delay, monkeypatch):
    monkeypatch.setattr(missing, "MISSING_SECONDS", 0.3)
    send(broker, "bob", "orbitmq_delay", b"raise", topic="payroll", after="0", id="more")
    dead = "orbitmq_delay_dead"
    until(lambda: any(one.body == b"raise" for one in read(broker, dead, 1)))
    (letter,) = (one for one in read(broker, dead, 1) if one.body == b"raise")
    assert "User:service has no permission to access Topic:payroll" in letter.properties["delay.reason"]


def test_a_source_that_may_not_be_read_is_told_once_and_read_when_it_may(broker, delay, caplog):
    def ready():
        return httpx.get(f"{delay.url}/health/ready")

    resource = "Topic:orbitmq_delay"
    as_root(broker, lambda admin: delete_rules(admin, broker.broker, "service", resource))
    # A pull that waits at the broker is answered once more.
    send(broker, "bob", "orbitmq_delay", b"x", topic="reminders", after="9h", id="late-1")
    until(lambda: ready().status_code == 503)
    assert "User:service has no permission to access Topic:orbitmq_delay" in ready().text
    give(broker, "service", resource)
    send(broker, "bob", "orbitmq_delay", b"x", topic="reminders", after="9h", id="late-2")
    until(lambda: ready().status_code == 200)
    until(lambda: delay.client_with("operator-token").get("late-2") is not None)
    told = [one for one in caplog.messages if one.startswith("source main/orbitmq_delay:")]
    assert len(told) == 1, told
