"""Sends dead letters again, once each.

To the original topic: every group that subscribes to it gets the message. To the retry topic of the group
that gave it up: only that group does, under the topic that the message came from.
"""

from __future__ import annotations

import getpass
import socket
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orbitmq.admin.dead_letters.rules import WRITE_ID, marks, own_properties
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.spark import functions as sf
from orbitmq.spark.jobs.dlq.audit import SENT, Audit
from orbitmq.spark.jobs.dlq.claiming import claimed
from orbitmq.spark.jobs.resending import Sent, send, sharding_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.jobs.job import JobSetup, JobUi

ORIGIN = "origin"
RETRY = "retry"
NOWHERE = "nowhere to send it: its topic is not known, or there is none of that name"


def targeted(found: DataFrame, to: str) -> DataFrame:
    """Dead letters with `target`, the topic each goes to; null where that is not known."""
    if to == RETRY:
        known = sf.concat(sf.lit(RETRY_PREFIX), "group")
        return found.withColumn("target", sf.when(sf.col("originTopic").isNotNull(), known))
    return found.withColumn("target", sf.col("originTopic"))


def not_yet_sent(found: DataFrame, audit: Audit) -> DataFrame:
    """Dead letters that no finished run has sent."""
    runs = audit.table(found.sparkSession)
    if runs is None:
        return found
    sent = runs.filter(sf.col("result") == SENT).select("letter")
    return found.join(sent, "letter", "left_anti")


def plan(chosen: DataFrame, audit: Audit, asked: dict[str, Any]) -> str:
    """Writes a run down; its name."""
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
    ui: JobUi,
    *,
    write_id: str = WRITE_ID,
    rate: float | None,
) -> Sent:
    """Sends the dead letters that a run has planned, out of all that were `found`, and finishes the run.

    What another redrive has sent under the same `write_id`, of whatever program, is not sent again. Raises
    JobFailed if another redrive is at it.
    """
    planned = audit.planned(spark, run).filter(sf.col("target").isNotNull()).select("letter", "target")
    letters = found.join(sf.broadcast(planned), "letter")
    at = [(row[0], row[1]) for row in letters.select("group", "brokerName").distinct().collect()]
    with claimed(spark, setup, at, ui):
        sent = send(outgoing(letters), setup, write_id=write_id, first_run=False, rate=rate)
    audit.finish(spark, run, found)
    return sent


def outgoing(letters: DataFrame) -> DataFrame:
    """The columns that the sink takes, for dead letters with a target."""
    retry = sf.concat(sf.lit(RETRY_PREFIX), "group")
    return letters.select(
        sf.col("target").alias("topic"),
        "body",
        "keys",
        "tags",
        sf.udf(sent_properties, "map<string,string>", useArrow=False)(
            "properties", "offsetMsgId", "target"
        ).alias("properties"),
        sharding_key().alias("shardingKey"),
        "flag",
        "onceKey",
        sf.when(sf.col("target") == retry, sf.col("originTopic")).otherwise(retry).alias("alsoIn"),
    )


def sent_properties(properties: Mapping[str, str], offset_id: str, target: str) -> dict[str, str]:
    """The properties of the message that a redrive sends."""
    return own_properties(properties) | marks(properties, offset_id, target)
