"""All kinds of messages at once while the broker is killed: nothing lost, doubled, early, or out of order.

ORBITMQ_MIXED_SECONDS (40) says for how long, half of it with either way of flushing (ASYNC_FLUSH at night);
ORBITMQ_MIXED_SEED with which chances; a failure names its seed.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from orbitmq.testing import LocalBroker
from tests.fault.mixed import PROPERTIES, Mix
from tests.kit.brokers import others_at_night

SECONDS = float(os.environ.get("ORBITMQ_MIXED_SECONDS", "40"))
SEED = int(os.environ.get("ORBITMQ_MIXED_SEED", "1"))

pytestmark = pytest.mark.timeout(SECONDS * 2 + 600)


@pytest.mark.parametrize("flush", others_at_night(["ASYNC_FLUSH", "SYNC_FLUSH"], ["SYNC_FLUSH"]))
def test_every_promise_is_kept_however_often_the_broker_is_killed(tmp_path: Path, flush: str) -> None:
    broker = LocalBroker(
        tmp_path / "store", own_process=True, timeout_seconds=120, flushDiskType=flush, **PROPERTIES
    )
    mix = Mix(broker, SEED)
    try:
        asyncio.run(mix.run(SECONDS / 2))
    finally:
        broker.kill()
    history = mix.history
    kept = sum(promise.acknowledged for promise in history.promises.values())
    assert not history.broken, f"seed {SEED}, {flush}: {[str(one) for one in history.broken[:10]]}"
    print(
        f"seed {SEED}: {kept:,} promises kept over {history.kills} kills and {history.stops} stops, "
        f"{mix.clients.asked} questions about transactions, {len(history.popped_away):,} pops acknowledged"
    )
