"""Reads the topic `flights` with Spark, writes Parquet partitioned by origin, and prints delays by carrier.

    python examples/spark_read.py --namesrv 127.0.0.1:9876 --out flights.parquet

The demo starts it after it has published the flights; it works on any broker that holds them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flights import CARRIERS
from rich.console import Console
from rich.table import Table

from orbitmq.spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "keys,body,queueId,queueOffset,storeTimestamp"
"""Columns that are needed of a message."""
BODY = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
    sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string,
    dest string, air_time int, distance int, hour int, minute int, time_hour timestamp
"""


@click.command()
@click.option("--namesrv", default="127.0.0.1:9876", show_default=True)
@click.option("--topic", default="flights", show_default=True)
@click.option("--starting-offsets", default="earliest", show_default=True, help="As the source takes it.")
@click.option("--ending-offsets", default="latest", show_default=True, help="As the source takes it.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("flights.parquet"), show_default=True)
@click.option("--summary", type=click.Path(path_type=Path), help="Writes the figures there, as JSON.")
def main(
    namesrv: str, topic: str, starting_offsets: str, ending_offsets: str, out: Path, summary: Path | None
) -> None:
    """From a topic to a small Parquet lake."""
    spark = local_session("flights")
    spark.sparkContext.setLogLevel("ERROR")
    from pyspark.sql import functions as F  # noqa: N812 -- as Spark's own guides write it

    flights = flights_of(
        spark.read.format("orbitmq")
        .option("namesrv", namesrv)
        .option("subscribe", topic)
        .option("startingOffsets", starting_offsets)
        .option("endingOffsets", ending_offsets)
        .option("columns", COLUMNS)
        .load()
    )
    flights.write.mode("overwrite").partitionBy("origin").parquet(str(out))

    delays = (
        spark.read.parquet(str(out))
        .groupBy("carrier")
        .agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("delay"))
        .orderBy(F.desc("delay"))
        .collect()
    )
    _print(Console(), [(row["carrier"], row["flights"], row["delay"]) for row in delays])
    if summary is not None:
        summary.write_text(json.dumps({row["carrier"]: [row["flights"], row["delay"]] for row in delays}))
    spark.stop()


def flights_of(messages: DataFrame) -> DataFrame:
    """A row per flight, of a batch of messages or of a stream of them."""
    from pyspark.sql import functions as F  # noqa: N812

    return messages.select(
        F.from_json(F.col("body").cast("string"), BODY).alias("flight"),
        F.col("keys").alias("key"),
        F.col("queueId").alias("queue_id"),
        F.col("queueOffset").alias("queue_offset"),
        F.col("storeTimestamp").alias("stored_at"),
    ).select("flight.*", "key", "queue_id", "queue_offset", "stored_at")


def _print(console: Console, rows: list[tuple[str, int, float | None]]) -> None:
    table = Table(title="Mean departure delay from New York, 2013", title_justify="left")
    table.add_column("carrier")
    table.add_column("flights", justify="right")
    table.add_column("delay, min", justify="right")
    table.add_column("")
    longest = max((delay or 0 for _, _, delay in rows), default=0) or 1
    for carrier, flights, delay in rows:
        bar = "" if delay is None else "█" * round(20 * max(0, delay) / longest)
        shown = "-" if delay is None else f"{delay:.1f}"
        table.add_row(f"{carrier} {CARRIERS.get(carrier, '')}", f"{flights:,}", shown, bar)
    console.print(table)


if __name__ == "__main__":
    main()
