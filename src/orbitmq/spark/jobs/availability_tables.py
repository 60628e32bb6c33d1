"""Availability of brokers and topics, computed from observations of clients.

An **observation** is one thing that a client tried at a time, and whether it worked. By broker, topic and
operation, in the order of time:

- An observation holds until the next one. If that comes after more than `max_gap_s`, nobody was
  looking: the time in between counts neither as up nor as down, and what follows begins anew.
- **Observed** is the sum of these stretches, **down** the sum of those that began with a failure.
- An **outage** is a run of failures without a success and without such a gap in between. It begins with the
  first of them and ends with the success that follows; one that no success has ended is `ongoing`, and
  counts as far as it was seen.
- **Time availability** A = 1 - down / observed; **nines** = -log10(1 - A), null where there was no failure.
- **MTBF** (mean time between failures) = (observed - down) / outages; **MTTR** (mean time to restore) =
  down / outages; both null without an outage. So A = MTBF / (MTBF + MTTR).
- **Request availability** = successes / observations, which needs no notion of time. `requestNinesAtLeast`
  is what the number of observations proves with 95 % confidence (Wilson's bound): a hundred successes and no
  failure prove 1.58 nines, not infinitely many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OBSERVATION_DDL = (
    "at timestamp, broker string, address string, topic string, operation string, ok boolean, "
    "latencyMs double, error string"
)
BY = ("broker", "topic", "operation")
CONFIDENCE = 1.6448536269514722
"""Of 95 %, on one side, in standard deviations."""


def from_trace(records: DataFrame) -> DataFrame:
    """Sends that clients have traced, as observations of the brokers they went to.

    A client traces answered sends only: what was not answered at all does not show here.
    """
    return records.where("kind = 'Pub' and storeHost is not null").select(
        sf.col("at"),
        sf.col("storeHost").alias("broker"),
        sf.col("storeHost").alias("address"),
        sf.col("topic"),
        sf.lit("send").alias("operation"),
        sf.coalesce("success", sf.lit(False)).alias("ok"),
        sf.col("costMs").cast("double").alias("latencyMs"),
        sf.when(~sf.col("success"), "answered with another status than SEND_OK").alias("error"),
    )


def bucketed(observations: DataFrame, seconds: int, ok_share: float = 0.5) -> DataFrame:
    """One observation per stretch of so many seconds, of many clients at once.

    A stretch is good where more than `ok_share` of its observations are; at 0, where any is.
    """
    start = sf.timestamp_seconds(sf.floor(sf.unix_seconds("at") / seconds) * seconds)
    share = sf.avg(sf.col("ok").cast("int"))
    return observations.groupBy(start.alias("at"), "broker", "topic", "operation").agg(
        sf.max_by("address", "at").alias("address"),
        (share > ok_share).alias("ok"),
        sf.avg("latencyMs").alias("latencyMs"),
        sf.min_by("error", sf.when(~sf.col("ok"), sf.col("at"))).alias("error"),
    ).select("at", "broker", "address", "topic", "operation", "ok", "latencyMs", "error")  # fmt: skip


def outages(observations: DataFrame, max_gap_s: float) -> DataFrame:
    """Outages by their beginning, with their end, seconds, failures and first error."""
    found = _stretches(observations, max_gap_s).where("not ok")
    return (
        found.groupBy(*BY, "outage")
        .agg(
            sf.min("at").alias("began"),
            sf.max(sf.when(sf.col("restored"), sf.col("nextAt"))).alias("ended"),
            sf.sum("seconds").alias("seconds"),
            sf.count("*").alias("failures"),
            sf.min_by("error", "at").alias("error"),
        )
        .withColumn("ongoing", sf.col("ended").isNull())
        .drop("outage")
        .orderBy("began", *BY)
    )


def availability(observations: DataFrame, max_gap_s: float) -> DataFrame:
    """One row per broker, topic and operation, with the figures that the module defines."""
    down = sf.when(~sf.col("ok"), sf.col("seconds")).otherwise(0.0)
    sums = (
        _stretches(observations, max_gap_s)
        .groupBy(*BY)
        .agg(
            sf.min("at").alias("since"),
            sf.max("at").alias("until"),
            sf.count("*").alias("observations"),
            sf.sum(sf.when(sf.col("ok"), 0).otherwise(1)).alias("failures"),
            sf.sum("seconds").alias("observedSeconds"),
            sf.sum(down).alias("downSeconds"),
            sf.count_distinct(sf.when(~sf.col("ok"), sf.col("outage"))).alias("outages"),
            sf.max_by("ok", "at").alias("up"),
            sf.percentile_approx(sf.when(sf.col("ok"), sf.col("latencyMs")), 0.99).alias("latencyP99Ms"),
        )
    )
    observed, lost, count = sf.col("observedSeconds"), sf.col("downSeconds"), sf.col("outages")
    share = 1 - sf.try_divide(lost, observed)
    requests = 1 - sf.col("failures") / sf.col("observations")
    return sums.select(
        *BY, "since", "until", "up", "observations", "failures",
        requests.alias("requestAvailability"),
        _nines(requests).alias("requestNines"),
        (-sf.log10(_most_failing(sf.col("failures"), sf.col("observations")))).alias("requestNinesAtLeast"),
        "observedSeconds", "downSeconds",
        share.alias("timeAvailability"),
        _nines(share).alias("timeNines"),
        "outages",
        sf.try_divide(observed - lost, count).alias("mtbfSeconds"),
        sf.try_divide(lost, count).alias("mttrSeconds"),
        "latencyP99Ms",
    ).orderBy(*BY)  # fmt: skip


def _stretches(observations: DataFrame, max_gap_s: float) -> DataFrame:
    """Observations with `seconds` until the next, whether that `restored` it, and the number of `outage`."""
    order = Window.partitionBy(*BY).orderBy("at", sf.col("ok").cast("int"))
    next_at = sf.lead("at").over(order)
    to_next = (sf.unix_micros(next_at) - sf.unix_micros("at")) / 1e6
    seen = observations.select(
        "*",
        next_at.alias("nextAt"),
        sf.when(to_next <= max_gap_s, to_next).alias("toNext"),
        sf.lead("ok").over(order).alias("nextOk"),
        sf.lag("ok").over(order).alias("beforeOk"),
        ((sf.unix_micros("at") - sf.unix_micros(sf.lag("at").over(order))) / 1e6).alias("fromBefore"),
    )
    begins = ~sf.col("ok") & (
        sf.col("beforeOk").isNull() | sf.col("beforeOk") | (sf.col("fromBefore") > max_gap_s)
    )
    return seen.select(
        *observations.columns,
        "nextAt",
        sf.coalesce("toNext", sf.lit(0.0)).alias("seconds"),
        (sf.col("toNext").isNotNull() & sf.col("nextOk")).alias("restored"),
        sf.sum(begins.cast("int")).over(order).alias("outage"),
    )


def _nines(availability: Column) -> Column:
    return sf.when(availability < 1, -sf.log10(1 - availability))


def _most_failing(failures: Column, count: Column) -> Column:
    """Wilson's upper bound for the share that fails."""
    z2 = CONFIDENCE**2
    share = failures / count
    middle = share + z2 / (2 * count)
    spread = CONFIDENCE * sf.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return (middle + spread) / (1 + z2 / count)
