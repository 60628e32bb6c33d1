"""A real broker for tests: name server and broker on free ports over a temporary folder, soon up.


    with LocalBroker() as broker:
        producer = Producer(group="g", namesrv=broker.namesrv)

With pytest, the fixture `rocketmq` (see `orbitmq.testing.plugin`) gives a started one that all tests share,
and `rocketmq_isolated` the same with topics and groups that no other test has.
With `rocketmq_redelivering` topics deliver every message three times, out of order and concurrently.
`MemoryStore` is the store in memory for handlers decorated with `orbitmq.idempotence.once`.
`LocalCluster` is a cluster of processes, whose nodes can be killed; `rocketmq_cluster` gives one with a
master and its slave.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.idempotence.memory import MemoryStore
    from orbitmq.testing.local_broker import Isolated, LocalBroker, StartFailed
    from orbitmq.testing.local_cluster import LocalCluster
    from orbitmq.testing.redelivery import Redelivering

__all__ = ["Isolated", "LocalBroker", "LocalCluster", "MemoryStore", "Redelivering", "StartFailed"]

_MODULES = {
    "Isolated": "local_broker",
    "LocalBroker": "local_broker",
    "LocalCluster": "local_cluster",
    "Redelivering": "redelivery",
    "StartFailed": "local_broker",
}


def __getattr__(name: str) -> Any:
    # Every pytest run imports this package for its plugin: the broker comes with the first use.
    if name == "MemoryStore":
        from orbitmq.idempotence.memory import MemoryStore

        return MemoryStore
    if name in __all__:
        if sys.platform != "linux":
            raise ImportError("orbitmq.testing starts brokers, which run on Linux only")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
