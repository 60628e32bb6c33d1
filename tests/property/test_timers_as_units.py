"""Whatever timer messages come, damaged ones too: taken into the wheel at once they wait as one by one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.store import PendingMessage
from tests.kit.timer_world import HOST, NOW, TimerWorld

TIMES = st.sampled_from([NOW - 5000, NOW, NOW + 700, NOW + 1000, NOW + 2500, NOW + 2501, NOW + 90_000])
ENTRIES = st.one_of(
    TIMES.map("TIMER_OUT_MS\x01{}".format),
    TIMES.map("TIMER_DELIVER_MS\x01{}".format),
    st.sampled_from(
        [
            *(
                "TIMER_DELAY_MS\x011200",
                "TIMER_DELAY_SEC\x012",
                "TIMER_DELAY_MS\x01-1",
                "TIMER_DELAY_SEC\x01x",
            ),
            *("TIMER_DEL_UNIQKEY\x01ID", "TIMER_ROLL_TIMES\x011", "REAL_TOPIC\x01U", "REAL_TOPIC\x01\u00fc"),
            *("REAL_QID\x01x", "REAL_QID\x011", "TAGS\x01a", "", "alone", "K\x01a\x01b", "UNIQ_KEY\x01ID"),
        ]
    ),
)
WAITING = st.fixed_dictionaries(
    {
        "out": TIMES,
        "entries": st.lists(ENTRIES, max_size=3),
        "later": st.sampled_from([0, 0, 1, 1300]),
        "work": st.booleans(),
    },
    optional={
        "body": st.binary(max_size=40) | st.just(b"b" * 2000),
        "damage": st.tuples(st.integers(0, 150), st.integers(1, 255)),
    },
)


def become(root: Path, messages: Sequence[dict[str, Any]], *, at_once: bool, **settings: Any) -> list[object]:
    """Fate of timer messages: in the wheel and its log, and when their time has come."""
    world = TimerWorld(root, **settings)
    store = world.store
    if not at_once:
        store.appending.reserve = lambda now_ms: None  # type: ignore[method-assign]
    try:
        for one in messages:
            world.now += one["later"]
            properties = "\x02".join(
                ["REAL_TOPIC\x01T", "REAL_QID\x010", f"TIMER_OUT_MS\x01{one['out']}", *one["entries"], ""]
            )
            stored = store.append(
                PendingMessage(
                    TIMER_TOPIC, 0, 0, 0, NOW, HOST, HOST, 0, 0, one.get("body", b"body"), properties.encode()
                ),
                world.now,
            )
            if one["work"]:
                world.work()
            if "damage" in one and stored.size:
                segment = store.structures.log.segments[-1]
                at, bits = one["damage"]
                segment.view[stored.physical_offset - segment.start + at % stored.size] ^= bits
        world.work()
        files = store.timers
        assert files is not None
        states: list[object] = [
            list(files.log.units(files.log.start, files.log.end)),
            [(time_ms, files.wheel.get(time_ms)) for time_ms in files.wheel.times()],
            *(world.timer.queue_offset, world.timer.metrics.pending_by_topic, world.timer.metrics.lost),
        ]
        world.run(world.now + 5000, step_ms=500)
        return [*states, [(record.topic, record.body) for record in store.log.records(0)]]
    finally:
        world.kill()


@given(
    st.lists(WAITING, min_size=1, max_size=8),
    st.sampled_from([1000, 100]),
    st.sampled_from([172_800, 40]),
    st.booleans(),
)
def test_units_made_at_once_are_those_made_one_by_one(
    messages: list[dict[str, Any]], precision_ms: int, window_slots: int, checksums: bool
) -> None:
    root = Path(tempfile.mkdtemp(prefix="orbitmq-timers-"))
    try:
        first, second = (
            become(
                root / str(at_once),
                messages,
                at_once=at_once,
                timer_precision_ms=precision_ms,
                timer_roll_window_slot=window_slots,
                enabled_append_prop_crc=checksums,
            )
            for at_once in (True, False)
        )
        assert first == second
    finally:
        shutil.rmtree(root)
