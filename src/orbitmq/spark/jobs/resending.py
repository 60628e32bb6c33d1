"""Messages that were stored once, sent again once: what `replay` and `dlq` have in common.

A message is known by where it was read, `topic|broker|queue|offset`. That is the key under which the sink
sends it, so a job that is begun again sends only what the brokers do not hold yet, in whatever order and
partitions Spark reads this time.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq.spark import functions as sf
from orbitmq.spark.jobs.job import JobFailed, JobSetup

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE = ("topic", "brokerName", "queueId", "queueOffset")
"""The columns that say which message it is."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Counts of a write. Through Spark Connect the counts stay on the server: -1 then."""

    messages: int = 0
    already_there: int = 0
    retries: int = 0
    body_bytes: int = 0
    topics: dict[str, int] = field(default_factory=dict)


UNKNOWN = Sent(-1, -1, -1, -1)


def place_key() -> Column:
    """The key of a row of the source or of a lake."""
    return sf.concat_ws("|", *PLACE)


def matching(frame: DataFrame, where: str | None) -> DataFrame:
    """The rows for which an SQL expression over the columns holds; `text` in it is the body as text.

    Raises JobFailed for an expression that is none.
    """
    from pyspark.errors import AnalysisException, ParseException

    if where is None:
        return frame
    try:
        with_text = frame.withColumn("text", sf.expr("try_validate_utf8(cast(body as string))"))
        chosen = with_text.filter(sf.expr(where)).drop("text")
        _ = chosen.schema
    except (AnalysisException, ParseException) as error:
        first = str(error).strip().splitlines()[0]
        raise JobFailed(f"--where {where}: {first}") from None
    return chosen


def own_properties() -> Column:
    """The map without what clients and brokers have put there."""
    from orbitmq.protocol.names import RESERVED_PROPERTIES, WRITE_PROPERTY

    system = sorted({*RESERVED_PROPERTIES, WRITE_PROPERTY})
    return sf.map_filter("properties", lambda name, _: ~name.isin(system))


def sharding_key() -> Column:
    """The sharding key of a message, if its sender set one."""
    from orbitmq.protocol.names import SHARDING_KEY

    return sf.col("properties")[SHARDING_KEY]


def send(
    frame: DataFrame,
    setup: JobSetup,
    *,
    write_id: str,
    first_run: bool,
    rate: float | None = None,
    more: dict[str, str] | None = None,
) -> Sent:
    """Sends the rows, columns of the sink with `onceKey`, at `rate` messages per second over all tasks.

    Raises what Spark raises for a write that fails; the next call with the same `write_id` carries it on.
    """
    given = setup.source_options | {"idempotent": "true", "writeId": write_id} | (more or {})
    if first_run:
        given["firstRun"] = "true"
    if rate is not None:
        tasks = max(1, min(_cores(frame), int(rate)))
        frame = frame.coalesce(tasks)
        given["maxMessagesPerSecondPerTask"] = repr(rate / tasks)
    with tempfile.TemporaryDirectory(prefix="orbitmq-") as folder:
        counts_file = Path(folder) / "counts.jsonl"
        if setup.remote is None:
            given["countsFile"] = str(counts_file)
        frame.write.format("orbitmq").options(**given).mode("append").save()
        return _counts(counts_file)


def _counts(path: Path) -> Sent:
    try:
        counts: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])
    except FileNotFoundError:
        return UNKNOWN
    return Sent(
        counts["messages"],
        counts["already_there"],
        counts["retries"],
        counts["body_bytes"],
        {topic: row["messages"] for topic, row in counts["topics"].items()},
    )


def _cores(frame: DataFrame) -> int:
    """Number of tasks that run at a time; 1 if Spark does not say it (Spark Connect)."""
    try:
        return int(frame.sparkSession.sparkContext.defaultParallelism)
    except Exception:
        return 1
