"""Streams on a machine that is busy with other tests.

Spark gives the process that plans a stream ten seconds to start, and has no setting for it. A query that
failed so has read nothing yet and is started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

TRIES = 20
PATIENCE_S = 300


def planned(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that is through its first micro-batch, or has ended, for whatever reason but that one."""
    query = start()
    for _ in range(TRIES):
        deadline = time.monotonic() + PATIENCE_S
        while query.isActive and query.lastProgress is None and time.monotonic() < deadline:
            time.sleep(0.1)
        failure = query.exception()
        if failure is None or "failed to connect back" not in str(failure):
            break
        query = start()
    return query
