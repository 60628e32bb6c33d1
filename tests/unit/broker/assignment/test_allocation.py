from __future__ import annotations

from orbitmq.broker.assignment.allocation import average, by_circle, to_pop, to_pull
from orbitmq.protocol.bodies.queue import MessageQueue


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "b", queue_id) for queue_id in range(count)]


def test_strategies_give_every_queue_to_one_member() -> None:
    clients = ["c1", "c2", "c3"]
    for strategy in (average, by_circle):
        for count in (1, 2, 3, 7, 8):
            shares = [strategy(queues(count), clients, client) for client in clients]
            assert sorted(queue for share in shares for queue in share) == queues(count)
        assert strategy(queues(3), clients, "stranger") == []


def test_members_that_pop_help_their_neighbours() -> None:
    clients = ["c1", "c2", "c3", "c4"]

    def numbers(me: str, share: int, count: int = 4) -> list[int]:
        return [queue.queue_id for queue in to_pop(average, queues(count), clients, me, share)]

    assert numbers("c1", 0) == numbers("c1", 3) == numbers("c1", -1) == [-1]
    assert numbers("c1", 1) == [0, 1]
    assert numbers("c4", 2) == [3, 0, 1]
    assert numbers("c4", 1, count=3) == [0]
    assert numbers("stranger", 1) == []


def test_a_strategy_gets_queues_and_members_in_order_whoever_came_first() -> None:
    mine = to_pull(average, reversed(queues(4)), ["c2", "c1"], "c1")
    assert mine == queues(2)


def test_all_queues_are_those_of_every_broker() -> None:
    both = [MessageQueue("T", "a", 0), MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]
    assert to_pop(average, both, ["c1", "c2"], "c1", 0) == [
        MessageQueue("T", "a", -1),
        MessageQueue("T", "b", -1),
    ]
