from __future__ import annotations

from orbitmq.controller.live import MAX_HEARD, LiveBroker, LiveBrokers

A1, A2, B1 = ("a", 1), ("a", 2), ("b", 1)


def sign(address: str = "h:1", connection: int = 1, at: int = 0) -> LiveBroker:
    return LiveBroker(address, connection, at, 10_000)


def test_a_broker_lives_until_its_own_time_limit_is_over() -> None:
    live = LiveBrokers()
    live.heartbeat(A1, sign(at=0))
    assert live.expire(10_000) == []
    assert live.expire(10_001) == [A1]
    assert live.get(A1) is None
    assert len(live) == 0


def test_the_last_heartbeat_of_a_broker_that_is_gone_is_kept_until_it_comes_back() -> None:
    live = LiveBrokers()
    live.lead(0, lambda member, broker: True)
    first = sign(at=5)
    live.heartbeat(A1, first)
    live.expire(20_000)
    assert live.last(A1) is first
    again = sign(at=30_000)
    live.heartbeat(A1, again)
    assert live.last(A1) is again


def test_a_connection_that_ends_takes_its_brokers_with_it() -> None:
    live = LiveBrokers()
    live.heartbeat(A1, sign("h:1", connection=7))
    live.heartbeat(A2, sign("h:2", connection=8))
    live.heartbeat(B1, sign("h:3", connection=7))
    assert live.address_of(8) == "h:2"
    assert sorted(live.connection_closed(7)) == [A1, B1]
    assert live.of_group("a") == {2: live.get(A2)}
    assert live.address_of(7) is None


def test_a_new_leader_counts_only_the_brokers_that_it_has_seen_itself() -> None:
    live = LiveBrokers()
    live.lead(0, lambda member, broker: True)
    live.heartbeat(A1, sign())
    live.connection_lost(A1)
    assert live.last(A1) is not None
    live.lead(1, lambda member, broker: True)
    assert live.last(A1) is None


def test_a_new_leader_counts_the_silence_of_a_broker_from_the_beginning_of_its_reign() -> None:
    """The leader before may have answered a heartbeat that did not come here."""
    live = LiveBrokers()
    live.heartbeat(A1, sign(at=0))
    live.lead(9_000, lambda member, broker: True)
    assert not live.was_heard(A1)
    assert live.expire(19_000) == []
    assert live.expire(19_001) == [A1]


def test_a_new_leader_forgets_who_is_no_member() -> None:
    live = LiveBrokers()
    live.heartbeat(A1, sign())
    live.heartbeat(B1, sign())
    live.lead(0, lambda member, broker: member == A1)
    assert (live.get(A1) is None, live.get(B1)) == (False, None)


def test_a_controller_that_does_not_lead_notes_so_many_brokers_and_keeps_none_that_is_gone() -> None:
    live = LiveBrokers()
    for number in range(MAX_HEARD + 1):
        live.heartbeat(("stranger", number), sign(at=0))
    assert len(live) == MAX_HEARD
    live.heartbeat(("stranger", 0), sign(at=5_000))
    assert len(live.expire(10_001)) == MAX_HEARD - 1
    assert live.last(("stranger", 1)) is None


def test_a_member_that_is_removed_leaves_no_trace() -> None:
    live = LiveBrokers()
    live.heartbeat(A1, sign())
    live.forget(A1)
    assert live.last(A1) is None
