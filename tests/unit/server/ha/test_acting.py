"""A slave that acts for its master: routes, locks, delayed messages, and the master's return."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.requests.lock import LockBatchMq
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import SMALL_SEGMENTS
from tests.unit.options.running import Running, running
from tests.unit.server.ha.test_replication import Group, slave_of, until
from tests.unit.server.ha.test_roles import send_request

ACTING = {
    "enableSlaveActingMaster": True,
    "enableRemoteEscape": True,
    "brokerHeartbeatInterval": 50,
    "syncBrokerMemberGroupPeriod": 100,
    "brokerNotActiveTimeoutMillis": 2_000,
    "messageDelayLevel": "3s 5s",
}


def another(here: Running, data_dir: Path, **properties: object) -> BrokerServer:
    """A broker of the same name server."""
    values = {
        "listenPort": free_ports(-2, 1),
        "storePathRootDir": str(data_dir),
        "namesrvAddr": here.server.namesrv.address,
        **ACTING,
        **SMALL_SEGMENTS,
    }
    return BrokerServer(BROKER_TABLE.load([Layer("the test", {**values, **properties})]))


async def route(pool: ConnectionPool, here: Running) -> TopicRouteData:
    reply = await pool.call(here.server.namesrv.address, GetRouteinfoByTopic("T"))
    return reply.body


def count(server: BrokerServer) -> int:
    return sum(server.store.max_offset("T", queue_id) for queue_id in range(4))


async def test_delayed_messages_of_a_master_that_is_away_come_once_and_it_takes_its_place_again(
    tmp_path: Path,
) -> None:
    pool = ConnectionPool()
    async with running(tmp_path / "m", {"supportActingMaster": True}, **ACTING) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        name = here.broker.identity.name
        async with slave_of(here, tmp_path / "s", **ACTING) as slave:
            await pool.call(other.address, send_request(b"so that it has the topic"))
            for n in range(3):
                await here.send(body=b"late %d" % n, properties="DELAY\x011\x02")
            await until(Group(here, slave).is_level)
            await until(lambda: slave.broker.topics.get("T") is not None)
            before = count(here.broker)
            await here.broker.stop()
            await until(lambda: slave.broker.replication.is_acting)
            found = await route(pool, here)
            addresses = {data.broker_name: data.broker_addrs for data in found.broker_datas or ()}
            assert addresses[name] == {0: slave.address}
            assert {data.broker_name: data.perm for data in found.queue_datas or ()}[name] == 4
            wanted = LockBatchRequestBody("G", "C", mq_set=[MessageQueue("T", name, 0)])
            locked = await pool.call(slave.address, LockBatchMq(body=wanted))
            assert [queue.queue_id for queue in locked.body.lock_ok_mq_set] == [0]
            async with asyncio.timeout(20):
                await until(lambda: count(other) == 1 + 3)
            back = another(here, tmp_path / "m", brokerName=name, listenPort=here.broker.settings.listen_port)
            await back.start()
            await until(lambda: not slave.broker.replication.is_acting)
            await until(lambda: not back.broker.delay.is_held)
            assert back.broker.delay.positions[1] == back.store.max_offset("SCHEDULE_TOPIC_XXXX", 0) == 3
            await pool.call(back.address, send_request(b"at once", "DELAY\x011\x02"))
            async with asyncio.timeout(20):
                await until(lambda: count(back) == before + 1)
            await back.stop()
        await other.stop()
    await pool.close()


async def test_without_escape_delayed_messages_wait_for_their_master(tmp_path: Path) -> None:
    waits = {**ACTING, "enableRemoteEscape": False}
    async with (
        running(tmp_path / "m", {"supportActingMaster": True}, **waits) as here,
        slave_of(here, tmp_path / "s", **waits) as slave,
    ):
        await here.send(properties="DELAY\x011\x02")
        await until(Group(here, slave).is_level)
        await here.broker.stop()
        await until(lambda: slave.broker.replication.is_acting)
        now = slave._clock.now()
        await until(lambda: slave._clock.now() > now + 3_500)
        assert slave.broker.delay.positions.get(1, 0) == 0
        assert slave.store.max_offset("T", 0) == 0


async def test_heartbeats_keep_a_broker_in_the_routes_for_as_long_as_it_asks_for(tmp_path: Path) -> None:
    async with running(tmp_path / "m", **ACTING) as here:
        routes = here.server.namesrv.nameserver.routes
        (live,) = routes.live.values()
        assert live.timeout_ms == 2_000
        registered = live.last_ms
        # The next registration is half a minute away.
        async with asyncio.timeout(10):
            await until(lambda: next(iter(routes.live.values())).last_ms > registered + 200)
