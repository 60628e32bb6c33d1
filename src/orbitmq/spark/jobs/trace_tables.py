"""Tables from trace records: sends, handlings, latencies, slow consumers, failures, a whole life.

Times of different machines are compared as their clocks have them: a latency of a few milliseconds between
machines is worth as much as their clocks agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SLOW_MS = 1000
"""Handling that takes longer is slow, unless the user names another time."""
ACCURACY = 10_000
"""Of percentiles: exact for fewer values, beyond that right to a ten-thousandth of their rank."""
GOOD_SHARE = 0.5
SHARES = (0.5, 0.9, 0.99, 0.999)
NAMES = ("P50", "P90", "P99", "P999")


def distinct(records: DataFrame) -> DataFrame:
    """Each record once: a client whose trace was answered too late has sent it again."""
    columns = ("kind", "msgId", "requestId", "clientGroup", "at", "transactionState", "bad", "client")
    return records.dropDuplicates(list(columns))


def sends(records: DataFrame) -> DataFrame:
    """One row per message that was sent: topic, clientGroup, msgId, keys, sentAt, costMs, success and more.

    A transaction's half message is one row; what became of it stands in `transactionState`, null where nobody
    has said yet.
    """
    sent = records.where("kind in ('Pub', 'EndTransaction')")
    is_send = sf.col("kind") == "Pub"
    first = {
        name: sf.min_by(name, sf.when(is_send, sf.col("at")))
        for name in ("clientGroup", "tags", "keys", "storeHost", "bodyLength", "costMs", "messageType")
    }
    return (
        sent.groupBy("topic", "msgId")
        .agg(
            *(found.alias(name) for name, found in first.items()),
            sf.min(sf.when(is_send, sf.col("at"))).alias("sentAt"),
            sf.max(sf.when(is_send, sf.col("success"))).alias("success"),
            sf.max(sf.when(is_send, sf.col("client"))).alias("client"),
            sf.max(sf.when(is_send, sf.col("batchSize"))).alias("batchSize"),
            sf.max_by("transactionState", sf.when(sf.col("kind") == "EndTransaction", sf.col("at"))).alias(
                "transactionState"
            ),
        )
        .where("sentAt is not null")
    )


def handlings(records: DataFrame) -> DataFrame:
    """One row per attempt of a group at a message: beganAt, endedAt, costMs, success, outcome, retryTimes.

    Without an end the client is still at it, has died over it, or its trace is lost.
    """
    before, after = sf.col("kind") == "SubBefore", sf.col("kind") == "SubAfter"
    return (
        records.where(before | after)
        .groupBy("requestId", "msgId")
        .agg(
            sf.max("clientGroup").alias("clientGroup"),
            sf.max("keys").alias("keys"),
            sf.max("client").alias("client"),
            sf.max("retryTimes").alias("retryTimes"),
            sf.min(sf.when(before, sf.col("at"))).alias("beganAt"),
            # Without a time of its own, the message that brought the record is the latest it can have ended.
            sf.max(sf.when(after, sf.coalesce("at", "storedAt"))).alias("endedAt"),
            sf.max("costMs").alias("costMs"),
            sf.max("success").alias("success"),
            sf.max("outcome").alias("outcome"),
        )
    )


def with_topics(handlings: DataFrame, sends: DataFrame) -> DataFrame:
    """Handlings with `topic`, `sentAt` and `messageType` of the message, null where no producer traced it."""
    return handlings.join(sends.select("msgId", "topic", "sentAt", "messageType"), "msgId", "left")


def latency(handled: DataFrame) -> DataFrame:
    """By topic and group: percentiles in ms from the beginning of a send to the end of its handling.

    `handled` comes from `with_topics`. Of a message that was handled several times the first success counts,
    so retries are in the latency, as they are for whoever waits. Delayed messages have rows of their own:
    their time includes the delay that was asked for. `waiting` is to the first beginning of handling.
    """
    message = ("topic", "clientGroup", "messageType", "msgId", "sentAt")
    done = (
        handled.where("sentAt is not null")
        .groupBy(*message)
        .agg(
            sf.min("beganAt").alias("began"),
            sf.min(sf.when(sf.col("success"), sf.col("endedAt"))).alias("ended"),
            sf.count("*").alias("attempts"),
        )
    )
    waiting, whole = _between("sentAt", "began"), _between("sentAt", "ended")
    table = done.groupBy("topic", "clientGroup", (sf.col("messageType") == "delayed").alias("delayed")).agg(
        sf.count("*").alias("messages"),
        sf.count("ended").alias("handled"),
        sf.sum(sf.when(sf.col("attempts") > 1, 1).otherwise(0)).alias("retried"),
        *_percentiles(waiting, "waiting"),
        *_percentiles(whole, "endToEnd"),
        sf.max(whole).alias("endToEndMaxMs"),
    )
    return table.orderBy("topic", "clientGroup", "delayed")


def latency_over_time(handled: DataFrame, seconds: int) -> DataFrame:
    """By stretches of so many seconds in which messages were sent: how many, and percentiles of latency."""
    first = (
        handled.where("sentAt is not null and coalesce(messageType, '') <> 'delayed'")
        .groupBy("clientGroup", "msgId", "sentAt")
        .agg(sf.min(sf.when(sf.col("success"), sf.col("endedAt"))).alias("ended"))
    )
    start = sf.timestamp_seconds((sf.unix_seconds("sentAt") / seconds).cast("bigint") * seconds)
    return (
        first.groupBy(start.alias("at"))
        .agg(sf.count("*").alias("messages"), *_percentiles(_between("sentAt", "ended"), "endToEnd"))
        .orderBy("at")
    )


def sending(sends: DataFrame) -> DataFrame:
    """By topic and producer group: messages, failed ones, bytes, and percentiles of what a send took."""
    return (
        sends.groupBy("topic", "clientGroup")
        .agg(
            sf.count("*").alias("messages"),
            sf.sum(sf.when(sf.col("success"), 0).otherwise(1)).alias("failed"),
            sf.sum("bodyLength").alias("bodyBytes"),
            *_percentiles(sf.col("costMs"), "cost"),
            sf.max("costMs").alias("costMaxMs"),
        )
        .orderBy("topic", "clientGroup")
    )


def consumers(handled: DataFrame, slow_ms: int = SLOW_MS) -> DataFrame:
    """By group, topic and client: what handling took, the slowest first.

    `slow` counts handlings of more than `slow_ms`, `failed` those without success, `unfinished` those
    without an end.
    """
    host = sf.regexp_replace("client", r":\d+$", "")
    return (
        handled.groupBy("clientGroup", "topic", host.alias("client"))
        .agg(
            sf.count("*").alias("handlings"),
            sf.sum(sf.when(sf.col("costMs") > slow_ms, 1).otherwise(0)).alias("slow"),
            sf.sum(sf.when(~sf.col("success"), 1).otherwise(0)).alias("failed"),
            sf.sum(sf.when(sf.col("endedAt").isNull(), 1).otherwise(0)).alias("unfinished"),
            *_percentiles(sf.col("costMs"), "cost"),
            sf.max("costMs").alias("costMaxMs"),
        )
        .orderBy(sf.desc("slow"), sf.desc("costP99Ms"), "clientGroup", "topic", "client")
    )


def first_attempt_failures(handled: DataFrame) -> DataFrame:
    """Messages that a group did not handle at the first attempt, the latest first.

    `state` is `handled` where an attempt succeeded after all, `failing` where none has yet, `unfinished`
    where an attempt has begun and nothing more is known.
    """
    attempts = handled.groupBy("topic", "clientGroup", "msgId").agg(
        sf.max("keys").alias("keys"),
        sf.greatest(sf.count("*"), sf.max("retryTimes") + 1).alias("attempts"),
        sf.sum(sf.when(~sf.col("success"), 1).otherwise(0)).alias("failures"),
        sf.max_by("outcome", sf.when(sf.col("outcome").isNotNull(), sf.col("endedAt"))).alias("lastOutcome"),
        sf.max(sf.coalesce("endedAt", "beganAt")).alias("lastAt"),
        sf.max(sf.coalesce("success", sf.lit(False))).alias("handled"),
    )
    state = (
        sf.when(sf.col("handled"), "handled").when(sf.col("failures") > 0, "failing").otherwise("unfinished")
    )
    return (
        attempts.withColumn("state", state)
        .where("attempts > 1 or failures > 0 or not handled")
        .drop("handled")
        .orderBy(sf.desc("lastAt"), "msgId", "clientGroup")
    )


def failed_sends(sends: DataFrame) -> DataFrame:
    """Sends that a broker answered with anything but SEND_OK, the latest first.

    Clients trace no send that was not answered at all.
    """
    return sends.where("not success").orderBy(sf.desc("sentAt"), "msgId")


def life(records: DataFrame, id_or_key: str) -> DataFrame:
    """Everything about the messages with this id, or with this key among theirs, as it happened."""
    wanted = (sf.col("msgId") == id_or_key) | sf.array_contains(sf.split("keys", r"\s+"), id_or_key)
    named = records.where(wanted)
    ids = named.where("msgId is not null").select("msgId").distinct()
    found = records.join(ids, "msgId", "left_semi")
    cost, group = sf.col("costMs").cast("string"), sf.col("clientGroup")
    special = sf.when(sf.col("messageType") != "normal", sf.concat(sf.lit("("), "messageType", sf.lit(")")))
    again = sf.concat_ws(" ", sf.lit("handling begins, retry"), "retryTimes")
    about = (
        sf.when(
            sf.col("kind") == "Pub",
            sf.concat_ws(
                " ",
                sf.when(sf.col("success"), "sent to").otherwise("not taken in good order by"),
                "storeHost", sf.lit("in"), cost, sf.lit("ms"),
                special,
            ),
        )
        .when(
            sf.col("kind") == "SubBefore",
            sf.when(sf.col("retryTimes") > 0, again).otherwise("handling begins"),
        )
        .when(
            sf.col("kind") == "SubAfter",
            sf.concat_ws(" ", sf.lit("handled:"), "outcome", sf.lit("in"), cost, sf.lit("ms")),
        )
        .when(
            sf.col("kind") == "EndTransaction",
            sf.concat_ws(" ", "transactionState", sf.when(sf.col("fromCheck"), "after a check")),
        )
        .otherwise(sf.when(sf.col("success"), "recalled").otherwise("recall failed"))
    )  # fmt: skip
    groups = _groups_of_requests(found)
    return (
        found.join(groups, ["requestId", "msgId"], "left")
        .select(
            sf.coalesce("at", "storedAt").alias("at"),
            "msgId",
            "kind",
            sf.coalesce(group, "requestGroup").alias("clientGroup"),
            about.alias("what"),
            "client",
            "topic",
            "keys",
        )
        .orderBy("at", sf.array_position(sf.array(*map(sf.lit, _ORDER)), sf.col("kind")), "msgId")
    )


_ORDER = ("Pub", "EndTransaction", "Recall", "SubBefore", "SubAfter")
"""Of what happened in the same millisecond."""


def _groups_of_requests(records: DataFrame) -> DataFrame:
    """The group of each attempt: some clients name it at the beginning only."""
    return (
        records.where("requestId is not null")
        .groupBy("requestId", "msgId")
        .agg(sf.max("clientGroup").alias("requestGroup"))
    )


def _between(start: str, end: str) -> Column:
    return sf.unix_millis(end) - sf.unix_millis(start)


def _percentiles(value: Column, name: str) -> list[Column]:
    return [
        sf.percentile_approx(value, share, ACCURACY).alias(f"{name}{short}Ms")
        for share, short in zip(SHARES, NAMES, strict=True)
    ]


def observations(records: DataFrame, seconds: int) -> DataFrame:
    """Sends that clients have traced, as observations of their brokers (`availability.LOG_SCHEMA`).

    One per stretch of so many seconds, of all clients at once: it is good where more than half of its sends
    are. A client traces answered sends only: what was not answered at all does not show here.
    """
    sent = records.where("kind = 'Pub' and storeHost is not null")
    ok = sf.coalesce("success", sf.lit(False))
    start = sf.timestamp_seconds(sf.floor(sf.unix_seconds("at") / seconds) * seconds)
    return sent.groupBy(start.alias("at"), sf.col("storeHost").alias("broker"), "topic").agg(
        sf.lit("send").alias("operation"),
        (sf.avg(ok.cast("int")) > GOOD_SHARE).alias("ok"),
        sf.avg("costMs").alias("latencyMs"),
        sf.max(sf.when(~ok, "answered with another status than SEND_OK")).alias("error"),
    )
