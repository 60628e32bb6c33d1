"""What a backup of a consensus store keeps, and what a group is after its restore."""

from __future__ import annotations

import json

import pytest

from orbitmq.controller.backup import BadBackup, backup_text, groups_in, restored_texts
from orbitmq.controller.group import BrokerGroup, Election, Replica

GROUP = BrokerGroup(
    cluster="c", name="g", replicas={1: Replica("a:1", "x"), 2: Replica("b:1", "y")}, next_id=3
).elected(Election(1, 7, 1, "a:1", "the first"), 10_000)
TEXTS = {
    "groups/g": GROUP.to_text(),
    "groups/new": BrokerGroup(cluster="c", name="new").to_text(),
    "options": "enableElectUncleanMaster=true\n",
    "members/leader": "me",
    "identity": "{}",
}


def test_groups_and_options_are_kept_and_a_restored_group_has_no_master_and_no_in_sync_set_that_counts() -> (
    None
):
    texts = restored_texts(backup_text(TEXTS, 5), 9)
    assert sorted(texts) == ["groups/g", "groups/new", "options"]
    assert groups_in(texts) == ["g", "new"]
    group = BrokerGroup.from_text(texts["groups/g"])
    assert (group.master_id, group.master_epoch, group.is_restored) == (None, 7, True)
    assert (group.elections[-1].ended_ms, group.replicas) == (9, GROUP.replicas)
    assert texts["groups/new"] == TEXTS["groups/new"], "it has no reign that could be behind"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no JSON", "is no backup"),
        ("[]", "is no backup"),
        (json.dumps({"format": 2, "keys": {}}), "has format 2; this release reads 1"),
        (json.dumps({"format": 1, "keys": {"members/leader": "me"}}), "a key members/leader"),
        (json.dumps({"format": 1, "keys": {"groups/g": "{}"}}), "unreadable group g"),
        (json.dumps({"format": 1, "keys": {"options": 3}}), "a key options"),
    ],
)
def test_another_file_is_refused_before_anything_is_written(text: str, says: str) -> None:
    with pytest.raises(BadBackup, match=says):
        restored_texts(text, 9)
