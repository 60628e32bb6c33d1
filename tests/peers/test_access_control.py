"""Users, rules and TLS: what `mqadmin` prints and our client hears, from OrbitMQ and from Apache alike."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

import pytest

from orbitmq import sync
from orbitmq.admin import Admin
from orbitmq.admin.acls import put_rules
from orbitmq.admin.topics import create_topic
from orbitmq.admin.users import copy_users, create_user, list_users, update_user
from orbitmq.client import FIRST_OFFSET, Message, Producer, PullConsumer, PushConsumer
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import BrokerRefused, NoPermission
from tests.needs import need
from tests.peers.apache import Apache
from tests.peers.conftest import GUARDED
from tests.peers.mqadmin_shell import Printed, Shell, plain
from tests.peers.orbitmq_process import OrbitMQ

pytestmark = pytest.mark.timeout(600)
ROOT = {"access_key": "judge", "secret_key": "judge12345678"}
ANN = {"access_key": "ann", "secret_key": "ann-secret"}

LINES = """
getUser -b {broker} -u judge
listUser -b {broker}
createUser -b {broker} -u mq-ann -p mq-ann-secret
createUser -c DefaultCluster -u mq-bob -p mq-bob-secret -t Super
createUser -b {broker} -u mq-ann -p other
createUser -b {broker} -u mq-cleo -p mq-cleo-secret -t odd
getUser -b {broker} -u mq-ann
getUser -c DefaultCluster -u mq-bob
getUser -b {broker} -u nobody
listUser -b {broker}
listUser -c DefaultCluster -f mq-b
listUser -b {broker} -f nobody
updateUser -b {broker} -u mq-ann -s disable
getUser -b {broker} -u mq-ann
updateUser -c DefaultCluster -u mq-ann -p new-secret
updateUser -b {broker} -u mq-ann -t super
updateUser -b {broker} -u mq-ann -s enable
getUser -b {broker} -u mq-ann
updateUser -b {broker} -u nobody -p x
createAcl -b {broker} -s User:mq-ann -r Topic:a*,Group:g -a Pub,Sub -i 10.0.0.0/8,127.0.0.1 -d Allow
createAcl -c DefaultCluster -s User:mq-ann -r Topic:* -a all -d deny
createAcl -b {broker} -s User:mq-bob -r * -a List -d Allow
createAcl -b {broker} -s User:nobody -r Topic:a -a Pub -d Allow
createAcl -b {broker} -s User:mq-ann -r Topic:a -a Any -d Allow
createAcl -b {broker} -s User:mq-ann -r Topic:a -a odd -d Allow
createAcl -b {broker} -s User:mq-ann -r Queue:a -a Pub -d Allow
createAcl -b {broker} -s User:mq-ann -r Topic:a -a Pub -d perhaps
createAcl -b {broker} -s User:mq-ann -r Topic:a -a Pub -i 10.0.0.300 -d Allow
getAcl -b {broker} -s User:mq-ann
getAcl -c DefaultCluster -s User:mq-bob
getAcl -b {broker} -s User:judge
getAcl -b {broker} -s User:nobody
updateAcl -b {broker} -s User:mq-ann -r Group:g,Cluster:x -a Get -d Deny
getAcl -b {broker} -s User:mq-ann
listAcl -b {broker}
listAcl -b {broker} -s mq-b
listAcl -c DefaultCluster -r Group
listAcl -b {broker} -r nothing
deleteAcl -b {broker} -s User:mq-ann -r Topic:a*
getAcl -b {broker} -s User:mq-ann
deleteAcl -b {broker} -s User:mq-ann -r Topic:unknown
deleteAcl -c DefaultCluster -s User:mq-ann
getAcl -b {broker} -s User:mq-ann
deleteAcl -b {broker} -s User:mq-ann
deleteAcl -b {broker} -s User:nobody
copyUser -f {broker} -t {broker} -u mq-ann,mq-bob
copyUser -f {broker} -t {broker}
copyAcl -f {broker} -t {broker} -s User:mq-bob
copyAcl -f {broker} -t {broker}
deleteUser -b {broker} -u mq-bob
listAcl -b {broker}
deleteUser -c DefaultCluster -u mq-ann
deleteUser -b {broker} -u mq-cleo
deleteUser -b {broker} -u nobody
listUser -b {broker}
""".strip().splitlines()
"""In this order: each may rest on those before it."""


@dataclass
class Side:
    server: OrbitMQ | Apache
    shell: Shell

    def run(self, line: str) -> str:
        """Output of a line, and the failures it tells, in the form to compare."""
        printed: Printed = self.shell.run(line.format(broker=self.server.broker))
        return "\n".join([plain(printed.out), *map(plain, printed.thrown())])


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """OrbitMQ and Apache, each with the super user `judge`, and an mqadmin that signs as it."""
    need("java", "mvn")
    with ExitStack() as stack:

        def start(kind: type[OrbitMQ | Apache]) -> Side:
            home = tmp_path_factory.mktemp(kind.name)
            server = kind.start(home / "store", GUARDED)
            stack.callback(server.kill)
            tools = home / "shell" / "conf" / "tools.yml"
            tools.parent.mkdir(parents=True)
            tools.write_text("accessKey: judge\nsecretKey: judge12345678\n")
            shell = Shell(server.namesrv, home / "shell")
            stack.callback(shell.close)
            return Side(server, shell)

        with ThreadPoolExecutor(2) as pool:
            yield dict(zip(("orbitmq", "apache"), pool.map(start, (OrbitMQ, Apache)), strict=True))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(OrbitMQ, id="orbitmq"),
        pytest.param(Apache, id="apache", marks=pytest.mark.nightly),
    ],
)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OrbitMQ | Apache]:
    """Each test once against either, with the super user `judge`."""
    if request.param is Apache:
        need("java", "mvn")
    server = request.param.start(tmp_path_factory.mktemp(request.param.name) / "store", GUARDED)
    yield server
    server.kill()


@pytest.mark.nightly
def test_mqadmin_prints_what_it_prints_against_apache(sides: dict[str, Side]) -> None:
    differences = []
    for line in LINES:
        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.map(lambda side, line=line: side.run(line), sides.values())
        if ours != theirs:
            parts = unified_diff(
                theirs.splitlines(), ours.splitlines(), "Apache", "OrbitMQ", lineterm="", n=1
            )
            differences.append("\n".join([f"mqadmin {line}", *parts]))
    assert not differences, "\n\n".join(differences)


async def made_user(server: OrbitMQ | Apache, *rules: tuple[str, str], **values: Any) -> None:
    """Has the user ann with these rules."""
    async with Admin(server.namesrv, **ROOT) as admin:
        known = {user.username for user in await list_users(admin, server.broker)}
        if ANN["access_key"] not in known:
            await create_user(admin, server.broker, "ann", "ann-secret")
        await update_user(admin, server.broker, "ann", "ann-secret", "normal", "enable")
        for resource, action in rules:
            await put_rules(admin, server.broker, "ann", [resource], action.split("|"))


def topic(name: str) -> TopicConfig:
    return TopicConfig(name, read_queue_nums=1, write_queue_nums=1)


async def test_who_may_send(guarded: OrbitMQ | Apache) -> None:
    await made_user(guarded, ("Topic:acl-open*", "Pub"))
    async with Admin(guarded.namesrv, **ROOT) as admin:
        for name in ("acl-open-1", "acl-shut-1"):
            await create_topic(admin, guarded.broker, topic(name))
    options = {"retry_times_when_send_failed": 0}

    async def refusal(to: str, **keys: str) -> str:
        async with Producer("acl-p", guarded.namesrv, **keys, **options) as producer:
            with pytest.raises(Exception) as failed:  # noqa: PT011 (it, or its cause, is looked at)
                await producer.send(Message(to, b"x"))
        refused = failed.value if isinstance(failed.value, BrokerRefused) else failed.value.__cause__
        assert isinstance(refused, BrokerRefused)
        assert refused.code == 16
        return refused.remark or ""

    async with Producer("acl-p", guarded.namesrv, **ANN, **options) as producer:
        assert (await producer.send(Message("acl-open-1", b"x"))).queue_offset == 0
    text = await refusal("acl-shut-1", **ANN)
    assert re.fullmatch(
        r"User:ann has no permission to access Topic:acl-shut-1 from 127\.0\.0\.1, no matched policies\.",
        text,
    )
    assert await refusal("acl-open-1", access_key="ann", secret_key="wrong") == "check signature failed."
    assert await refusal("acl-open-1", access_key="nobody", secret_key="x") == "User:nobody is not found."
    assert await refusal("acl-open-1") == "username cannot be null."
    async with Admin(guarded.namesrv, **ROOT) as admin:
        await update_user(admin, guarded.broker, "ann", status="disable")
    assert await refusal("acl-open-1", **ANN) == "User:ann is disabled."


async def test_reading_needs_the_group_and_the_topic(guarded: OrbitMQ | Apache) -> None:
    await made_user(guarded, ("Topic:acl-read", "Pub|Sub|Get"), ("Group:acl-g", "Sub|Get|Update"))
    async with Admin(guarded.namesrv, **ROOT) as admin:
        await create_topic(admin, guarded.broker, topic("acl-read"))
    async with Producer("acl-p", guarded.namesrv, **ANN) as producer:
        for number in range(20):
            await producer.send(Message("acl-read", b"%d" % number))
    consumer = PushConsumer("acl-g", guarded.namesrv, consume_from_where=FIRST_OFFSET, **ANN)
    consumer.subscribe("acl-read")
    got = set()
    async with consumer:
        async for message in consumer:
            got.add(message.body)
            if len(got) == 20:
                break
    async with PullConsumer("acl-other", guarded.namesrv, **ANN) as stranger:
        (queue,) = await stranger.queues("acl-read")
        with pytest.raises(BrokerRefused, match="Group:acl-other"):
            await stranger.pull(queue, 0)


def test_the_blocking_face_signs_as_well(guarded: OrbitMQ | Apache) -> None:
    with sync.Producer("acl-sync", guarded.namesrv, **ROOT) as producer:
        assert producer.send(Message("acl-sync", b"x")).queue_offset >= 0


@pytest.mark.nightly
async def test_users_are_copied_between_brokers_of_either_kind(sides: dict[str, Side]) -> None:
    ours, theirs = sides["orbitmq"].server, sides["apache"].server
    async with Admin(ours.namesrv, **ROOT) as admin:
        for source, target, name in ((ours, theirs, "acl-to-apache"), (theirs, ours, "acl-from-apache")):
            await create_user(admin, source.broker, name, f"{name}-secret")
            assert await copy_users(admin, source.broker, target.broker, [name]) == [name]
            async with Producer("acl-c", target.namesrv, access_key=name, secret_key=f"{name}-secret") as one:
                with pytest.raises(NoPermission, match="no matched policies"):
                    await one.send(Message("TBW102", b"x"))


async def test_over_tls(guarded: OrbitMQ | Apache) -> None:
    """Both have a certificate that they made themselves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    body = b"over TLS " * 100_000
    async with Producer("acl-tls", guarded.namesrv, tls=context, **ROOT) as producer:
        sent = await producer.send(Message("acl-tls", body))
    async with PullConsumer("acl-tls-g", guarded.namesrv, tls=context, **ROOT) as consumer:
        pulled = await consumer.pull(sent.queue, sent.queue_offset)
        assert [message.body for message in pulled] == [body]
    async with Admin(guarded.namesrv, tls=context, **ROOT) as admin:
        assert await list_users(admin, guarded.broker)
    async with Producer("acl-tls", guarded.namesrv, tls=True, **ROOT) as producer:
        with pytest.raises(Exception, match="certificate is not trusted"):
            await producer.send(Message("acl-tls", b"x"))
