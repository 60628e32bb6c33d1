"""Sends dead letters again, once each.

To the original topic: every group that subscribes to it gets the message. To the retry topic of the group
that gave it up: only that group does, under the topic that the message came from.
"""

from __future__ import annotations

import getpass
import socket
import uuid
from typing import TYPE_CHECKING, Any

from orbitmq.admin.dead_letters.outgoing import REDRIVEN
from orbitmq.protocol.names import ORIGIN_MESSAGE_ID, RETRY_PREFIX, RETRY_TOPIC
from orbitmq.spark.jobs.dlq.audit import SENT, Audit
from orbitmq.spark.jobs.resending import Sent, own_properties, send, sharding_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.jobs.job import JobSetup

ORIGIN = "origin"
RETRY = "retry"
NOWHERE = "nowhere to send it: its topic is not known, or there is none of that name"


def targeted(found: DataFrame, to: str) -> DataFrame:
    """Dead letters with `target`, the topic each goes to; null where that is not known."""
    from pyspark.sql import functions as sf

    if to == RETRY:
        known = sf.concat(sf.lit(RETRY_PREFIX), "group")
        return found.withColumn("target", sf.when(sf.col("originTopic").isNotNull(), known))
    return found.withColumn("target", sf.col("originTopic"))


def not_yet_sent(found: DataFrame, audit: Audit) -> DataFrame:
    """Dead letters that no finished run has sent."""
    from pyspark.sql import functions as sf

    sent = audit.table(found.sparkSession).filter(sf.col("result") == SENT).select("letter")
    return found.join(sent, "letter", "left_anti")


def plan(chosen: DataFrame, audit: Audit, asked: dict[str, Any]) -> str:
    """Writes a run down; its name."""
    from pyspark.sql import functions as sf

    run = f"{uuid.uuid4().hex[:12]}"
    audit.begin(
        run,
        asked,
        chosen.select(
            sf.lit(run).alias("run"),
            "letter",
            "group",
            "originTopic",
            "target",
            "msgId",
            "keys",
            sf.current_timestamp().alias("plannedAt"),
            sf.lit(f"{getpass.getuser()}@{socket.gethostname()}").alias("by"),
            sf.lit(asked.get("where")).cast("string").alias("selection"),
            sf.lit(None).cast("timestamp").alias("sentAt"),
            sf.when(sf.col("target").isNull(), NOWHERE).alias("result"),
        ),
    )
    return run


def carry_out(
    spark: SparkSession,
    found: DataFrame,
    audit: Audit,
    run: str,
    setup: JobSetup,
    *,
    first_run: bool,
    rate: float | None,
) -> Sent:
    """Sends the dead letters that a run has planned, out of all that were `found`, and finishes the run."""
    from pyspark.sql import functions as sf

    planned = audit.planned(spark, run).filter(sf.col("target").isNotNull()).select("letter", "target")
    sent = send(
        outgoing(found.join(sf.broadcast(planned), "letter")),
        setup,
        write_id=f"redrive-{run}",
        first_run=first_run,
        rate=rate,
    )
    audit.finish(spark, run, found)
    return sent


def outgoing(letters: DataFrame) -> DataFrame:
    """The columns that the sink takes, for dead letters with a target."""
    from pyspark.sql import functions as sf

    is_retry = sf.col("target").startswith(RETRY_PREFIX)
    own = sf.map_filter(own_properties(), lambda name, _: name != REDRIVEN)
    always = sf.map_concat(own, sf.create_map(sf.lit(REDRIVEN), "msgId"))
    back = sf.create_map(
        sf.lit(RETRY_TOPIC),
        "originTopic",
        sf.lit(ORIGIN_MESSAGE_ID),
        sf.coalesce("originMessageId", "msgId"),
    )
    return letters.select(
        sf.col("target").alias("topic"),
        "body",
        "keys",
        "tags",
        sf.when(is_retry, sf.map_concat(always, back)).otherwise(always).alias("properties"),
        sf.when(~is_retry, sharding_key()).alias("shardingKey"),
        "flag",
        sf.col("letter").alias("onceKey"),
    )
