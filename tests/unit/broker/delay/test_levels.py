"""Delay levels: their text, and where a delayed message waits."""

from __future__ import annotations

import pytest

from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import decode_properties, encode_properties
from tests.unit.broker.delay.test_delivered_messages import SCHEDULE, vector

NOW = 1_795_000_000_000


def test_levels_are_read_from_text() -> None:
    assert DelayLevels("1s 5m 2h 1d").delay_ms == {1: 1000, 2: 300_000, 3: 7_200_000, 4: 86_400_000}
    assert DelayLevels().highest == 18


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1s -5s", "1s 5 s"])
def test_levels_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"delay level|no delay"):
        DelayLevels(text)


def test_a_delayed_message_waits_in_the_queue_of_its_level() -> None:
    rerouted = DelayLevels().reroute("T", 3, {"DELAY": "2", "KEYS": "k"}, NOW)
    assert rerouted is not None
    assert (rerouted.topic, rerouted.queue_id, rerouted.tags_code) == (SCHEDULE, 1, NOW + 5000)
    assert rerouted.properties == {"DELAY": "2", "KEYS": "k", "REAL_TOPIC": "T", "REAL_QID": "3"}


def test_a_level_too_high_is_the_highest() -> None:
    rerouted = DelayLevels().reroute("T", 0, {"DELAY": "99"}, NOW)
    assert rerouted is not None
    assert (rerouted.queue_id, rerouted.properties["DELAY"]) == (17, "18")


@pytest.mark.parametrize("properties", [{}, {"DELAY": "0"}, {"DELAY": "-1"}, {"DELAY": "soon"}])
def test_messages_that_do_not_wait(properties: dict[str, str]) -> None:
    assert DelayLevels().reroute("T", 0, properties, NOW) is None


def test_a_message_is_rerouted_as_apache_does() -> None:
    want = decode_record(bytes.fromhex(vector(SCHEDULE)[0]["record_hex"]))
    sent = decode_properties(want.properties)
    del sent["REAL_TOPIC"], sent["REAL_QID"]
    rerouted = DelayLevels().reroute("DTest", 0, sent, want.store_timestamp)
    assert rerouted is not None
    assert (rerouted.topic, rerouted.queue_id) == (want.topic, want.queue_id)
    assert encode_properties(rerouted.properties) == want.properties
