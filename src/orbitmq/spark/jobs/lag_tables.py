"""Lag of consumer groups, computed from samples of their offsets.

A sample is one group on one queue at a time (SAMPLE_DDL). Conclusions from it:

- **lag**: messages between the group and the end of the queue, of those that the broker still has. It counts
  what a filter of the group would pass over, as Apache's tools do.
- **waiting**: how long the oldest of them has been stored, in seconds: the sampler reads that message.
- **lost**: messages that retention removed before the group came to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLE_DDL = (
    "at timestamp, clientGroup string, topic string, broker string, queueId int, minOffset bigint, "
    "maxOffset bigint, consumerOffset bigint, pullOffset bigint, oldestAt timestamp"
)
GROUP = ("clientGroup", "topic")
QUEUE = (*GROUP, "broker", "queueId")


def by_queue(samples: DataFrame) -> DataFrame:
    """Samples with `lag`, `inFlight`, `lost` and `waitingSeconds` (null where it is unknown)."""
    reached = sf.greatest("consumerOffset", "minOffset")
    lag = sf.greatest(sf.col("maxOffset") - reached, sf.lit(0))
    since = (sf.unix_millis("at") - sf.unix_millis("oldestAt")) / 1000
    # The broker's clock may be ahead of the sampler's.
    waiting = sf.when(lag == 0, 0.0).when(sf.col("oldestAt").isNotNull(), sf.greatest(since, sf.lit(0.0)))
    return samples.select(
        "*",
        lag.alias("lag"),
        sf.greatest(sf.col("pullOffset") - sf.col("consumerOffset"), sf.lit(0)).alias("inFlight"),
        sf.greatest(sf.col("minOffset") - sf.col("consumerOffset"), sf.lit(0)).alias("lost"),
        waiting.alias("waitingSeconds"),
    )


def over_time(samples: DataFrame) -> DataFrame:
    """By time, group and topic: lag, inFlight, lost of all queues together, waitingSeconds of the worst."""
    return (
        by_queue(samples)
        .groupBy("at", *GROUP)
        .agg(
            sf.sum("lag").alias("lag"),
            sf.sum("inFlight").alias("inFlight"),
            sf.sum("lost").alias("lost"),
            sf.max("waitingSeconds").alias("waitingSeconds"),
        )
        .orderBy("at", *GROUP)
    )


def rates(samples: DataFrame, max_gap_s: float) -> DataFrame:
    """By group and topic: messages per second that came and that the group finished, while it was looked at.

    Between samples that are further apart nobody was looking. Offsets that were set back count for nothing.
    """
    order = Window.partitionBy(*QUEUE).orderBy("at")
    steps = samples.select(
        *GROUP,
        "at",
        ((sf.unix_micros("at") - sf.unix_micros(sf.lag("at").over(order))) / 1e6).alias("seconds"),
        sf.greatest(sf.col("maxOffset") - sf.lag("maxOffset").over(order), sf.lit(0)).alias("came"),
        sf.greatest(sf.col("consumerOffset") - sf.lag("consumerOffset").over(order), sf.lit(0)).alias("done"),
    ).where(sf.col("seconds") <= max_gap_s)
    # Queues are looked at together: a stretch of time counts once for all of them.
    stretches = steps.groupBy(*GROUP, "at").agg(
        sf.max("seconds").alias("seconds"), sf.sum("came").alias("came"), sf.sum("done").alias("done")
    )
    return stretches.groupBy(*GROUP).agg(
        sf.try_divide(sf.sum("came"), sf.sum("seconds")).alias("inPerSecond"),
        sf.try_divide(sf.sum("done"), sf.sum("seconds")).alias("outPerSecond"),
    )


def current_lag(samples: DataFrame, max_gap_s: float) -> DataFrame:
    """One row per group and topic, those that lag most first: lag now and at its worst, rates, and the end.

    `catchUpSeconds` is when the lag will be gone if both rates stay; null where it will not.
    """
    seen = over_time(samples)
    newest = Window.partitionBy(*GROUP).orderBy(sf.desc("at"))
    now = seen.withColumn("place", sf.row_number().over(newest)).where("place = 1").drop("place")
    most = seen.groupBy(*GROUP).agg(
        sf.max("lag").alias("lagMost"), sf.max("waitingSeconds").alias("waitingMostSeconds")
    )
    gain = sf.col("outPerSecond") - sf.col("inPerSecond")
    end = sf.when(sf.col("lag") == 0, 0.0).when(gain > 0, sf.col("lag") / gain)
    return (
        now.join(most, list(GROUP))
        .join(rates(samples, max_gap_s), list(GROUP), "left")
        .select(
            *GROUP, "at", "lag", "lagMost", "inFlight", "waitingSeconds", "waitingMostSeconds", "lost",
            "inPerSecond", "outPerSecond", end.alias("catchUpSeconds"),
        )
        .orderBy(sf.desc("lag"), *GROUP)
    )  # fmt: skip
