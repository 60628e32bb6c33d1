"""Sharing of queues, against what Java's strategies answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.core.rebalance import STRATEGIES, configured, machine_room, machine_room_nearby, share_of
from orbitmq.protocol.bodies.queue import MessageQueue

CASES = json.loads((Path(__file__).parents[3] / "wire" / "vectors" / "rebalance.json").read_text())["cases"]


def queue(topic: str, text: str) -> MessageQueue:
    broker, _, queue_id = text.rpartition(":")
    return MessageQueue(topic, broker, int(queue_id))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case['queues'])}-{len(case['clients'])}")
def test_shares_are_those_of_java(case: dict[str, object]) -> None:
    topic, clients = case["topic"], case["clients"]
    queues = [queue(topic, text) for text in case["queues"]]
    for name, shares in case["result_per_client"].items():
        if name not in STRATEGIES:
            continue
        for client, expected in zip(clients, shares, strict=True):
            ours = STRATEGIES[name](sorted(queues), sorted(clients), client)
            assert sorted(ours) == sorted(queue(topic, text) for text in expected), (name, client)


def test_every_case_names_strategies_that_are_here() -> None:
    named = {name for case in CASES for name in case["result_per_client"]}
    assert set(STRATEGIES) <= named


@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 40)), max_size=30),
    st.sets(st.text("abc123@#", min_size=1, max_size=6), min_size=1, max_size=12),
)
def test_every_queue_has_exactly_one_owner(
    name: str, queues: set[tuple[str, int]], clients: set[str]
) -> None:
    all_queues = {MessageQueue("T", broker, number) for broker, number in queues}
    shares = [share_of(STRATEGIES[name], all_queues, clients, client) for client in clients]
    assert sum(map(len, shares)) == len(all_queues)
    assert set().union(*shares) == all_queues


def test_a_client_that_is_not_listed_takes_nothing() -> None:
    assert share_of(STRATEGIES["AVG"], [MessageQueue("T", "a", 0)], ["other"], "me") == set()


def test_configured_takes_what_it_was_told() -> None:
    mine = MessageQueue("T", "a", 3)
    assert share_of(configured([mine]), [MessageQueue("T", "a", 0)], ["me", "you"], "me") == {mine}


def test_machine_room_takes_queues_of_its_rooms_only() -> None:
    queues = [MessageQueue("T", "r1@a", n) for n in range(5)] + [
        MessageQueue("T", "r2@b", n) for n in range(5)
    ]
    queues.append(MessageQueue("T", "plain", 0))
    one, two = (machine_room(["r1"])(sorted(queues), ["x", "y"], me) for me in "xy")
    assert [q.queue_id for q in one] == [0, 1, 4]
    assert [q.queue_id for q in two] == [2, 3]


def test_machine_room_nearby_leaves_rooms_without_clients_to_all() -> None:
    strategy = machine_room_nearby(
        STRATEGIES["AVG"], lambda queue: queue.broker_name, lambda client: client.partition("-")[0]
    )
    queues = sorted(MessageQueue("T", room, n) for room in ("r1", "r2", "r3") for n in range(2))
    clients = ["r1-x", "r2-y"]
    shares = {client: strategy(queues, clients, client) for client in clients}
    assert [(q.broker_name, q.queue_id) for q in shares["r1-x"]] == [("r1", 0), ("r1", 1), ("r3", 0)]
    assert [(q.broker_name, q.queue_id) for q in shares["r2-y"]] == [("r2", 0), ("r2", 1), ("r3", 1)]
