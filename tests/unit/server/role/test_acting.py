"""A slave that acts for its master: routes, locks, delayed messages, and the master's return."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

from orbitmq.broker.ha.replication import Replication
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.handles.pop import pop_retry_topic
from orbitmq.protocol.names import HALF_TOPIC
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.lock import LockBatchMq
from orbitmq.protocol.requests.offset import GetAllDelayOffset
from orbitmq.protocol.requests.pop import AckMessage, PopMessage
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.turn.listener import free_ports
from orbitmq.store.timer.check_point import TimerMark
from tests.kit.pop import Got, got_of
from tests.kit.replication import Group, slave_of, until
from tests.kit.running_standalone import TESTED, PatientPool, Running, running
from tests.unit.server.role.test_changes import send_request

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
        **TESTED,
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
    pool = PatientPool()
    async with running(tmp_path / "m", {"supportActingMaster": True}, **ACTING) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        name = here.broker.identity.name
        async with slave_of(here, tmp_path / "s", **ACTING) as slave:
            await pool.call(other.address, send_request(b"so that it has the topic"))
            await keeps_all(here.broker)
            for n in range(3):
                await here.send(body=b"late %d" % n, properties="DELAY\x011\x02")
            await until(Group(here, slave).is_level)
            await until(lambda: slave.broker.topics.get("T") is not None)
            before = count(here.broker)
            await here.broker.stop()
            await until(lambda: slave.broker.role.is_acting)
            found = await route(pool, here)
            addresses = {data.broker_name: data.broker_addrs for data in found.broker_datas or ()}
            assert addresses[name] == {0: slave.address}
            assert {data.broker_name: data.perm for data in found.queue_datas or ()}[name] == 4
            wanted = LockBatchRequestBody("G", "C", mq_set=[MessageQueue("T", name, 0)])
            locked = await pool.call(slave.address, LockBatchMq(body=wanted))
            assert [queue.queue_id for queue in locked.body.lock_ok_mq_set] == [0]
            async with asyncio.timeout(60):
                await until(lambda: count(other) == 1 + 3)
            back = another(here, tmp_path / "m", brokerName=name, listenPort=here.broker.settings.listen_port)
            await back.start()
            await until(lambda: not slave.broker.role.is_acting)
            await until(lambda: not back.broker.delay.is_held)
            assert back.broker.delay.positions[1] == back.store.max_offset("SCHEDULE_TOPIC_XXXX", 0) == 3
            await pool.call(back.address, send_request(b"at once", "DELAY\x011\x02"))
            async with asyncio.timeout(60):
                await until(lambda: count(back) == before + 1)
            await back.stop()
        await other.stop()
    await pool.close()


async def keeps_all(server: BrokerServer) -> None:
    """Has a master deliver nothing more, however long it takes until it goes away."""
    await until(lambda: not server.broker.delay.is_held)
    server.broker.mastership.hold()


def bodies(*servers: BrokerServer, topic: str = "T") -> Counter[bytes]:
    """The messages of a topic at these brokers, each with the number of times that it is there."""
    found: Counter[bytes] = Counter()
    for server in servers:
        for queue_id in range(4):
            for offset in range(server.store.max_offset(topic, queue_id)):
                unit = server.store.physical_offset_of(topic, queue_id, offset)
                record = None if unit is None else server.store.record_at(unit[0])
                assert record is not None
                found[decode_record(record).body] += 1
    return found


def timer(due_ms: int) -> str:
    return f"TIMER_DELIVER_MS\x01{due_ms}\x02"


def half(unique_id: str) -> str:
    return f"TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01{unique_id}\x02"


WORKS = {
    **ACTING,
    "brokerNotActiveTimeoutMillis": 30_000,
    "transactionTimeOut": 500,
    "transactionCheckInterval": 60_000,
}


async def test_timers_and_half_messages_of_a_master_that_is_away_go_to_another_one_once(
    tmp_path: Path,
) -> None:
    pool = PatientPool()
    async with running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        name = here.broker.identity.name
        async with slave_of(here, tmp_path / "s", **WORKS) as slave:
            await pool.call(other.address, send_request(b"so that it has the topic"))
            await keeps_all(here.broker)
            wanted = {b"soon 1", b"soon 2", b"later", b"decided", b"so that it has the topic"}
            await here.send(body=b"half 1", properties=half("A"))
            decided = await here.send(body=b"decided", properties=half("B"))
            place = int((decided.msg_id or "")[-16:], 16)
            await here.ask(EndTransaction("P", decided.queue_offset, place, 8, "B", transaction_id="B"))
            await here.send(body=b"half 2", properties=half("C"))
            now = here.now()
            await here.send(body=b"soon 1", properties=timer(now + 2_000))
            await here.send(body=b"soon 2", properties=timer(now + 2_500))
            await here.send(body=b"later", properties=timer(now + 12_000))
            await until(Group(here, slave).is_level)
            await until(lambda: slave.broker.topics.get("T") is not None)
            await here.broker.stop()
            async with asyncio.timeout(60):
                await until(lambda: {b"soon 1", b"soon 2"} <= set(bodies(other)))
                await until(lambda: other.store.max_offset(HALF_TOPIC, 0) == 2)
            assert other.broker.transactions.figures.open_count == 2
            opened = [other.broker.transactions.half(offset) for offset in range(2)]
            assert [found and (found.unique_id, found.group, found.topic) for found in opened] == [
                ("A", "P", "T"),
                ("C", "P", "T"),
            ]
            back = another(
                here,
                tmp_path / "m",
                brokerName=name,
                listenPort=here.broker.settings.listen_port,
                **{**WORKS, "transactionCheckInterval": 300},
            )
            await back.start()
            assert back.broker.delay.is_held
            async with asyncio.timeout(60):
                await until(lambda: not back.broker.delay.is_held)
                assert back.broker.transactions.figures.open_count == 0
                # It works again, and what was in the wheel behind what the slave has delivered comes in time.
                own = timer(here.now() + 1_000)
                await pool.call(back.address, send_request(b"new", own))
                await until(lambda: wanted | {b"new"} <= set(bodies(other, back)))
                await until(lambda: back.broker.timer.pending_by_topic.total() == 0)
            assert bodies(other, back) == Counter(wanted | {b"new"})
            assert back.store.max_offset(HALF_TOPIC, 0) == 3
            # It goes away once more.
            await keeps_all(back)
            await pool.call(back.address, send_request(b"again", timer(here.now() + 2_000)))
            await until(lambda: slave.store.max_physical == back.store.max_physical)
            there = bodies(back)
            await back.stop()
            async with asyncio.timeout(60):
                await until(lambda: b"again" in bodies(other))
            assert bodies(other) + there == Counter(wanted | {b"new", b"again"})
        await other.stop()
    await pool.close()


async def test_what_no_other_master_takes_holds_up_nothing_and_is_still_its_masters(tmp_path: Path) -> None:
    """Messages of a topic that is nowhere else, before others: on a level, as timers, as half messages."""
    pool = PatientPool()
    async with running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        name = here.broker.identity.name
        async with slave_of(here, tmp_path / "s", **WORKS) as slave:
            await pool.call(other.address, send_request(b"so that it has the topic"))
            await keeps_all(here.broker)
            for topic in ("Mine", "T"):
                body = topic.encode()
                now = here.now()
                await here.send(topic, body + b" delayed", "DELAY\x011\x02")
                await here.send(topic, body + b" timer", timer(now + 1_000))
                await here.send(topic, body + b" half", half(topic))
            await until(Group(here, slave).is_level)
            await until(lambda: None not in map(slave.broker.topics.get, ("Mine", "T")))
            await here.broker.stop()
            async with asyncio.timeout(60):
                await until(lambda: {b"T delayed", b"T timer"} <= set(bodies(other)))
                await until(lambda: other.store.max_offset(HALF_TOPIC, 0) == 1)
                acted = slave.broker.delay.acted
                assert acted is not None
                await until(lambda: len(acted.left) == 3)
            assert slave.broker.passed.counts["acting slave", "tried again"] == 3
            back = another(
                here,
                tmp_path / "m",
                brokerName=name,
                listenPort=here.broker.settings.listen_port,
                **{**WORKS, "transactionCheckInterval": 300_000},
            )
            await back.start()
            async with asyncio.timeout(60):
                await until(lambda: not back.broker.delay.is_held)
                await until(lambda: {b"Mine delayed", b"Mine timer"} <= set(bodies(back, topic="Mine")))
            transactions = back.broker.transactions
            first = transactions.window.next_open(0, transactions.end)
            mine = None if first is None else transactions.half(first)
            assert mine is not None
            assert (mine.topic, transactions.figures.open_count) == ("Mine", 1)
            # Nothing comes twice, also if it is told once more.
            back.broker.mastership.adopt(acted, here.now())
            back.broker.delay.deliver_due(here.now())
            assert bodies(back, topic="Mine") == Counter([b"Mine delayed", b"Mine timer"])
            assert not {b"T delayed", b"T timer"} & set(bodies(back))
            await back.stop()
        await other.stop()
    await pool.close()


async def test_a_slave_that_acts_by_mistake_does_none_of_the_work_of_a_master_that_it_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name server has not heard of the master for a while, which lives."""
    pool = PatientPool()
    async with running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        await pool.call(other.address, send_request(b"so that it has the topic"))
        async with slave_of(here, tmp_path / "s", **WORKS) as slave:
            await until(lambda: not here.broker.broker.delay.is_held)
            await until(Group(here, slave).is_level)

            async def alone() -> dict[int, str]:
                return {1: slave.address}

            with monkeypatch.context() as patch:
                patch.setattr(slave._registrar, "members", alone)
                await until(lambda: slave.broker.role.is_acting)
                now = here.now()
                await here.send(body=b"timer", properties=timer(now + 1_500))
                await here.send(body=b"half", properties=half("A"))
                await until(Group(here, slave).is_level)
                async with asyncio.timeout(60):
                    await until(lambda: b"timer" in bodies(here.broker))
                assert slave.broker.delay.acted is None
            await until(lambda: not slave.broker.role.is_acting)
            assert bodies(other) == Counter([b"so that it has the topic"])
            await keeps_all(here.broker)
            await here.send(body=b"behind", properties=timer(here.now() + 3_000))
            await until(Group(here, slave).is_level)
            await until(lambda: slave.broker.topics.get("T") is not None)
            there = bodies(here.broker)
            await here.broker.stop()
            async with asyncio.timeout(60):
                await until(lambda: b"behind" in bodies(other))
                await until(lambda: other.store.max_offset(HALF_TOPIC, 0) == 1)
            assert (bodies(other) + there)[b"timer"] == 1
        await other.stop()
    await pool.close()


