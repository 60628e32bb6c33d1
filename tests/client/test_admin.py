"""`Admin`'s methods, against OrbitMQ and Apache."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq import (
    FIRST_OFFSET,
    Admin,
    BrokerRefused,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    sync,
)
from orbitmq.admin.group_clone import clone_group
from orbitmq.errors import ConsumerNotOnline
from tests.client.conftest import Cluster
from tests.client.naming import fresh


async def test_topics_come_and_go(cluster: Cluster) -> None:
    topic = fresh("admin")
    async with Admin(cluster.namesrv) as admin:
        [name] = await admin.create_topic(topic, queues=3, read_queues=2)
        [queues] = (await admin.topic_route(topic)).queue_datas
        assert (queues.broker_name, queues.write_queue_nums, queues.read_queue_nums) == (name, 3, 2)
        assert topic in await admin.topics()
        assert set(await admin.topics()) < set(await admin.topics(everything=True))
        assert await admin.delete_topic(topic) == [name]
        assert topic not in await admin.topics()
        with pytest.raises(BrokerRefused):
            await admin.topic_route(topic)


async def test_groups_come_and_go(cluster: Cluster) -> None:
    group = fresh("g")
    async with Admin(cluster.namesrv) as admin:
        [name] = await admin.create_group(group, max_retries=3)
        await admin.create_group(group, broadcast=False)
        known = (await admin.groups())[group]
        assert (known.config.retry_max_times, known.config.consume_broadcast_enable) == (3, False)
        with pytest.raises(ConsumerNotOnline):
            await admin.group_connections(group)
        assert await admin.delete_group(group) == [name]
        assert group not in await admin.groups()


async def test_members_of_a_group_are_shown(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("admin"), fresh("g")
    await producer.send(Message(topic, b"0"))
    consumer = PushConsumer(group, cluster.namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic, "a")
    async with Admin(cluster.namesrv) as admin, consumer:
        found = await admin.group_connections(group)
        assert [member.client_id for member in found.connection_set] == [consumer.client_id]
        assert found.subscription_table[topic].sub_string == "a"


async def test_a_topic_that_may_not_be_written_to(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("admin")
    async with Admin(cluster.namesrv) as admin:
        [name] = await admin.create_topic(topic, queues=2)
        await producer.send(Message(topic, b"0"))
        async with asyncio.timeout(60):  # Apache's broker acknowledges it before it is in its queue
            while True:
                status = await admin.topic_status(topic)
                assert len(status) == 2
                if sum(offsets.max_offset - offsets.min_offset for offsets in status.values()) == 1:
                    break
        assert await admin.set_topic_perm(topic, 4) == {name: 6}
        [queues] = (await admin.topic_route(topic)).queue_datas
        assert queues.perm == 4
        with pytest.raises(ValueError, match="0 to 7"):
            await admin.set_topic_perm(topic, 8)
        assert "bootTimestamp" in await admin.broker_status(name)


async def test_messages_and_offsets(cluster: Cluster, producer: Producer) -> None:
    topic, group, key = fresh("admin"), fresh("g"), fresh("key")
    async with Admin(cluster.namesrv) as admin:
        await admin.create_topic(topic, queues=1)
        sent = [await producer.send(Message(topic, str(number), keys=key)) for number in range(3)]
        queue = sent[0].queue
        # Apache's broker acknowledges messages before they are in their queues, and then in the index.
        async with asyncio.timeout(60):
            while not await admin.query_messages(topic, sent[2].message_id, unique=True):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await admin.create_group(group)
        assert group in await admin.groups()
        assert (await admin.view_message(sent[1].offset_message_id, topic)).body == b"1"
        assert (await admin.message_at(queue, 2)).body == b"2"
        [found] = await admin.query_messages(topic, sent[0].message_id, unique=True)
        assert found.keys == [key]
        assert await admin.reset_offsets(group, topic, "earliest") == {queue: 0}
        assert (await admin.group_progress(group, topic)).lag == 3
        assert await admin.set_offset(group, queue, 2) == 2
        assert await admin.reset_offsets(group, topic, "latest") == {queue: 3}
        with pytest.raises(ValueError, match="earliest"):
            await admin.reset_offsets(group, topic, "yesterday")  # type: ignore[arg-type]
        with pytest.raises(BrokerRefused):
            await admin.reset_offsets(group, fresh("nowhere"), 0)


def test_brokers_and_groups_without_asyncio(cluster: Cluster) -> None:
    with sync.Admin(cluster.namesrv) as admin:
        [(broker, figures)] = admin.cluster_list()
        assert "msgPutTotalTodayNow" in figures  # type: ignore[operator]
        assert broker.is_master
        before = admin.broker_config(broker.name)["brokerPermission"]
        assert admin.set_broker_config(broker.name, {"brokerPermission": before}) == [broker.address]
        assert set(admin.groups()) < set(admin.groups(everything=True))
        assert not any(name.startswith("CID_RMQ_SYS_") for name in admin.groups())
        with pytest.raises(Exception, match="no option brokerPermision"):
            admin.set_broker_config(broker.address, {"brokerPermision": "6"})


async def test_a_queue_of_a_broker_that_there_is_not(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("admin")
    await producer.send(Message(topic, b"0"))
    async with Admin(cluster.namesrv) as admin:
        with pytest.raises(Exception, match="no broker nobody"):
            await admin.set_offset("g", MessageQueue(topic, "nobody", 0), 0)


async def test_a_clone_of_a_group_goes_on_where_the_group_is(cluster: Cluster, producer: Producer) -> None:
    topic, group = fresh("cloned"), fresh("g")
    async with Admin(cluster.namesrv) as admin:
        await admin.create_topic(topic, queues=1)
        [queue] = await admin.topic_status(topic)
        for _ in range(5):
            await producer.send(Message(topic, b"x"), queue=queue)
        await admin.create_group(group, max_retries=3)
        await admin.set_offset(group, queue, 2)
        assert await clone_group(admin, group, f"{group}-copy") == [topic]
        assert (await admin.group_progress(f"{group}-copy", topic)).lag == 3
        assert (await admin.groups())[f"{group}-copy"].config.retry_max_times == 3
