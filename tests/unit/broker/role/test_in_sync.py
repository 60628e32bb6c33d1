"""The in-sync set of a master in controller mode, and its lease."""

from __future__ import annotations

import pytest

from orbitmq.broker.ha.epoch_links import EpochLink
from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.epochs import Epochs
from orbitmq.broker.role.in_sync import InSyncSet, Lease
from orbitmq.broker.role.links import Links
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.role.state import RoleState
from orbitmq.protocol.epoch_replication import Epoch, encode_handshake, encode_report
from tests.unit.broker.role.test_promise import Log

EPOCHS = Epochs([Epoch(1, 0)])
LAG_MS = 15_000


def link(broker_id: int, acknowledged: int, *, now: int = 0) -> EpochLink:
    made = EpochLink(f"10.0.0.{broker_id}:1", now, EPOCHS)
    made.heard(encode_handshake(broker_id), 0, 1000, now)
    made.heard(encode_report(acknowledged), 0, 1000, now)
    return made


def in_sync(*ids: int, epoch: int = 1, confirmed: int = 0) -> InSyncSet:
    made = InSyncSet()
    made.begin(1, ids, epoch, confirmed, 1)
    return made


def test_a_master_alone_waits_for_nobody() -> None:
    assert in_sync(1).replicated([]) is None


def test_all_members_have_to_hold_a_message() -> None:
    assert in_sync(1, 2, 3).replicated([link(2, 700), link(3, 400)]) == 400


def test_others_than_members_do_not_count() -> None:
    assert in_sync(1, 2).replicated([link(2, 700), link(3, 100)]) == 700
    assert in_sync(1, 2).replicated([link(3, 900)]) == 0


def test_a_member_without_a_connection_holds_it_back_where_it_is() -> None:
    members = in_sync(1, 2, 3)
    assert members.replicated([link(2, 700), link(3, 500)]) == 500
    assert members.replicated([link(2, 900)]) == 500


def test_while_a_change_is_not_answered_members_of_both_sets_count() -> None:
    members = in_sync(1, 2, 3, epoch=7)
    members.asked = frozenset({1, 2, 4})
    assert members.others == {2, 3, 4}
    members.decided({1, 2}, 7)
    assert members.others == {2, 3, 4}, "an answer to an earlier question says nothing of this one"
    members.decided({1, 2, 4}, 8)
    assert members.others == {2, 4}


def test_members_of_a_change_count_until_another_one_is_counted() -> None:
    members = in_sync(1, 2, epoch=7)
    members.ask(frozenset({1, 2, 3}))
    for epoch in (6, 7):
        members.decided({1, 2}, epoch)
        assert members.others == {2, 3}, "the request may still be carried out"
    members.ask(frozenset({1, 4}))
    assert members.others == {2, 3, 4}
    members.begin(1, {1, 2}, 7, 0, mastership=1)
    assert members.others == {2, 3, 4}, "the same mastership goes on"
    members.decided({1, 2}, 8)
    assert members.others == {2}
    members.ask(frozenset({1, 3}))
    members.begin(1, {1, 2}, 8, 0, mastership=2)
    assert members.others == {2}, "requests of another mastership are refused"


def test_a_change_is_counted_though_the_set_stays_as_it_is_or_in_all_that_was_asked_for() -> None:
    members = in_sync(1)
    members.ask(frozenset({1, 2}))
    assert members.wanted([], 0, 0, LAG_MS, 0) == {1}
    members.may_renew = False
    assert members.wanted([], 0, 0, LAG_MS, 0) == {1, 2}


def test_a_change_that_was_made_without_an_answer_counts() -> None:
    members = in_sync(1, epoch=7)
    members.asked = frozenset({1, 2})
    members.decided({1, 2}, 8)
    assert (members.others, members.epoch, members.asked) == ({2}, 8, None)


def test_a_member_leaves_when_its_connection_ends_or_it_is_behind_for_long() -> None:
    members = in_sync(1, 2, 3)
    level, behind = link(2, 1000, now=20_000), link(3, 10)
    assert members.wanted([level, behind], 0, 0, LAG_MS, 10_000) is None
    assert members.wanted([level, behind], 0, 0, LAG_MS, 20_000) == {1, 2}
    assert members.wanted([behind], 0, 0, LAG_MS, 10_000) == {1, 3}


@pytest.mark.parametrize(
    ("acknowledged", "confirmed", "epoch_start", "joins"),
    [(500, 500, 100, True), (499, 500, 100, False), (150, 100, 200, False), (200, 100, 200, True)],
)
def test_a_slave_joins_that_holds_what_is_confirmed_and_a_part_of_the_epoch(
    acknowledged: int, confirmed: int, epoch_start: int, joins: bool
) -> None:
    wanted = in_sync(1).wanted([link(2, acknowledged)], confirmed, epoch_start, LAG_MS, 0)
    assert wanted == (frozenset({1, 2}) if joins else None)


def test_a_slave_is_level_when_it_has_what_the_log_had() -> None:
    slave = link(2, 500)
    slave.note_log_end(500, 1_000)
    slave.note_log_end(800, 2_000)
    assert slave.caught_up_ms == 1_000
    slave.note_log_end(900, 3_000)
    assert slave.caught_up_ms == 1_000, "it lacks what came in the second second"


def promise(*ids: int, links: Links | None = None, **values: object) -> Promise:
    given = {"controller_addr": "127.0.0.1:1", "broker_role": "SYNC_MASTER", **values}
    settings = BrokerSettings(enable_controller_mode=True, **given)  # type: ignore[arg-type]
    made = Promise(settings, Log(), links or Links(), RoleState(settings))
    assert made.in_sync is not None
    made.in_sync.begin(1, ids, 1, 0, 1)
    return made


def test_with_all_ack_a_message_waits_for_the_in_sync_set() -> None:
    links = Links()
    links.add(link(2, 300))
    one = promise(1, 2, links=links, all_ack_in_sync_state_set=True)
    assert (one.waits, one.replicated) == (True, 300)
    assert (promise(1, all_ack_in_sync_state_set=True).waits) is False


def test_without_all_ack_as_many_brokers_count_as_asked_for() -> None:
    links = Links()
    links.add(link(2, 300))
    assert promise(1, 2, links=links, in_sync_replicas=2).replicated == 300
    assert promise(1, 2, links=links).replicated is None


def test_fewer_members_than_the_least_take_nothing() -> None:
    assert promise(1, min_in_sync_replicas=2).lacks_replicas
    assert promise(1, min_in_sync_replicas=2).waits
    assert not promise(1, 2, min_in_sync_replicas=2).lacks_replicas


def test_a_slaves_readers_see_what_its_master_has_confirmed() -> None:
    one = promise(1, broker_role="SLAVE")
    one._role.note_confirmed(77)
    one._role.note_confirmed(50)
    assert one.replicated == 77


def test_a_lease_runs_from_when_the_heartbeat_was_sent_and_ends_before_the_controller_gives_up() -> None:
    lease = Lease.of(1_000, 10_000)
    assert lease.holds(9_999)
    assert not lease.holds(10_000)
    assert not Lease().holds(1)
