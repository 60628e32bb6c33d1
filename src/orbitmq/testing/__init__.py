"""A real broker for tests: name server and broker on free ports over a temporary folder, soon up.


    with LocalBroker() as broker:
        producer = Producer(group="g", namesrv=broker.namesrv)

With pytest, the fixture `rocketmq` (see `orbitmq.testing.plugin`) gives a started one that all tests share,
and `rocketmq_isolated` the same with topics and groups that no other test has.
`LocalCluster` is a cluster of processes, whose nodes can be killed; `rocketmq_cluster` gives one with a
master and its slave.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.testing.local_broker import Isolated, LocalBroker, StartFailed
    from orbitmq.testing.local_cluster import LocalCluster

__all__ = ["Isolated", "LocalBroker", "LocalCluster", "StartFailed"]


def __getattr__(name: str) -> Any:
    # Every pytest run imports this package for its plugin: the broker comes with the first use.
    if name in __all__:
        if sys.platform != "linux":
            raise ImportError("orbitmq.testing starts brokers, which run on Linux only")
        from orbitmq.testing import local_broker, local_cluster

        return getattr(local_cluster if name == "LocalCluster" else local_broker, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
