"""The audit log of redriven messages, with time, user and result: a folder of Parquet files, one row per
dead letter.

Before the first message of a run leaves, its dead letters are written to `planned/RUN`; when all are stored,
the result goes to `done/RUN`. A run that has the one and not the other was cut off: it is carried on before
anything else is begun. Dead letters that any finished run has sent are not selected again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq.spark import functions as sf
from orbitmq.spark.jobs.job import JobFailed
from orbitmq.whole_files import write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DDL = (
    "run string, letter string, `group` string, originTopic string, target string, msgId string, "
    "keys string, plannedAt timestamp, by string, selection string, sentAt timestamp, result string"
)
SENT = "sent"
GONE = "gone before it could be sent"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that was cut off."""

    run: str
    asked: dict[str, Any]


class Audit:
    """The folder. Every worker has to see it, as with any folder that Spark writes to."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def unfinished(self) -> list[Unfinished]:
        """Runs that were planned and not finished, oldest first. Raises JobFailed for another's folder."""
        found = []
        for path in sorted((self._folder / "runs").glob("*.json")):
            try:
                asked = json.loads(path.read_text())
            except ValueError as error:
                raise JobFailed(f"{path} is no run of this job: {error}") from None
            if not self._is_whole(self._folder / "done" / path.stem):
                found.append(Unfinished(path.stem, asked))
        return found

    def begin(self, run: str, asked: dict[str, Any], planned: DataFrame) -> None:
        """Writes down what a run is going to send. Nothing has left before this returns."""
        planned.write.mode("overwrite").parquet(str(self._folder / "planned" / run))
        write_whole(self._folder / "runs" / f"{run}.json", json.dumps(asked))

    def planned(self, spark: SparkSession, run: str) -> DataFrame:
        return spark.read.schema(DDL).parquet(str(self._folder / "planned" / run))

    def finish(self, spark: SparkSession, run: str, there: DataFrame) -> None:
        """Everything that was planned is stored, but for dead letters that are not `there` any more."""
        done = (
            self.planned(spark, run)
            .drop("sentAt")
            .join(there.select("letter", sf.lit(True).alias("there")), "letter", "left")
        )
        result = sf.coalesce("result", sf.when(sf.col("there"), SENT), sf.lit(GONE))
        done = done.withColumn("result", result)
        done = done.withColumn("sentAt", sf.when(sf.col("result") == SENT, sf.current_timestamp()))
        done.coalesce(1).write.mode("overwrite").parquet(str(self._folder / "done" / run))

    def table(self, spark: SparkSession) -> DataFrame | None:
        """Every dead letter of every finished run; None without one."""
        runs = [path for path in sorted((self._folder / "done").glob("*")) if self._is_whole(path)]
        if not runs:
            return None
        return spark.read.schema(DDL).parquet(*map(str, runs))

    @staticmethod
    def _is_whole(folder: Path) -> bool:
        return (folder / "_SUCCESS").exists()
