"""Processes of a group that no controller answers: sends and pulls go on, and an election loses nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from orbitmq import Message, Producer, PullConsumer
from orbitmq.admin import Admin
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.testing import LocalCluster
from tests.needs import need

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]


async def is_blind(admin: Admin, address: str) -> bool:
    """True if a master says that no controller answers it."""
    return "orbitmqBlindSince" in ((await admin.call(address, GetBrokerRuntimeInfo())).body.table or {})


async def read_all(reader: PullConsumer, topic: str) -> set[bytes]:
    """The bodies of all messages of a topic."""
    found: set[bytes] = set()
    for queue in await reader.queues(topic):
        offset = 0
        while messages := await reader.pull(queue, offset):
            found |= {message.body for message in messages}
            offset = messages.next_offset
    return found


async def test_controllers_are_killed_under_load_and_an_election_after_their_return_loses_nothing(
    tmp_path: Path,
) -> None:
    need("etcd")
    values = {"enableBlindMaster": "true", "syncBrokerMetadataPeriod": "100"}
    acknowledged: set[bytes] = set()
    with LocalCluster(
        tmp_path, slaves=1, failover=True, mode="sync-master", timeout_seconds=240, **values
    ) as cluster:
        controllers = [node.name for node in cluster.nodes if node.kind == "controller"]
        async with (
            Admin(cluster.namesrv, timeout_ms=20_000) as admin,
            Producer("P", cluster.namesrv, poll_name_server_interval_ms=100) as producer,
            PullConsumer("reader", cluster.namesrv) as reader,
        ):

            async def send() -> None:
                body = b"%d" % len(acknowledged)
                result = await producer.send(Message("T", body), timeout_ms=30_000)
                if result.status.name == "SEND_OK":
                    acknowledged.add(body)

            await admin.create_topic("T", queues=2)
            for _ in range(300):
                await send()
            master = cluster.master()
            assert master is not None
            for name in controllers:
                cluster.kill(name)
            while not await is_blind(admin, master.address):
                await send()
            before = len(acknowledged)
            while len(acknowledged) < before + 300:
                await send()
            assert await is_blind(admin, master.address)
            assert await read_all(reader, "T") == acknowledged
            for name in controllers:
                cluster.start_node(name)
            while await is_blind(admin, master.address):
                await send()
            cluster.kill(master.name)
            before = len(acknowledged)
            while len(acknowledged) < before + 100:
                with suppress(OrbitError):
                    await send()
            promoted = cluster.master()
            assert promoted is not None
            assert promoted.name != master.name
            assert await read_all(reader, "T") >= acknowledged
