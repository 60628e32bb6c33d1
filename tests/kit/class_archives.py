"""Archives of classes that Java maps into memory instead of reading and checking them anew at each start.

`python -m tests.kit.class_archives` makes one from a start of Apache's broker and one from a start of Spark.
With them the broker takes 4 s of CPU time to start instead of 6, Spark 6 s instead of 11. Java starts as
usual if there is no archive, or if it is one of another Java or of other jars.
"""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "class-archives"
SPARK = "spark"
QUICK_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
"""Flags of all Javas: a test asks what is answered, not how fast. One that lives for a minute or so takes
twice the CPU time with all its compilers."""


def flags(name: str) -> list[str]:
    """Flags by which Java takes its classes from an archive, or none if it was not made."""
    archive = FOLDER / f"{name}.jsa"
    # An archive that does not fit is no news: tests compare what programs print.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"] if archive.exists() else []


def _make(name: str, use: Callable[[list[str]], None]) -> None:
    """Makes an archive of the classes that `use` has Java load; it returns when that Java has ended."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.jsa").unlink(missing_ok=True)  # Java writes no archive where it takes classes from one
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        made = Path(folder, "made.jsa")
        use([f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds*=off"])
        made.replace(FOLDER / f"{name}.jsa")


def _use_apache(options: list[str]) -> None:
    from orbitmq import Message
    from orbitmq.sync import Producer
    from tests.peers.apache import Apache

    class Archived(Apache):
        """The name server has fewer classes, all of which the broker has as well."""

        def _quick_start(self, name: str) -> list[str]:
            return [*super()._quick_start(name), *(options if name == "broker" else ())]

    with tempfile.TemporaryDirectory() as store:
        server = Archived.start(Path(store))
        try:
            with Producer("archives", server.namesrv) as producer:
                producer.send(Message("archives", "one"))
            server.broker_process.end(signal.SIGTERM, limit_s=300)
        finally:
            server.kill()


def _use_spark(options: list[str]) -> None:
    os.environ["SPARK_SUBMIT_OPTS"] = shlex.join([*QUICK_START, *options])
    from pyspark import SparkContext

    from orbitmq import Message
    from orbitmq.spark import local_session
    from orbitmq.sync import Producer
    from orbitmq.testing import LocalBroker

    with LocalBroker(timeout_seconds=120) as broker, tempfile.TemporaryDirectory() as folder:
        with Producer("archives", broker.namesrv) as producer:
            producer.send(Message("archives", "one"))
        spark = local_session("archives", quiet=True)
        named = {"namesrv": broker.namesrv, "subscribe": "archives"}
        spark.read.format("orbitmq").options(**named).load().groupBy("topic").count().collect()
        stream = spark.readStream.format("orbitmq").options(**named, startingOffsets="earliest").load()
        written = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        written.trigger(availableNow=True).start(f"{folder}/rows").awaitTermination(300)
        spark.read.parquet(f"{folder}/rows").orderBy("queueOffset").collect()
        gateway = SparkContext._gateway
        assert gateway is not None
        java = gateway.proc
        spark.stop()
        java.stdin.close()
        java.wait(300)


def main() -> None:
    from tests.peers.apache import Apache

    _make(Apache.path[1], _use_apache)
    _make(SPARK, _use_spark)


if __name__ == "__main__":
    main()
