"""Starting streaming queries on a machine that is busy.

Spark gives the Python process that plans a stream ten seconds of time to start, and has no setting for it. A
query that failed so has read nothing, and can be started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

TOO_BUSY = "Python worker failed to connect back"
"""Spark's error if a Python process takes longer to start than Spark waits."""
TRIES = 5
PAUSE_S = 0.1


class Query(Protocol):
    """The part of `StreamingQuery` that is needed here, with Spark Connect or without."""

    @property
    def isActive(self) -> bool: ...  # noqa: N802 -- Spark's names

    @property
    def lastProgress(self) -> Mapping[str, Any] | Any | None: ...  # noqa: N802

    def exception(self) -> Exception | None: ...


Q = TypeVar("Q", bound=Query)


def started(start: Callable[[], Q], tries: int = TRIES) -> Q:
    """A query that is through its first trigger, or has ended; `start` is called again where Spark could not
    start its planner in time, up to `tries` times in all.

    `start` ends in `.start()`, and has a checkpoint: `started(lambda: frame.writeStream....start())`. A query
    that fails for any other reason, or once too often, is returned as it is: `awaitTermination()` raises.
    """
    query = start()
    for _ in range(tries - 1):
        while query.isActive and query.lastProgress is None:
            time.sleep(PAUSE_S)
        if TOO_BUSY not in str(query.exception() or ""):
            break
        query = start()
    return query
