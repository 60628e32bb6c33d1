import time

from orbitmq import Admin
from orbitmq.admin.waiting.delays import SLOT_MS, broker_delays
from tests.kit.waiting_messages import HOUR_MS


async def test_levels_tell_how_many_wait_and_when_they_are_due(admin: Admin) -> None:
    [broker] = await broker_delays(admin)
    found = {one.level: one for one in broker.levels}
    assert {level: (one.delay_ms, one.pending) for level, one in found.items() if level == 17} == {
        17: (HOUR_MS, 2)
    }
    due = found[17].next_due_ms
    assert due is not None
    now = time.time() * 1000
    assert now < due <= now + HOUR_MS
    assert sum(broker.slots.values()) == sum(one.pending for one in broker.levels)
    assert broker.slots[due // SLOT_MS * SLOT_MS] >= 1
    assert (broker.has_timers, broker.may_recall, broker.error) == (True, True, None)