async def pop(pool: ConnectionPool, address: str, invisible_ms: int) -> list[Got]:
    """Messages of topic T that group G gets, for a while."""
    request = PopMessage("G", "T", -1, 32, invisible_ms, 0, 0, 1, exp_type="TAG", exp="*")
    return got_of(await pool.call(address, request), "T", "G")


async def test_messages_popped_from_a_master_that_is_away_are_delivered_again_elsewhere_once(
    tmp_path: Path,
) -> None:
    pool = PatientPool()
    retry = pop_retry_topic("T", "G", v2=False)
    async with running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        name, master = here.broker.identity.name, here.broker.address
        async with slave_of(here, tmp_path / "s", **WORKS) as slave:
            await pool.call(other.address, send_request(b"so that it has the topic"))
            await keeps_all(here.broker)
            await here.send(body=b"acknowledged")
            (got,) = await pop(pool, master, 3_000)
            await here.ask(AckMessage("G", "T", 0, got.handle.to_text(), 0))
            await here.send(body=b"soon")
            assert [one.body for one in await pop(pool, master, 3_000)] == [b"soon"]
            await here.send(body=b"later")
            assert [one.body for one in await pop(pool, master, 12_000)] == [b"later"]
            await until(Group(here, slave).is_level)
            await until(lambda: slave.broker.topics.get("T") is not None)
            await until(lambda: slave.broker.groups.get("G") is not None)
            await here.broker.stop()
            async with asyncio.timeout(60):
                await until(lambda: b"soon" in bodies(other, topic=retry))
            back = another(
                here, tmp_path / "m", brokerName=name, listenPort=here.broker.settings.listen_port, **WORKS
            )
            await back.start()
            async with asyncio.timeout(60):
                await until(lambda: not back.broker.delay.is_held)
                await pool.call(back.address, send_request(b"new"))
                assert [one.body for one in await pop(pool, back.address, 1_000)] == [b"new"]
                await until(lambda: {b"new", b"later"} <= set(bodies(other, back, topic=retry)))
            assert bodies(other, back, topic=retry) == Counter([b"soon", b"later", b"new"])
            await back.stop()
        await other.stop()
    await pool.close()


