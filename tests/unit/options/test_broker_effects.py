"""Effects of options of the broker and of its network, where no other test shows them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from orbitmq import failpoints
from orbitmq.net.connection import Connection
from orbitmq.net.errors import ConnectFailed
from orbitmq.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.names import SCHEDULE_TOPIC
from orbitmq.protocol.requests.admin import UpdateBrokerConfig
from orbitmq.protocol.requests.client import GetConsumerListByGroup, GetProducerConnectionList, Heartbeat
from orbitmq.protocol.requests.offset import GetAllConsumerOffset, UpdateConsumerOffset
from orbitmq.protocol.requests.pull import LitePullMessage, PullMessage
from orbitmq.protocol.requests.route import (
    DataVersionReply,
    GetBrokerClusterInfo,
    GetRouteinfoByTopic,
    QueryDataVersion,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
)
from orbitmq.protocol.requests.topic import GetAllTopicConfig, UpdateAndCreateTopic
from orbitmq.protocol.schema.declare import Void
from orbitmq.server.turn.listener import BACKLOG
from tests.kit.running_standalone import running
from tests.kit.scripted_admin import Scripted
from tests.kit.world import NOW, World


def pull(kind: type[Any] = PullMessage, **values: Any) -> Any:
    fields: dict[str, Any] = {
        "consumer_group": "G",
        "topic": "T",
        "queue_id": 0,
        "queue_offset": 0,
        "max_msg_nums": 32,
        "sys_flag": 2 | 4,
        "commit_offset": 0,
        "suspend_timeout_millis": 8000,
        "sub_version": 0,
        "subscription": "*",
        "expression_type": "TAG",
    }
    return kind(**{**fields, **values})


def heartbeat(client_id: str = "c1", kind: ConsumeType = ConsumeType.CONSUME_PASSIVELY) -> Heartbeat:
    consumer = ConsumerData(
        "G",
        kind,
        MessageModel.CLUSTERING,
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        [SubscriptionData("T", "*")],
    )
    return Heartbeat(HeartbeatData(client_id, [ProducerData("P")], [consumer]))


def topic_request(topic: str, attributes: str | None = None) -> UpdateAndCreateTopic:
    return UpdateAndCreateTopic(topic, "TBW102", 1, 1, 6, "SINGLE_TAG", False, 0, attributes)


# Identity of the broker.


async def test_who_it_is_and_how_it_is_reached(tmp_path: Path) -> None:
    async with running(
        tmp_path,
        brokerName="earth",
        brokerClusterName="sun",
        brokerIP1="localhost",
        advertisedPort=4321,
        brokerIP2="10.9.8.7",
        haListenPort=5432,
    ) as here:
        info = (await here.ask_namesrv(GetBrokerClusterInfo())).body
        assert info.cluster_addr_table == {"sun": ["earth"]}
        assert info.broker_addr_table is not None
        assert info.broker_addr_table["earth"].broker_addrs == {0: "localhost:4321"}
        slave = RegisterBroker("earth", "10.0.0.2:1", "sun", "10.0.0.2:2", 1)
        assert (await here.ask_namesrv(slave)).ha_server_addr == "10.9.8.7:5432"


async def test_an_address_of_its_own_to_listen_on(tmp_path: Path) -> None:
    async with running(tmp_path, {"bindAddress": "127.0.0.2"}, bindAddress="127.0.0.2") as here:
        await here.send()
        assert here.broker.address.startswith("127.0.0.2:")
        with pytest.raises(ConnectFailed):
            await here.pool.connection(f"127.0.0.1:{here.broker.settings.listen_port}")


# The network.


async def test_no_more_connections_than_allowed(tmp_path: Path) -> None:
    async with running(tmp_path, maxConnections=2) as here:
        loop = asyncio.get_running_loop()
        host, port = here.broker.settings.bind_address, here.broker.settings.listen_port
        ended: list[asyncio.Event] = []
        for _ in range(3):
            gone = asyncio.Event()
            ended.append(gone)
            await loop.create_connection(
                lambda gone=gone: Connection(lambda *_: None, lambda _: gone.set()), host, port
            )
        async with asyncio.timeout(120):
            await ended[2].wait()
        assert [gone.is_set() for gone in ended[:2]] == [False, False]


async def test_no_more_calls_are_held_than_allowed(tmp_path: Path) -> None:
    async with running(tmp_path, maxHeldRequests=1) as here:
        await here.send()
        pulls = {asyncio.ensure_future(here.ask(pull(queue_offset=1))) for _ in range(2)}
        done, held = await asyncio.wait(pulls, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result().code for one in done] == [19]  # PULL_NOT_FOUND, at once
        assert here.broker.turns.waits.polls == 1
        await here.send()
        assert (await held.pop()).code == 0


async def test_copies_that_no_option_asks_slaves_for_are_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, inSyncReplicas=2):
        pass
    assert any(line.startswith("inSyncReplicas=2 changes nothing") for line in caplog.messages)


async def test_idle_connections_end_after_the_time_given(tmp_path: Path) -> None:
    async with running(tmp_path, serverChannelMaxIdleTimeSeconds=60) as here:
        await here.send()
        connection = await here.pool.connection(here.address)
        for held in here.broker.turns.listener.connections.values():
            held.last_active -= 90  # it may be idle for 120 s by default
        here.run_task("expire clients", here.now())
        async with asyncio.timeout(120):
            await connection.wait_closed()


@pytest.mark.parametrize("backlog", [7, None])
async def test_how_many_may_wait_to_be_accepted(
    tmp_path: Path, backlog: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    seen = []
    create = loop.create_server

    async def noted(*arguments: Any, **values: Any) -> Any:
        seen.append(values["backlog"])
        return await create(*arguments, **values)

    monkeypatch.setattr(loop, "create_server", noted)
    given = {} if backlog is None else {"serverSocketBacklog": backlog}
    async with running(tmp_path, given, **given):
        assert set(seen) == {backlog or BACKLOG}


# Registration.


async def test_a_name_server_that_says_nothing_is_given_up_after_the_time_given(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        async with running(tmp_path, namesrvAddr=address, registerBrokerTimeoutMills=300):
            assert 0.3 <= time.monotonic() - started < 24, "which is the default"


async def test_topics_are_registered_in_parts_where_told(tmp_path: Path) -> None:
    answers = {RegisterBroker: RegisterBrokerReply(), UnregisterBroker: Void()}
    for split, parts in ((False, 1), (True, 4)):
        async with (
            Scripted(answers) as peer,
            running(
                tmp_path / str(split),
                namesrvAddr=peer.address,
                enableSplitRegistration=split,
                splitRegistrationSize=4,
            ),
        ):
            registrations = [request for request in peer.asked if isinstance(request, RegisterBroker)]
            assert (len(registrations) >= parts) if split else (len(registrations) == 1)


async def test_without_force_a_name_server_that_knows_all_is_only_told_that_the_broker_lives(
    tmp_path: Path,
) -> None:
    answers = {
        RegisterBroker: RegisterBrokerReply(),
        UnregisterBroker: Void(),
        QueryDataVersion: DataVersionReply(changed=False),
    }
    async with (
        Scripted(answers) as peer,
        running(tmp_path, namesrvAddr=peer.address, forceRegister=False) as here,
    ):
        peer.asked.clear()
        register = next(task for task in here.broker.periodic_tasks if task.name == "register")
        register.run(0)
        async with asyncio.timeout(120):
            while not peer.asked:  # noqa: ASYNC110 (a script tells nobody)
                await asyncio.sleep(0)
    assert [type(request) for request in peer.asked] == [QueryDataVersion, UnregisterBroker]


async def test_intervals_are_those_of_the_tasks(tmp_path: Path) -> None:
    async with running(
        tmp_path,
        registerNameServerPeriod=12_345,
        flushConsumerOffsetInterval=111,
        flushDelayOffsetInterval=222,
    ) as here:
        intervals = {task.name: task.interval_ms for task in here.broker.periodic_tasks}
        assert intervals["register"] == 12_345
        assert intervals["save offsets"] == 111
        assert intervals["save delay"] == 222
        assert intervals["disable slow readers"] == 180_000
        assert intervals["remove expired offsets"] == 3_600_000


# Sends.


async def test_region_and_trace_travel_with_a_message(tmp_path: Path) -> None:
    async with running(tmp_path, regionId="moon", traceOn=False) as here:
        reply = await here.send()
        assert reply.extra is not None
        assert (reply.extra["MSG_REGION"], reply.extra["TRACE_ON"]) == ("moon", "false")
        pulled = await here.ask(pull(suspend_timeout_millis=0))
        assert b"MSG_REGION\x01moon\x02" in bytes(pulled.body or b"")


async def test_bodies_are_no_larger_than_allowed(tmp_path: Path) -> None:
    async with running(tmp_path, maxMessageSize=1000) as here:
        await here.send(body=bytes(1000))
        with pytest.raises(BrokerRefused) as caught:
            await here.send(body=bytes(1001))
        assert caught.value.code == 13


async def test_sends_are_refused_before_the_time_given(tmp_path: Path) -> None:
    async with running(tmp_path, startAcceptSendRequestTimeStamp=2**42) as here:
        with pytest.raises(BrokerRefused, match="broker unable to service, until 4398046511104"):
            await here.send()


async def test_no_topic_is_made_by_a_send_where_that_is_off(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateTopicEnable=False) as here:
        with pytest.raises(BrokerRefused) as caught:
            await here.send(topic="unknown")
        assert caught.value.code == 17


async def test_a_broker_that_may_only_be_read(tmp_path: Path) -> None:
    async with running(tmp_path, brokerPermission=2) as here:
        await here.send()
        assert (await here.refusal(pull())).code == 16


async def test_routes_follow_a_permission_that_changes_at_run_time(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        await here.send()
        for permission in (4, 6):
            await here.ask(UpdateBrokerConfig(f"brokerPermission={permission}\n".encode()))
            async with asyncio.timeout(60):
                while True:
                    [queues] = (await here.ask_namesrv(GetRouteinfoByTopic("T"))).body.queue_datas
                    if queues.perm == permission:
                        break


async def test_under_sync_flush_an_answer_waits_for_the_disk_and_not_for_ever(tmp_path: Path) -> None:
    async with running(tmp_path / "patient", flushDiskType="SYNC_FLUSH", syncFlushTimeout=60_000) as here:
        reply = await here.send(properties="WAIT\x01true\x02")
        assert reply.code == 0
        assert not here.broker.store.flushing.unflushed_bytes
    disk_is_back = threading.Event()
    async with running(tmp_path / "hasty", flushDiskType="SYNC_FLUSH", syncFlushTimeout=200) as here:
        with failpoints.armed_point("commitlog.flush", lambda: disk_is_back.wait(60)):
            started = time.monotonic()
            reply = await here.send(properties="WAIT\x01true\x02")
            assert reply.code == 10, "FLUSH_DISK_TIMEOUT"
            assert 0.15 <= time.monotonic() - started < 30
            disk_is_back.set()


async def test_delay_levels_are_those_given(tmp_path: Path) -> None:
    async with running(tmp_path, messageDelayLevel="1s 7m") as here:
        for level in (1, 2):
            sent = await here.send(topic="later", properties=f"DELAY\x01{level}\x02WAIT\x01false\x02")
            assert sent.code == 0
        # The unit of a delayed message has the time at which it is due.
        found = here.broker.store.physical_offset_of(SCHEDULE_TOPIC, 1, 0)
        assert found is not None
        assert found[2] - here.broker.store.lookup.store_time(SCHEDULE_TOPIC, 1, 0) == 420_000
        async with asyncio.timeout(60):
            while (await here.ask(pull(topic="later", queue_id=0))).code != 0:
                pass


# Pulls.


async def test_a_pull_is_held_for_the_short_time_where_long_polling_is_off(tmp_path: Path) -> None:
    async with running(tmp_path, longPollingEnable=False, shortPollingTimeMills=300) as here:
        await here.ask(topic_request("T"))
        started = time.monotonic()
        assert (await here.ask(pull(suspend_timeout_millis=3_600_000))).code == 19
        assert time.monotonic() - started >= 0.25


async def test_lite_pulls_can_be_switched_off(tmp_path: Path) -> None:
    async with running(tmp_path, litePullMessageEnable=False) as here:
        await here.send()
        assert (await here.refusal(pull(LitePullMessage))).code == 16
        assert (await here.ask(pull())).code == 0


# Groups and clients.


async def test_versions_of_offset_tables_count_so_many_updates(tmp_path: Path) -> None:
    async with running(tmp_path, consumerOffsetUpdateVersionStep=2, delayOffsetUpdateVersionStep=3) as here:
        await here.send()
        await here.ask(pull())

        async def counter() -> int:
            body = (await here.ask(GetAllConsumerOffset())).body
            assert body is not None
            assert body.data_version is not None
            return body.data_version.counter

        before = await counter()
        for offset in range(4):
            await here.ask(UpdateConsumerOffset("G", "T", 0, offset))
        assert await counter() - before == 2
        assert here.broker.broker.delay._updates_per_version == 3


async def test_silent_clients_are_cut_off_after_the_time_given(tmp_path: Path) -> None:
    async with running(tmp_path, channelExpiredTimeout=5000) as here:
        before = here.now()
        await here.ask(heartbeat())
        here.run_task("expire clients", before + 4000)
        assert (await here.ask(GetConsumerListByGroup("G"))).body.consumer_id_list == ["c1"]
        connection = await here.pool.connection(here.address)
        here.run_task("expire clients", here.now() + 6000)
        async with asyncio.timeout(120):
            await connection.wait_closed()


def test_pull_consumers_can_be_kept_out() -> None:
    world = World()
    world.ask(heartbeat(kind=ConsumeType.CONSUME_ACTIVELY))
    assert world.ask(GetConsumerListByGroup("G")).body.consumer_id_list == ["c1"]
    world = World(reject_pull_consumer_enable=True)
    world.ask(heartbeat(kind=ConsumeType.CONSUME_ACTIVELY))
    assert world.refusal(GetConsumerListByGroup("G")).code == 1
    world.ask(heartbeat("c2"))
    assert world.ask(GetConsumerListByGroup("G")).body.consumer_id_list == ["c2"]


def test_producers_are_listed_only_where_that_is_on() -> None:
    world = World()
    world.ask(heartbeat())
    assert [one.client_id for one in world.ask(GetProducerConnectionList("P")).body.connection_set] == ["c1"]
    world = World(enable_register_producer=False)
    world.ask(heartbeat())
    assert world.refusal(GetProducerConnectionList("P")).code == 1


def test_members_hear_of_each_other_only_where_that_is_on() -> None:
    for enabled in (True, False):
        world = World(notify_consumer_ids_changed_enable=enabled)
        world.ask(heartbeat("c1"), world.peer(1))
        world.clients.notify(NOW)
        world.outbox.drain()
        world.ask(heartbeat("c2"), world.peer(2))
        world.clients.notify(NOW)
        assert bool(world.outbox.drain()) is enabled


# Topics.


def test_topics_of_the_system_are_guarded_unless_told_otherwise() -> None:
    assert World().refusal(topic_request("SELF_TEST_TOPIC")).code == 29
    World(validate_system_topic_when_update_topic=False).ask(topic_request("SELF_TEST_TOPIC"))


def test_mixed_types_only_where_allowed() -> None:
    assert World().refusal(topic_request("T", "+message.type=MIXED")).code == 29
    World(enable_mixed_message_type=True).ask(topic_request("T", "+message.type=MIXED"))


def test_pages_of_topics_only_where_that_is_on() -> None:
    for enabled, count in ((True, 2), (False, 5)):
        world = World(enable_split_metadata=enabled, split_metadata_size=2)
        for number in range(5):
            world.ask(topic_request(f"T{number}"))
        table = world.ask(GetAllTopicConfig(topic_seq=0, max_topic_num=100)).body.topic_config_table
        assert (len(table) == 2) if enabled else (len(table) >= count)


def test_topics_of_a_new_broker_follow_the_options() -> None:
    topics = World(
        default_topic_queue_nums=3,
        cluster_topic_enable=False,
        broker_topic_enable=False,
        trace_topic_enable=True,
        msg_trace_topic_name="traces",
        timer_wheel_enable=False,
        revive_queue_num=2,
    ).topics
    topics.add_system_topics(NOW)
    names = ("DefaultCluster", "broker-a", "TBW102", "traces", "rmq_sys_REVIVE_LOG_DefaultCluster")
    found = {name: config for name in names if (config := topics.get(name)) is not None}
    assert [found[name].perm for name in names[:2]] == [1, 1]
    assert [found[name].write_queue_nums for name in names[2:]] == [3, 1, 2]
    assert topics.get("rmq_sys_wheel_timer") is None
