from dataclasses import dataclass

import pytest

from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import SYSTEM_GROUPS


@dataclass
class Settings:
    auto_create_subscription_group: bool = True


def table(auto_create: bool = True) -> GroupTable:
    return GroupTable(Settings(auto_create), DirtyTables(), now=1)


def test_a_group_that_a_client_names_is_made_with_defaults() -> None:
    groups = table()
    assert groups.get("G") is None
    assert groups.find("G", now=5) == SubscriptionGroupConfig("G")
    assert groups.version.counter == 1
    assert groups.find("G", now=6) is groups.get("G")
    assert groups.version.counter == 1


def test_no_group_is_made_of_a_bad_name_or_where_that_is_off() -> None:
    assert table().find("G G", now=1) is None
    assert table().find("g" * 121, now=1) is None
    assert table(auto_create=False).find("G", now=1) is None
    assert table(auto_create=False).find("CID_RMQ_SYS_REVIVE_GROUP", now=1) is not None


def test_an_update_replaces_all_but_the_attributes() -> None:
    groups = table()
    groups.update(
        SubscriptionGroupConfig("G", retry_max_times=3, attributes={"+priority.factor": "7"}), now=1
    )
    groups.update(SubscriptionGroupConfig("G", consume_message_orderly=True), now=2)
    assert groups.get("G") == SubscriptionGroupConfig(
        "G", consume_message_orderly=True, attributes={"priority.factor": "7"}
    )
    assert groups.version.counter == 2


def test_a_wrong_attribute_changes_nothing() -> None:
    groups = table()
    with pytest.raises(Refused):
        groups.update(SubscriptionGroupConfig("G", attributes={"+priority.factor": "101"}), now=1)
    assert groups.get("G") is None


def test_a_group_may_be_kept_from_reading_a_topic() -> None:
    groups = table()
    assert not groups.is_forbidden("G", "T")
    groups.set_readable("G", "T", False, now=1)
    groups.set_readable("G", "U", False, now=1)
    assert groups.is_forbidden("G", "T")
    groups.set_readable("G", "T", True, now=2)
    assert not groups.is_forbidden("G", "T")
    assert groups.is_forbidden("G", "U")
    groups.set_readable("G", "U", True, now=2)
    assert groups.forbidden == {}


def test_deleting_takes_the_forbidden_rows_along() -> None:
    groups = table()
    groups.find("G", now=1)
    groups.set_readable("G", "T", False, now=1)
    assert groups.delete("G", now=2)
    assert not groups.is_forbidden("G", "T")
    assert not groups.delete("G", now=3)


def test_a_new_broker_has_the_groups_of_the_system() -> None:
    groups = table()
    groups.add_system_groups(now=1)
    assert set(groups.by_name) == set(SYSTEM_GROUPS)


def test_groups_are_the_same_after_a_restart() -> None:
    groups = table()
    groups.update(SubscriptionGroupConfig("G", retry_max_times=3), now=1)
    groups.set_readable("G", "T", False, now=2)
    again = table()
    again.load_text(groups.snapshot()())
    assert (again.by_name, again.forbidden, again.version) == (
        groups.by_name,
        groups.forbidden,
        groups.version,
    )