async def test_a_slave_that_has_to_stop_sends_on_what_is_due_together_and_its_master_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its master is back as soon as the first message has left."""
    monkeypatch.setattr("orbitmq.server.role.acting.FINISHING_MS", 300_000)
    pool = PatientPool()
    retry = pop_retry_topic("T", "G", v2=False)
    async with running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        name = here.broker.identity.name
        async with slave_of(here, tmp_path / "s", **WORKS) as slave:
            await pool.call(other.address, send_request(b"so that it has the topic"))
            await keeps_all(here.broker)
            due = here.now() + 5_000
            timers = {b"timer %d" % n for n in range(80)}
            await asyncio.gather(*(here.send(body=body, properties=timer(due)) for body in timers))
            first = await send_and_pop(here, pool, [b"popped %d" % n for n in range(5)])
            popped_ms = here.now()
            await until(lambda: here.now() > popped_ms)
            second = await send_and_pop(here, pool, [b"popped later %d" % n for n in range(3)])
            await until(Group(here, slave).is_level)
            await until(lambda: slave.broker.topics.get("T") is not None)
            await until(lambda: slave.broker.groups.get("G") is not None)
            replication = slave.broker.replication
            sees_master = type(replication).has_master
            seen_after: list[tuple[str, set[bytes]]] = [("T", timers)]

            def has_sent_some() -> bool:
                ((topic, wanted),) = seen_after
                return not wanted.isdisjoint(bodies(other, topic=topic))

            def has_ended() -> bool:
                acted = slave.broker.delay.acted
                return has_sent_some() and acted is not None and not acted.is_open

            def has_master(asked: Replication) -> bool:
                return sees_master.fget(asked) or (asked is replication and has_sent_some())

            monkeypatch.setattr(type(replication), "has_master", property(has_master))
            await here.broker.stop()
            async with asyncio.timeout(60):
                await until(has_ended)
            assert timers < set(bodies(other))
            seen_after[:] = [(retry, first)]
            async with asyncio.timeout(60):
                await until(has_ended)
            assert first <= set(bodies(other, topic=retry))
            back = another(
                here, tmp_path / "m", brokerName=name, listenPort=here.broker.settings.listen_port, **WORKS
            )
            await back.start()
            async with asyncio.timeout(60):
                await until(lambda: not back.broker.delay.is_held)
                await until(lambda: second <= set(bodies(other, back, topic=retry)))
                await until(lambda: back.broker.timer.pending_by_topic.total() == 0)
            assert bodies(other, back, topic=retry) == Counter(first | second)
            found = bodies(other, back)
            assert [found[body] for body in timers] == [1] * len(timers)
            await back.stop()
        await other.stop()
    await pool.close()


async def send_and_pop(here: Running, pool: ConnectionPool, sent: list[bytes]) -> set[bytes]:
    """Sends messages of topic T, and pops them together."""
    for body in sent:
        await here.send(body=body)
    popped = {one.body for one in await pop(pool, here.broker.address, 5_000)}
    assert popped == set(sent)
    return popped


async def test_a_slave_says_that_it_acts_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A master that comes back while the slave opens its files waits for it."""
    goes_on = threading.Event()
    async with (
        running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here,
        slave_of(here, tmp_path / "s", **WORKS) as slave,
    ):
        pool = PatientPool()
        await until(Group(here, slave).is_level)
        reopen = slave.store.current_timers.reopen

        def reopen_late(now: int, mark: TimerMark | None = None) -> None:
            goes_on.wait(60)
            reopen(now, mark)

        monkeypatch.setattr(slave.store.current_timers, "reopen", reopen_late)
        await here.broker.stop()
        await until(lambda: slave.broker.role.works_for_master)
        body = (await pool.call(slave.address, GetAllDelayOffset())).body
        goes_on.set()
        assert b'"isOpen":true' in bytes(body or b"").replace(b" ", b"")
        await pool.close()


