"""All kinds of messages at once while the broker is killed: nothing lost, doubled, early, or out of order.

ORBITMQ_MIXED_SECONDS (60) says for how long, ORBITMQ_MIXED_SEED with which chances; a failure names its seed.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from orbitmq.testing import LocalBroker
from tests.fault.mixed import PROPERTIES, mixing

SECONDS = float(os.environ.get("ORBITMQ_MIXED_SECONDS", "60"))
SEED = int(os.environ.get("ORBITMQ_MIXED_SEED", "1"))

pytestmark = pytest.mark.timeout(SECONDS * 2 + 300)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_every_promise_is_kept_however_often_the_broker_is_killed(tmp_path: Path, flush: str) -> None:
    async def run() -> str:
        async with mixing(broker, SEED) as mix:
            await mix.run(SECONDS / 2)
            ledger = mix.ledger
            kept = sum(promise.acknowledged for promise in ledger.promises.values())
            return (
                f"seed {SEED}: {kept:,} promises kept over {ledger.kills} kills and {ledger.stops} stops, "
                f"{ledger.checks} questions about transactions, {len(ledger.handled):,} pops acknowledged"
            )

    broker = LocalBroker(
        tmp_path / "store", own_process=True, patience_seconds=120, flushDiskType=flush, **PROPERTIES
    )
    broker.start()
    try:
        print(asyncio.run(run()))
    except AssertionError as error:
        pytest.fail(f"seed {SEED}, {flush}: {error}")
    finally:
        broker.kill()
