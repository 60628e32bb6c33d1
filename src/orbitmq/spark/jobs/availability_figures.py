"""Availability of brokers and topics, computed from observations of clients.

An **observation** is one thing that a client tried at a time, and whether it worked (a row of
`availability.LOG_SCHEMA`). By broker, topic and operation, in the order of time:

- An observation holds until the next one. If that comes after more than `max_gap_s`, nobody was
  looking: the time in between counts neither as up nor as down, and the rest starts over.
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

from orbitmq.admin.output import columns
from orbitmq.spark.jobs.figures import Row, Samples

Z2 = 1.6448536269514722**2
"""A confidence of 95 %, on one side, in standard deviations; squared."""

# Each observation with the seconds until the next, whether that restored it, and the number of its outage.
STRETCHES = """
WITH seen AS (
    SELECT "at", broker, topic, operation, ok, latencyMs, error,
        lead("at") OVER tries AS nextAt,
        coalesce((lead(epoch_us("at")) OVER tries - epoch_us("at")) / 1e6 <= $max_gap_s, false) AS goesOn,
        lead(ok) OVER tries AS nextOk,
        coalesce((epoch_us("at") - lag(epoch_us("at")) OVER tries) / 1e6 <= $max_gap_s, false)
            AND NOT lag(ok) OVER tries AS wasDown
    FROM samples
    WINDOW tries AS (PARTITION BY broker, topic, operation ORDER BY "at", ok)
)
SELECT "at", broker, topic, operation, ok, latencyMs, error, nextAt,
    CASE WHEN goesOn THEN (epoch_us(nextAt) - epoch_us("at")) / 1e6 ELSE 0.0 END AS seconds,
    goesOn AND nextOk AS restored,
    sum((NOT ok AND NOT wasDown)::INT) OVER tries AS outage
FROM seen
WINDOW tries AS (PARTITION BY broker, topic, operation ORDER BY "at", ok)
"""
OUTAGES = """
SELECT broker, topic, operation,
    min("at") AS began,
    max(nextAt) FILTER (restored) AS ended,
    sum(seconds) AS seconds,
    count(*) AS failures,
    arg_min(error, "at") AS error,
    ended IS NULL AS ongoing
FROM stretches WHERE NOT ok GROUP BY broker, topic, operation, outage
ORDER BY began, broker, topic, operation
"""
FIGURES = f"""
WITH sums AS (
    SELECT broker, topic, operation,
        min("at") AS since,
        max("at") AS until,
        arg_max(ok, "at") AS up,
        count(*) AS observations,
        count(*) FILTER (NOT ok) AS failures,
        sum(seconds) AS observedSeconds,
        coalesce(sum(seconds) FILTER (NOT ok), 0.0) AS downSeconds,
        count(DISTINCT outage) FILTER (NOT ok) AS outages,
        quantile_disc(latencyMs, 0.99) FILTER (ok) AS latencyP99Ms,
        failures / observations AS failing
    FROM stretches GROUP BY broker, topic, operation
)
SELECT * EXCLUDE (failing),
    1 - failing AS requestAvailability,
    CASE WHEN failing > 0 THEN -log10(failing) END AS requestNines,
    -log10(
        (failing + {Z2} / (2 * observations)
            + sqrt({Z2} * (failing * (1 - failing) + {Z2} / (4 * observations)) / observations))
        / (1 + {Z2} / observations)
    ) AS requestNinesAtLeast,
    1 - downSeconds / nullif(observedSeconds, 0) AS timeAvailability,
    CASE WHEN downSeconds > 0 THEN -log10(downSeconds / observedSeconds) END AS timeNines,
    (observedSeconds - downSeconds) / nullif(outages, 0) AS mtbfSeconds,
    downSeconds / nullif(outages, 0) AS mttrSeconds
FROM sums ORDER BY ALL
"""
OVER_TIME = """
WITH thinned AS (
    SELECT greatest(1, ceil((max(epoch_ms("at")) - min(epoch_ms("at"))) / 1000 / $points)) AS seconds
    FROM samples
)
SELECT to_timestamp(floor(epoch_ms("at") / 1000 / seconds) * seconds) AS "at", broker,
    100 * avg(ok::INT) AS good, avg(latencyMs) AS latencyMs
FROM samples, thinned GROUP BY 1, 2 ORDER BY 1, 2
"""

COLUMNS = columns(
    "broker topic operation up observations failures timeAvailability timeNines requestNinesAtLeast outages "
    "mtbfSeconds mttrSeconds",
    up="Up now",
    observations="Tried",
    failures="Failed",
    timeAvailability="Available",
    timeNines="Nines",
    requestNinesAtLeast="At least",
    mtbfSeconds="MTBF s",
    mttrSeconds="MTTR s",
)


def figures_of(seen: Samples, max_gap_s: float) -> tuple[list[Row], list[Row]]:
    """The figures, a row per broker, topic and operation, and the outages by their beginning."""
    seen.keep("stretches", STRETCHES, max_gap_s=max_gap_s)
    return seen.rows(FIGURES), seen.rows(OUTAGES)


def over_time(seen: Samples, points: int) -> list[Row]:
    """By time, in at most about so many stretches, and broker: the share that was good, and mean latency."""
    return seen.rows(OVER_TIME, points=points)
