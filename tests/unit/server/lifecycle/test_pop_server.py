"""Pops over a connection: what the server adds to the rules, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, MessageModel
from orbitmq.protocol.bodies.pop import QueryAssignmentRequestBody
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.requests.pop import Notification, PollingInfo, PopMessage, QueryAssignment
from tests.kit.client_queues import until
from tests.kit.running_standalone import Running, running
from tests.unit.server.tasks.test_broker_tasks import text_of


def pop(here: Running, poll_ms: int = 10_000, **fields: object) -> PopMessage:
    return PopMessage(
        **{
            "consumer_group": "G",
            "topic": "T",
            "queue_id": -1,
            "max_msg_nums": 32,
            "invisible_time": 60_000,
            "poll_time": poll_ms,
            "born_time": 0,
            "init_mode": 0,
            **fields,
        }  # type: ignore[arg-type]
    )


async def held(here: Running, count: int) -> None:
    """Returns once so many pops of the group are held."""
    while (await here.ask(PollingInfo("G", "T", -1))).polling_num != count:  # noqa: ASYNC110 (the broker tells nobody)
        await asyncio.sleep(0)


async def test_a_held_pop_gets_the_next_message(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        await here.send(body=b"first")
        first = await here.ask(pop(here))
        assert decode_record(first.body).body == b"first"
        waiting = asyncio.create_task(here.ask(pop(here)))
        await held(here, 1)
        await here.send(body=b"second")
        assert decode_record((await waiting).body).body == b"second"
        assert not (await here.ask(Notification("G", "T", -1, 0, 0))).has_msg


async def test_under_sync_flush_a_held_pop_is_woken_once_the_message_is_on_the_disk(tmp_path: Path) -> None:
    async with running(tmp_path, flushDiskType="SYNC_FLUSH") as here:
        await here.send(body=b"first")
        await here.ask(pop(here))
        waiting = asyncio.create_task(here.ask(pop(here)))
        await held(here, 1)
        await here.send(body=b"second")
        assert decode_record((await waiting).body).body == b"second"


async def test_pops_of_a_peer_that_is_gone_are_held_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        await here.send()
        await here.ask(pop(here))
        waiting = asyncio.create_task(here.ask(pop(here)))
        await held(here, 1)
        await here.pool.close()
        await asyncio.gather(waiting, return_exceptions=True)
        while here.broker.broker.held_pops.count:  # noqa: ASYNC110 (the broker tells nobody)
            await asyncio.sleep(0.01)


async def test_queues_are_assigned_when_the_name_server_was_asked(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        await here.send()
        consumer = ConsumerData(group_name="G", message_model=MessageModel.CLUSTERING)
        await here.ask(Heartbeat(HeartbeatData(client_id="c1", consumer_data_set=[consumer])))
        body = QueryAssignmentRequestBody("T", "G", "c1", "AVG", MessageModel.CLUSTERING)
        assignments = (await here.ask(QueryAssignment(body))).body.message_queue_assignments
        assert [one.message_queue.queue_id for one in assignments] == [0]


async def test_intervals_of_pops_are_options(tmp_path: Path) -> None:
    lite = {"liteTtlCheckInterval": 12_345, "liteSubscriptionCheckInterval": 23_456}
    async with running(tmp_path, reviveInterval=321, loadBalancePollNameServerInterval=4_321, **lite) as here:
        intervals = {task.name: task.interval_ms for task in here.broker.periodic_tasks}
        assert intervals["revive popped messages"] == 321
        assert intervals["refresh routes"] == 4_321
        assert intervals["expire lite topics"] == 12_345
        assert intervals["drop lite clients"] == 23_456


async def test_offsets_are_saved_after_the_check_points_they_rest_on(tmp_path: Path) -> None:
    async with running(tmp_path, flushIntervalCommitLog=3_600_000) as here:
        await here.send()
        await here.ask(pop(here))
        store = here.broker.store
        end = store.max_physical
        assert store.durable_offset < end
        table = tmp_path / "config" / "consumerOffset.json"
        before = text_of(table)
        await here.ask(UpdateConsumerOffset("G", "T", 0, 1))
        here.run_task("save offsets", here.now())
        await until(lambda: text_of(table) not in ("", before))
        assert store.durable_offset >= end


async def test_a_stop_stores_what_was_in_memory(tmp_path: Path) -> None:
    async with running(tmp_path, enablePopBufferMerge=True) as here:
        await here.send()
        await here.ask(pop(here))
        assert here.broker.broker.points.kept == 1
        broker = here.broker.broker
    assert (broker.points.kept, broker.offsets.get("G", "T", 0)) == (0, 1)
