"""Archives the topic `flights` as a stream: micro-batches into Parquet files, each message once.

    python examples/spark_stream.py --namesrv 127.0.0.1:9876 --out flights.archive

Run it again, also after a kill -9: it goes on where its checkpoint says. The demo runs it last.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pyspark.errors import StreamingQueryException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from spark_read import COLUMNS, flights_of

from orbitmq.spark import commit_progress, local_session, queue_progress

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery


@click.command()
@click.option("--namesrv", default="127.0.0.1:9876", show_default=True)
@click.option("--topic", default="flights", show_default=True)
@click.option("--starting-offsets", default="earliest", show_default=True, help="As the source takes it.")
@click.option("--group", default="flights-archive", show_default=True, help="Shows the lag to admin tools.")
@click.option("--at-once", default=60_000, show_default=True, help="Messages per micro-batch.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("flights.archive"), show_default=True)
@click.option("--summary", type=click.Path(path_type=Path), help="Writes the figures there, as JSON.")
def main(
    namesrv: str, topic: str, starting_offsets: str, group: str, at_once: int, out: Path, summary: Path | None
) -> None:
    """All that is in the topic now, in micro-batches."""
    spark = local_session("flights-archive")
    spark.sparkContext.setLogLevel("ERROR")
    options = {
        "namesrv": namesrv,
        "subscribe": topic,
        "startingOffsets": starting_offsets,
        "maxOffsetsPerTrigger": str(at_once),
        "columns": COLUMNS,
        "groupId": group,
    }
    messages = spark.readStream.format("orbitmq").options(**options).load()
    writer = (
        flights_of(messages)
        .writeStream.format("parquet")
        .partitionBy("origin")
        .option("path", str(out))
        .option("checkpointLocation", str(out / "_checkpoint"))
        .trigger(availableNow=True)
    )
    query = _watched(writer)
    done = query.lastProgress
    commit_progress(done, options)
    if summary is not None:
        batches = [progress for progress in query.recentProgress if progress.numInputRows]
        figures = {
            "flights": sum(progress.numInputRows for progress in batches),
            "micro_batches": len(batches),
            "lag": 0 if done is None else sum(one.lag for one in queue_progress(done)),
        }
        summary.write_text(json.dumps(figures))
    spark.stop()


def _watched(writer: DataStreamWriter) -> StreamingQuery:
    """The query when it has ended. Raises what ended it.

    Spark gives the process that plans a stream ten seconds to start; a busy machine may need more.
    """
    for _ in range(5):
        query = writer.start()
        try:
            _watch(query)
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return query
    raise click.ClickException("Spark's Python process does not start within ten seconds on this machine")


def _watch(query: StreamingQuery) -> None:
    """A bar that grows with every micro-batch, until the query has ended. Raises what ended it."""
    columns = (BarColumn(30), MofNCompleteColumn(), TextColumn("{task.fields[batches]}"), TimeElapsedColumn())
    with Progress(TextColumn("  {task.description}"), *columns, console=Console(highlight=False)) as progress:
        task = progress.add_task("archiving", total=None, batches="")
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(0.2))
            batches = [one for one in query.recentProgress if one.numInputRows]
            archived = sum(one.numInputRows for one in batches)
            if batches:
                left = sum(one.lag for one in queue_progress(batches[-1]))
                told = f"{len(batches)} micro-batches"
                progress.update(task, completed=archived, total=archived + left, batches=told)


if __name__ == "__main__":
    main()
