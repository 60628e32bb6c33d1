"""Handles and lists of POP, against what Apache's classes make."""

import json
from pathlib import Path

import pytest

from orbitmq.protocol.handles.pop import (
    BadHandle,
    PopHandle,
    message_offset_info,
    normal_topic,
    order_count_info,
    pop_retry_topic,
    real_topic,
    revive_topic,
    start_offset_info,
    topic_type,
)

VECTORS = json.loads((Path(__file__).parents[3] / "wire" / "vectors" / "pop.json").read_text())


@pytest.mark.parametrize(
    "name",
    [
        "extraInfo_normal",
        "extraInfo_with_offset",
        "extraInfo_retry_v1",
        "extraInfo_retry_v2",
        "receiptHandle",
    ],
)
def test_handles_are_read_and_written_as_they_are(name: str) -> None:
    handle = PopHandle.from_text(VECTORS[name])
    assert handle.to_text() == VECTORS[name]
    assert (handle.start_offset, handle.revive_queue_id, handle.broker_name) == (100, 3, "broker-a")
    assert handle.visible_ms == 1_700_000_060_000
    assert handle.topic_type == {"extraInfo_retry_v1": 1, "extraInfo_retry_v2": 2}.get(name, 0)
    assert not handle.is_order


@pytest.mark.parametrize(
    "text",
    ["", "1 2 3", "1 2 3 4 5 b x", "1 2 3 4 5 b 6 7 8 l m", "-1 2 3 4 5 b 6", f"{1 << 63} 2 3 4 5 b 6"],
)
def test_what_is_no_handle(text: str) -> None:
    with pytest.raises(BadHandle):
        PopHandle.from_text(text)


def test_lists_of_offsets() -> None:
    starts = [start_offset_info("T", 1, 100), start_offset_info("%RETRY%G_T", 0, 5)]
    assert ";".join([*starts, start_offset_info("%RETRY%G+T", 0, 6)]) == VECTORS["startOffsetInfo"]
    assert message_offset_info("T", 1, [100, 101, 103]) == VECTORS["msgOffsetInfo"]
    counts = [order_count_info("T", 1, 2), order_count_info("T", 1, 2, 100)]
    assert ";".join(counts) == VECTORS["orderCountInfo"]


def test_names_of_topics() -> None:
    assert pop_retry_topic("T", "G") == "%RETRY%G_T"
    assert pop_retry_topic("T", "G", v2=True) == "%RETRY%G+T"
    assert [topic_type(name) for name in ("T", "%RETRY%G_T", "%RETRY%G+T", "%RETRY%G")] == [0, 1, 2, 1]
    assert [normal_topic(name, "G") for name in ("T", "%RETRY%G_T", "%RETRY%G+T")] == ["T"] * 3
    assert [real_topic("T", "G", kind) for kind in (0, 1, 2)] == ["T", "%RETRY%G_T", "%RETRY%G+T"]
    assert revive_topic("C") == "rmq_sys_REVIVE_LOG_C"
