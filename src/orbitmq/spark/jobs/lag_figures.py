"""Lag of consumer groups, computed from samples of their offsets.

A sample is one group on one queue at a time (`lag.SAMPLE_SCHEMA`). Conclusions from it:

- **lag**: messages between the group and the end of the queue, of those that the broker still has. It counts
  what a filter of the group would pass over, as Apache's tools do.
- **waiting**: how long the oldest of them has been stored, in seconds: the sampler reads that message. Null
  where it is unknown.
- **lost**: messages that retention removed before the group came to them.
"""

from __future__ import annotations

from orbitmq.spark.jobs.figures import Row, Samples

# Waiting is never negative: the broker's clock may be ahead of the sampler's.
OVER_TIME = """
WITH queues AS (
    SELECT *,
        greatest(maxOffset - greatest(consumerOffset, minOffset), 0) AS behind,
        CASE WHEN behind = 0 THEN 0.0
            WHEN oldestAt IS NOT NULL THEN greatest((epoch_ms("at") - epoch_ms(oldestAt)) / 1000, 0.0)
        END AS waits
    FROM samples
)
SELECT "at", clientGroup, topic,
    sum(behind)::BIGINT AS lag,
    sum(greatest(pullOffset - consumerOffset, 0))::BIGINT AS inFlight,
    sum(greatest(minOffset - consumerOffset, 0))::BIGINT AS lost,
    max(waits) AS waitingSeconds
FROM queues GROUP BY ALL
"""
# Queues are looked at together: a stretch of time counts once for all of them.
RATES = """
WITH steps AS (
    SELECT clientGroup, topic, "at",
        (epoch_us("at") - lag(epoch_us("at")) OVER queue) / 1e6 AS seconds,
        greatest(maxOffset - lag(maxOffset) OVER queue, 0) AS came,
        greatest(consumerOffset - lag(consumerOffset) OVER queue, 0) AS done
    FROM samples
    WINDOW queue AS (PARTITION BY clientGroup, topic, broker, queueId ORDER BY "at")
), stretches AS (
    SELECT clientGroup, topic, "at", max(seconds) AS seconds, sum(came) AS came, sum(done) AS done
    FROM steps WHERE seconds <= $max_gap_s GROUP BY ALL
)
SELECT clientGroup, topic,
    sum(came) / nullif(sum(seconds), 0) AS inPerSecond,
    sum(done) / nullif(sum(seconds), 0) AS outPerSecond
FROM stretches GROUP BY ALL
"""
CURRENT = f"""
WITH rates AS ({RATES}), newest AS (
    SELECT *, max(lag) OVER topics AS lagMost, max(waitingSeconds) OVER topics AS waitingMostSeconds
    FROM over_time
    WINDOW topics AS (PARTITION BY clientGroup, topic)
    QUALIFY row_number() OVER (PARTITION BY clientGroup, topic ORDER BY "at" DESC) = 1
)
SELECT *,
    CASE WHEN lag = 0 THEN 0.0 WHEN outPerSecond > inPerSecond THEN lag / (outPerSecond - inPerSecond) END
        AS catchUpSeconds
FROM newest LEFT JOIN rates USING (clientGroup, topic)
ORDER BY lag DESC, clientGroup, topic
"""


def current_lag(samples: Samples, max_gap_s: float) -> list[Row]:
    """One row per group and topic, those that lag most first: lag now and at its worst, rates, and the end.

    Rates are messages per second that came and that the group finished, while it was looked at: between
    samples that are further apart it was not looked at. Offsets that were set back count for nothing.
    `catchUpSeconds` is when the lag will be gone if both rates stay; None where it will not.
    """
    samples.keep("over_time", OVER_TIME)
    return samples.rows(CURRENT, max_gap_s=max_gap_s)


def over_time(samples: Samples) -> list[Row]:
    """By time, group and topic: lag, inFlight, lost of all queues together, waitingSeconds of the worst."""
    return samples.rows(f'{OVER_TIME} ORDER BY "at", clientGroup, topic')
