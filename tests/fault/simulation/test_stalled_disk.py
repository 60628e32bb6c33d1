"""A disk that does not answer for half a minute: who waits for it waits, everybody else is served."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.testing.load.clients import TOPICS
from orbitmq.testing.simulation import loop
from orbitmq.testing.simulation.cluster import BROKER_PORT, Cluster
from orbitmq.testing.simulation.cluster_faults import FAULTS
from orbitmq.testing.simulation.cluster_run import run

STALL_SECONDS = 30.0


@pytest.mark.parametrize(
    "sync_flush", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["SYNC_FLUSH", "ASYNC_FLUSH"]
)
def test_a_disk_that_stalls_holds_up_those_who_wait_for_it_alone(
    sync_flush: bool,
) -> None:
    answered = 0

    async def stall_disk(cluster: Cluster) -> None:
        """Every work of a thread, and so every flush, takes up to half a minute; then power fails."""
        nonlocal answered
        usual, loop.THREAD_SECONDS = loop.THREAD_SECONDS, STALL_SECONDS
        over = cluster.loop.time() + STALL_SECONDS
        pool = ConnectionPool()
        address = f"127.0.0.1:{BROKER_PORT}"
        alive = Heartbeat(body=HeartbeatData(client_id="alive@1", producer_data_set=[ProducerData("P")]))
        try:
            while cluster.loop.time() < over:
                await pool.call(address, alive, 3000)
                await pool.call(address, GetMaxOffset(TOPICS["plain"], 0), 3000)
                answered += 1
                await asyncio.sleep(1)
        finally:
            loop.THREAD_SECONDS = usual
            await pool.close()
        await FAULTS["cut_power"](cluster)

    kept = 0
    for seed in range(4):
        outcome = run(seed, is_alone=True, sync_flush=sync_flush, script=stall_disk)
        assert not outcome.broken, f"seed {seed}: {[str(one) for one in outcome.broken[:5]]}"
        kept += outcome.kept
    assert answered > STALL_SECONDS / 2, "the disk stalled"
    assert kept > 100
