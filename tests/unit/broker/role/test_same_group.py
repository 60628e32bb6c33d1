"""What a slave asks of a master before it follows: the same group, the same guards, the same log."""

from __future__ import annotations

import pytest

from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.same_group import (
    require_overlap,
    require_same_group,
    require_same_guards,
    require_same_record,
)
from orbitmq.protocol.replication import BadStream

SETTINGS = BrokerSettings(broker_cluster_name="C", broker_name="a")
SAID = {"brokerClusterName": "C", "brokerName": "a", "mappedFileSizeCommitLog": "1024"}


@pytest.mark.parametrize(
    ("name", "value"), [("brokerClusterName", "D"), ("brokerName", "b"), ("mappedFileSizeCommitLog", "2048")]
)
def test_a_master_of_another_group_or_with_other_segments_is_not_followed(name: str, value: str) -> None:
    require_same_group(SETTINGS, 1024, "m:1", SAID)
    require_same_group(SETTINGS, 1024, "m:1", {name: "\u00fc"})  # brokers differ in how they write it
    with pytest.raises(BadStream, match=f"{name} is {value} at the master m:1"):
        require_same_group(SETTINGS, 1024, "m:1", {**SAID, name: value})


@pytest.mark.parametrize("name", ["haTlsEnable", "haAuthenticationEnable"])
@pytest.mark.parametrize("said", ["true", "false", None])
def test_a_port_that_is_guarded_otherwise_is_not_followed(name: str, said: str | None) -> None:
    given = {} if said is None else {name: said}
    if said != "true":
        require_same_guards(SETTINGS, "m:1", given)
        return
    with pytest.raises(BadStream, match=f"{name} is true at the master m:1, and false here"):
        require_same_guards(SETTINGS, "m:1", given)


def test_a_log_that_went_another_way_is_not_followed_and_nothing_is_cut() -> None:
    require_same_record(b"one", b"one", 7, "m:1")
    for theirs in (b"two", b""):
        with pytest.raises(BadStream, match="Nothing is cut off here"):
            require_same_record(b"one", theirs, 7, "m:1")


def test_a_log_that_ends_before_its_masters_begins_starts_anew() -> None:
    require_overlap(100, 100, "m:1")
    with pytest.raises(BadStream, match="ends at 99, and that of the master m:1 begins at 100"):
        require_overlap(99, 100, "m:1")
