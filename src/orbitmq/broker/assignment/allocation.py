"""Sharing the queues of a topic among the members of a group that ask the broker to do so.

Members of a group that pop may read each other's queues: a member whose neighbours are slow helps them out.
With a share of n each gets its own queues and those of the n members after it; without one, all queues of
every broker, named by queue id -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from orbitmq.protocol.bodies.queue import MessageQueue

ANY_QUEUE = -1

Strategy = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]


def average(queues: Sequence[MessageQueue], clients: Sequence[str], me: str) -> list[MessageQueue]:
    """AVG: each client a run of neighbouring queues; the first ones get one more where it is not even."""
    if me not in clients:
        return []
    share, rest = divmod(len(queues), len(clients))
    index = clients.index(me)
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def by_circle(queues: Sequence[MessageQueue], clients: Sequence[str], me: str) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queues are dealt out one by one."""
    return list(queues[clients.index(me) :: len(clients)]) if me in clients else []


STRATEGIES: dict[str, Strategy] = {"AVG": average, "AVG_BY_CIRCLE": by_circle}
"""The strategies by the name that clients give."""


def to_pull(
    strategy: Strategy, queues: Iterable[MessageQueue], clients: Iterable[str], me: str
) -> list[MessageQueue]:
    """The queues of one member of a group that pulls."""
    return strategy(sorted(queues), sorted(clients), me)


def to_pop(
    strategy: Strategy, queues: Iterable[MessageQueue], clients: Iterable[str], me: str, share: int
) -> list[MessageQueue]:
    """The queues of one member of a group that pops, and those it helps out with."""
    all_queues, members = sorted(queues), sorted(clients)
    if share <= 0 or share >= len(members) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in all_queues)
        return [MessageQueue(topic, broker, ANY_QUEUE) for topic, broker in brokers]
    if me not in members or not all_queues:
        return []
    index = members.index(me)
    if len(members) > len(all_queues):
        return [all_queues[index % len(all_queues)]]
    helped = [members[(index + i) % len(members)] for i in range(share + 1)]
    taken = (queue for member in helped for queue in strategy(all_queues, members, member))
    return list(dict.fromkeys(taken))
