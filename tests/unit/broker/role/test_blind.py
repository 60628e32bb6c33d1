"""Promises and refusals of a master that hears no controller."""

from __future__ import annotations

from orbitmq.broker import broker
from orbitmq.broker.role.blind import REFUSED_WHILE_BLIND, refused_while_blind
from orbitmq.broker.role.links import Links
from orbitmq.protocol.codes import ResponseCode
from tests.unit.broker.role.test_in_sync import link, promise


def test_a_blind_master_waits_for_all_who_may_be_elected_whatever_the_options_ask_for() -> None:
    links = Links()
    links.add(link(2, 700))
    links.add(link(3, 400))
    one = promise(1, 2, links=links)
    assert (one.waits, one.replicated, one.lacks_replicas) == (False, None, False)
    one._role.go_blind(1)
    assert (one.waits, one.replicated, one.lacks_replicas) == (True, 700, False)
    assert one.in_sync is not None
    one.in_sync.ask(frozenset({1, 2, 3}))
    assert one.replicated == 700, "what was confirmed stays confirmed"
    more = promise(1, 2, 3, links=links, in_sync_replicas=2)
    assert more.replicated == 700
    more._role.go_blind(1)
    assert more.replicated == 400


def test_a_blind_master_stores_nothing_while_a_member_is_not_connected() -> None:
    links = Links()
    links.add(link(2, 700))
    one = promise(1, 2, 3, links=links)
    assert not one.lacks_replicas
    one._role.go_blind(1)
    assert one.lacks_replicas
    assert one.lacks_member
    links.add(link(3, 1))
    assert not one.lacks_replicas
    one._role.see()
    links.all.clear()
    assert not one.lacks_member


def test_a_blind_master_alone_waits_for_nobody() -> None:
    one = promise(1)
    one._role.go_blind(1)
    assert (one.is_blind, one.waits, one.replicated, one.lacks_member) == (False, False, None, False)


def test_a_broker_that_loses_its_role_is_not_blind_any_more() -> None:
    one = promise(1, 2)
    one._role.go_blind(1)
    one._role.fence()
    assert one.blind_since is None


def test_the_refusal_says_since_when_and_what_to_do() -> None:
    refused = refused_while_blind(1_700_000_000_000, "locks are refused meanwhile")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "2023-11-14T22:13:20+00:00: locks are refused meanwhile" in refused.remark
    assert "Start the controllers" in refused.remark


def test_what_is_refused_are_requests_that_brokers_serve() -> None:
    assert set(REFUSED_WHILE_BLIND) <= set(broker.handlers.by_request)