async def test_a_disk_error_when_a_slave_takes_up_its_masters_work_does_not_end_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = PatientPool()
    async with running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        async with slave_of(here, tmp_path / "s", **WORKS) as slave:
            await pool.call(other.address, send_request(b"so that it has the topic"))
            await keeps_all(here.broker)
            await here.send(body=b"soon", properties=timer(here.now() + 500))
            await until(Group(here, slave).is_level)
            await until(lambda: slave.broker.topics.get("T") is not None)
            reopen, failures = slave.store.current_timers.reopen, [OSError(5, "Input/output error")]

            def reopen_at_last(now: int, mark: TimerMark | None = None) -> None:
                if failures:
                    raise failures.pop()
                reopen(now, mark)

            monkeypatch.setattr(slave.store.current_timers, "reopen", reopen_at_last)
            await here.broker.stop()
            async with asyncio.timeout(60):
                await until(lambda: b"soon" in bodies(other))
            assert not failures
        await other.stop()
    await pool.close()


async def test_a_slave_that_acts_anew_and_becomes_master_delivers_nothing_twice(tmp_path: Path) -> None:
    pool = PatientPool()
    async with running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here:
        other = another(here, tmp_path / "o", brokerName="broker-b")
        await other.start()
        await pool.call(other.address, send_request(b"so that it has the topic"))
        async with slave_of(here, tmp_path / "s", **WORKS) as slave:
            await keeps_all(here.broker)
            await here.send(body=b"half", properties=half("A"))
            now = here.now()
            await here.send(body=b"soon", properties=timer(now + 1_500))
            await here.send(body=b"later", properties=timer(now + 8_000))
            await here.send(body=b"level", properties="DELAY\x011\x02")
            await until(Group(here, slave).is_level)
            await until(lambda: slave.broker.topics.get("T") is not None)
            await here.broker.stop()
            async with asyncio.timeout(60):
                await until(lambda: {b"soon", b"level"} <= set(bodies(other)))
                await until(lambda: other.store.max_offset(HALF_TOPIC, 0) == 1)
        async with slave_of(here, tmp_path / "s", **WORKS) as slave:
            async with asyncio.timeout(60):
                await until(lambda: slave.broker.role.is_acting)
                acted = slave.broker.delay.acted
                assert acted is not None
                assert acted.log_end == slave.store.max_physical
                assert acted.halves_to == 1
            await slave.change_role(RoleChange(Role.MASTER, 0))
            assert slave.broker.transactions.figures.open_count == 0
            async with asyncio.timeout(60):
                await until(lambda: b"later" in bodies(other, slave))
                await until(lambda: slave.broker.timer.pending_by_topic.total() == 0)
            assert bodies(other, slave) == Counter([b"soon", b"later", b"level", b"so that it has the topic"])
            assert other.store.max_offset(HALF_TOPIC, 0) == 1
        await other.stop()
    await pool.close()


