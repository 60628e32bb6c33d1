"""Sharing of a topic's queues among the members of a group. Pure: the same input gives the same answer on
every member, whichever language its client is written in, and that is all that keeps them from overlapping.

A strategy takes the queues sorted, the client ids sorted as strings, and the id of the client that asks.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from orbitmq.protocol.bodies.queue import MessageQueue

Strategy: TypeAlias = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]
"""Queues, client ids, own client id -> own queues. All members of a group have to use the same one."""

VIRTUAL_NODES = 10


def average(queues: Sequence[MessageQueue], clients: Sequence[str], me: str) -> list[MessageQueue]:
    """AVG: each client a run of neighbouring queues; the first ones get one more where it is not even."""
    share, rest = divmod(len(queues), len(clients))
    index = clients.index(me)
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def average_by_circle(queues: Sequence[MessageQueue], clients: Sequence[str], me: str) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queues are dealt out one by one."""
    return list(queues[clients.index(me) :: len(clients)])


def consistent_hash(queues: Sequence[MessageQueue], clients: Sequence[str], me: str) -> list[MessageQueue]:
    """CONSISTENT_HASH: a member that comes or goes moves few queues between the others."""
    ring = sorted((_ring_place(f"{client}-{i}"), client) for client in clients for i in range(VIRTUAL_NODES))
    places = [place for place, _ in ring]

    def owner(queue: MessageQueue) -> str:
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
        return ring[bisect_left(places, _ring_place(text)) % len(ring)][1]

    return [queue for queue in queues if owner(queue) == me]


def _ring_place(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def configured(mine: Iterable[MessageQueue]) -> Strategy:
    """CONFIG: this client takes these queues, whoever else is there."""
    chosen = list(mine)

    def strategy(queues: Sequence[MessageQueue], clients: Sequence[str], me: str) -> list[MessageQueue]:
        return chosen

    return strategy


def machine_room(rooms: Iterable[str]) -> Strategy:
    """MACHINE_ROOM: only queues of brokers called `room@name` whose room is one of these."""
    wanted = frozenset(rooms)

    def strategy(queues: Sequence[MessageQueue], clients: Sequence[str], me: str) -> list[MessageQueue]:
        inside = [queue for queue in queues if _room_of(queue) in wanted]
        share, rest = divmod(len(inside), len(clients))
        index = clients.index(me)
        mine = inside[index * share : (index + 1) * share]
        if index < rest:
            mine.append(inside[index + len(clients) * share])
        return mine

    return strategy


def _room_of(queue: MessageQueue) -> str | None:
    room, at, _ = queue.broker_name.partition("@")
    return room if at else None


def machine_room_nearby(
    inner: Strategy, room_of_queue: Callable[[MessageQueue], str], room_of_client: Callable[[str], str]
) -> Strategy:
    """MACHINE_ROOM_NEARBY: `inner` within each room; queues of rooms without clients go to all clients."""

    def strategy(queues: Sequence[MessageQueue], clients: Sequence[str], me: str) -> list[MessageQueue]:
        queues_by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_by_room.setdefault(room_of_queue(queue), []).append(queue)
        clients_by_room: dict[str, list[str]] = {}
        for client in clients:
            clients_by_room.setdefault(room_of_client(client), []).append(client)
        mine: list[MessageQueue] = []
        own_room = room_of_client(me)
        if own_room in queues_by_room:
            mine += inner(queues_by_room[own_room], clients_by_room[own_room], me)
        for room, orphans in queues_by_room.items():
            if room not in clients_by_room:
                mine += inner(orphans, clients, me)
        return mine

    return strategy


STRATEGIES: dict[str, Strategy] = {
    "AVG": average,
    "AVG_BY_CIRCLE": average_by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
"""The strategies that need nothing to be said, by the names that RocketMQ's clients give them."""


def share_of(
    strategy: Strategy, queues: Iterable[MessageQueue], clients: Iterable[str], me: str
) -> set[MessageQueue]:
    """The queues that `me` takes; none where the group does not list it yet."""
    members = sorted(set(clients))
    if me not in members:
        return set()
    return set(strategy(sorted(queues), members, me))
