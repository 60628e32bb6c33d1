"""A real broker for tests: name server and broker on free ports over a temporary folder, soon up.


    with LocalBroker() as broker:
        producer = Producer(group="g", namesrv=broker.namesrv)

With pytest, the fixture `rocketmq` (see `orbitmq.testing.plugin`) gives a started one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.testing.local_broker import LocalBroker, StartFailed

__all__ = ["LocalBroker", "StartFailed"]


def __getattr__(name: str) -> Any:
    # Every pytest run imports this package for its plugin: the broker comes with the first use.
    if name in __all__:
        from orbitmq.testing import local_broker

        return getattr(local_broker, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