async def test_decisions_about_what_a_slave_may_have_moved_are_refused_until_it_is_known(
    tmp_path: Path,
) -> None:
    async with running(tmp_path / "m", {"supportActingMaster": True}, **WORKS) as here:
        sent = await here.send(body=b"half", properties=half("A"))
        place = int((sent.msg_id or "")[-16:], 16)
        decision = EndTransaction("P", sent.queue_offset, place, 8, "A", transaction_id="A")
        await until(lambda: not here.broker.broker.delay.is_held)
        here.broker.broker.mastership.hold()
        refused = await here.refusal(decision)
        assert refused.code == ResponseCode.SLAVE_NOT_AVAILABLE
        here.broker.broker.mastership.resume()
        await here.ask(decision)
        assert bodies(here.broker) == Counter([b"half"])


async def test_without_escape_delayed_messages_wait_for_their_master(tmp_path: Path) -> None:
    waits = {**ACTING, "enableRemoteEscape": False}
    async with (
        running(tmp_path / "m", {"supportActingMaster": True}, **waits) as here,
        slave_of(here, tmp_path / "s", **waits) as slave,
    ):
        await keeps_all(here.broker)
        await here.send(properties="DELAY\x011\x02")
        await until(Group(here, slave).is_level)
        await here.broker.stop()
        await until(lambda: slave.broker.role.is_acting)
        now = here.now()
        await until(lambda: here.now() > now + 3_500)
        assert slave.broker.delay.positions.get(1, 0) == 0
        assert slave.store.max_offset("T", 0) == 0


async def test_heartbeats_keep_a_broker_in_the_routes_for_as_long_as_it_asks_for(tmp_path: Path) -> None:
    asked = ACTING | {"brokerNotActiveTimeoutMillis": 25_000}
    async with running(tmp_path / "m", **asked) as here:
        routes = here.server.namesrv.nameserver.routes
        (live,) = routes.live.values()
        assert live.timeout_ms == 25_000
        registered = live.last_ms
        # The next registration is half a minute away.
        async with asyncio.timeout(25):
            await until(lambda: next(iter(routes.live.values())).last_ms > registered + 200)
