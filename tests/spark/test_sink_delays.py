"""Delayed rows of data frames, on OrbitMQ and on Apache's broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.spark.conftest import Server, ends
from tests.spark.test_sink import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 100


def test_delayed_rows_come_at_their_time_and_others_at_once(
    spark: SparkSession, server: Server, topic: str
) -> None:
    from pyspark.sql import functions as sf

    now = int(time.time() * 1000)
    levels = spark.range(0, 4).select(
        sf.concat(sf.lit("level "), "id").alias("body"), sf.when(sf.col("id") > 1, 1).alias("delayLevel")
    )
    times = spark.range(0, 4).select(
        sf.concat(sf.lit("time "), "id").alias("body"),
        sf.when(sf.col("id") > 1, sf.timestamp_millis(sf.lit(now + 5000))).alias("deliverAt"),
    )
    write(levels, server, topic=topic)
    write(times, server, topic=topic)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ends(server, topic) < 8:
        assert time.monotonic() < deadline, f"{ends(server, topic)} of 8 came"
        time.sleep(0.1)
    rows = read(spark, server, topic)
    later = {row.body.decode(): row for row in rows if row.properties.keys() & {"DELAY", "TIMER_DELIVER_MS"}}
    assert sorted(later) == ["level 2", "level 3", "time 2", "time 3"]
    for name, row in later.items():
        stored_ms = row.storeTimestamp.timestamp() * 1000
        if name.startswith("level"):
            assert stored_ms >= row.bornTimestamp.timestamp() * 1000 + 900
        else:
            assert row.properties["TIMER_DELIVER_MS"] == str(now + 5000)
            assert stored_ms >= now + 3000, "brokers round to seconds"
