"""Stretches of logical queues whose messages are gone: readers need not be sent there any more."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem


class Oldest(NamedTuple):
    """The first stretch of a queue that this broker leads, where others follow it."""

    topic: str
    global_id: int
    item: LogicQueueMappingItem


def oldest_stretches(static: StaticMappings) -> list[Oldest]:
    """The stretches that may go once their physical queues hold nothing. The next one has a place already:
    readers would find none without it.
    """
    return [
        Oldest(mapping.topic, global_id, items[0])
        for mapping in static.by_topic.values()
        for global_id, items in mapping.hosted_queues.items()
        if len(items) > 1 and items[1].is_placed and mapping.leads(global_id)
    ]


def drop(static: StaticMappings, oldest: Oldest, now: int) -> None:
    """Forgets a stretch, if it is still the first one of its queue."""
    if oldest in oldest_stretches(static):
        mapping = static.by_topic[oldest.topic]
        rest = {oldest.global_id: mapping.hosted_queues[oldest.global_id][1:]}
        static.put(replace(mapping, hosted_queues=mapping.hosted_queues | rest), now)
