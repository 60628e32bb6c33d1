"""`python -m benchmarks.spark`: Spark reads OrbitMQ, its files, and Kafka, the same records in one run."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.brokers import Place, running
from benchmarks.install import HERE, compile_java, compiled, facts_of, fetch, install
from benchmarks.load import load_generator
from benchmarks.processes import WatchedCpu, cpu_seconds
from benchmarks.spark.cluster import standalone_cluster
from benchmarks.spark.jobs import JOBS, SOURCES, Inputs, Job, Reading, timed
from benchmarks.spark.kafka import fill, kafka
from benchmarks.spark.report import show, write_report

OWN = HERE / "spark"
RECORDS = ((128, 4_000_000), (1024, 1_500_000))
"""Sizes in bytes, and how many records of each: of fewer, the half second that a job takes for none would
decide."""


@dataclass(frozen=True, slots=True)
class Served:
    """Servers that are up: both brokers with the same records, by size."""

    inputs: Inputs
    pids: dict[str, int]
    """The broker behind each source; the offline one needs none."""
    counts: dict[int, int]


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=5, help="Of each job; the report shows medians.")
@click.option("--scale-rounds", type=click.IntRange(0), default=3, help="Of each size of the cluster.")
@click.option(
    "--records", type=click.IntRange(1000), help="Records of each size, instead of 4 and 1.5 million."
)
@click.option("--jobs", multiple=True, help="Only jobs whose names begin so: count, noop, stream-parquet …")
@click.option("--orbitmq", "command", help="The orbitmq command to measure. Default: beside this Python.")
@click.option("--results", type=click.Path(path_type=Path), default=HERE / "spark-results.jsonl")
@click.option("--work-dir", type=click.Path(path_type=Path), default=HERE.parent / "build" / "benchmarks")
@click.option("--resume", is_flag=True, help="Go on with the last run: measure what it has not measured yet.")
@click.option(
    "--report", is_flag=True, help="Write the table of docs/trust/measurements.md and measure nothing."
)
def main(
    rounds: int,
    scale_rounds: int,
    records: int | None,
    jobs: tuple[str, ...],
    command: str | None,
    results: Path,
    work_dir: Path,
    resume: bool,
    report: bool,
) -> None:
    """Times Spark jobs over OrbitMQ (online and from its files) and over Kafka with Spark's own source.

    Kafka 4.1 and the source come from Maven Central. Takes a JDK, Maven, and about 8 GB of disk. Every
    figure is appended to the results file at once, and --resume goes on with a run that was interrupted: it
    fills both brokers again, and measures what is missing. The exit code never depends on a figure.
    """
    if report:
        write_report(_newest(results))
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started has to be stopped
    installed = install(work_dir, command)
    jars, connector, classes = (work_dir / name for name in ("kafka", "kafka-connector", "kafka-classes"))
    fetch(OWN / "pom.xml", jars, "Kafka")
    fetch(OWN / "connector.xml", connector, "Spark's Kafka source")
    compile_java([OWN / "java" / "Fill.java"], jars, classes)
    counts = {size: records or count for size, count in RECORDS}
    chosen = [job for job in JOBS if not jobs or job.name.startswith(jobs)]
    facts = facts_of(installed, compiled(installed.orbitmq))
    earlier = _of_last_run(results) if resume else []
    if earlier:
        run = earlier[0]
        if run["records"] != {str(size): count for size, count in counts.items()}:
            raise click.ClickException("the last run had other numbers of records: give --records as there")
    else:
        run = {"kind": "run", "run": uuid.uuid4().hex[:12], "facts": facts, "records": counts}
        _append(results, run)
    done = {_mark(entry) for entry in earlier}
    folder = work_dir / "spark"
    shutil.rmtree(folder, ignore_errors=True)
    place = Place.fresh(folder / "orbitmq")
    try:
        with (
            running("orbitmq", installed, place) as broker,
            kafka(installed.java, jars, folder / "kafka") as beside,
        ):
            with load_generator(
                installed.java, work_dir / "classes", installed.jars, folder / "load"
            ) as load:
                for size, count in counts.items():
                    click.echo(f"filling: {count:,} records of {size} B")
                    load.fill(broker, size, count, topic=f"spark_{size}")
                    fill(installed.java, jars, classes, beside, f"spark_{size}", size, count)
                load.forget(broker)
            served = Served(
                Inputs(beside.address, broker.namesrv, str(place.folder / "store")),
                {"kafka": beside.pid, "online": broker.broker_pid},
                counts,
            )
            packages = ",".join(str(jar) for jar in sorted(connector.glob("*.jar")))
            failed = 0
            for entry in itertools.chain(
                _measure(served, chosen, rounds, packages, folder / "spark-out", done),
                _scale(served, scale_rounds, packages, folder, done),
            ):
                if entry is None:
                    failed += 1
                else:
                    _append(results, {"run": run["run"], **entry})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(_newest(results))
    if failed:
        raise click.ClickException(f"{failed} measurements failed, see above: --resume tries them again")


def _of_last_run(path: Path) -> list[dict[str, Any]]:
    """The entry that opened the last run, and all its entries; empty where there is none."""
    lines = path.read_text().splitlines() if path.exists() else []
    entries = [json.loads(line) for line in lines]
    opened = [entry for entry in entries if entry["kind"] == "run"]
    return [] if not opened else [e for e in entries if e["run"] == opened[-1]["run"]]


def _mark(entry: dict[str, Any]) -> tuple[object, ...]:
    """The measurement without its result."""
    names = ("kind", "size", "job", "source", "round", "executors", "partitions")
    return tuple(entry.get(name) for name in names)


def _measure(
    served: Served,
    jobs: list[Job],
    rounds: int,
    packages: str,
    folder: Path,
    done: Collection[tuple[object, ...]],
) -> Iterator[dict[str, Any] | None]:
    """Every job over every source, one source right after the other, in another order each round.

    None stands for one that failed.
    """
    from orbitmq.spark.session.sessions import local_session

    spark = local_session(
        "benchmark", conf={"spark.jars": packages, "spark.ui.enabled": "false"}, memory="2g"
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        for number in range(-1, rounds):  # the first one warms up: classes, JIT, workers
            for size, count in served.counts.items():
                for job in jobs:
                    for source in _turned(
                        [s for s in SOURCES if not (job.streaming and s == "offline")], number
                    ):
                        what = {
                            "kind": "round", "size": size, "job": job.name, "source": source, "round": number,
                        }  # fmt: skip
                        if _mark(what) in done:
                            continue
                        frame = Reading(spark, source, f"spark_{size}", served.inputs)
                        try:
                            figures = _timed(served, source, job, frame, folder, count)
                        except Exception as error:  # whatever Spark raises: the other figures are of use
                            _tell(what, error)
                            yield None
                            continue
                        click.echo(
                            f"round {number + 1}  {size:>5} B  {job.what:<24} {source:<8} "
                            f"{figures['rate']:>12,.0f} rec/s  broker {figures['broker_us']:.2f} µs/rec"
                        )
                        if number >= 0:
                            yield what | figures
    finally:
        spark.stop()


def _timed(served: Served, source: str, job: Job, frame: Any, folder: Path, count: int) -> dict[str, float]:
    pid = served.pids.get(source)
    broker = cpu_seconds(pid) if pid else 0.0
    with WatchedCpu(os.getpid(), without=served.pids.values()) as own:
        times = timed(job, frame, folder, count)
    broker = (cpu_seconds(pid) if pid else 0.0) - broker
    return {
        "rate": count / times["seconds"],
        **times,
        "broker_us": broker * 1e6 / count,
        "spark_us": own.seconds * 1e6 / count,
    }


def _tell(what: dict[str, Any], error: Exception) -> None:
    reason = str(error).partition("\n")[0] or type(error).__name__
    click.echo(f"FAILED {' '.join(map(str, what.values()))}: {reason}", err=True)


def _turned(sources: list[str], number: int) -> list[str]:
    first = number % len(sources)
    return sources[first:] + sources[:first]


def _scale(
    served: Served, rounds: int, packages: str, folder: Path, done: Collection[tuple[object, ...]]
) -> Iterator[dict[str, Any] | None]:
    """Time against partitions and executors on a standalone cluster of worker processes."""
    from orbitmq.spark.session.sessions import spark_session

    noop = next(job for job in JOBS if job.name == "noop")
    size, count = next(iter(served.counts.items()))
    for executors in (1, 2) if rounds else ():
        with standalone_cluster(executors, folder / "cluster") as master:
            conf = {
                "spark.jars": packages,
                "spark.ui.enabled": "false",
                "spark.executor.cores": "1",
                "spark.executor.memory": "1g",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
            }
            spark = spark_session("benchmark-scale", master=master, conf=conf)
            spark.sparkContext.setLogLevel("ERROR")
            try:
                for number in range(-1, rounds):
                    for partitions in (1, 2, 4, 8):
                        for source in SOURCES:
                            what = {
                                "kind": "scale", "executors": executors, "partitions": partitions,
                                "source": source, "round": number,
                            }  # fmt: skip
                            if _mark(what) in done:
                                continue
                            more = {"minPartitions": str(partitions)}
                            plain = Reading(spark, source, f"spark_{size}", served.inputs, more)
                            frame = _coalesced(plain, partitions)
                            try:
                                figures = timed(noop, frame, folder / "spark-out", count)
                            except Exception as error:  # as above
                                _tell(what, error)
                                yield None
                                continue
                            if number >= 0:
                                yield what | figures
                                click.echo(
                                    f"scale: {executors} executors, {partitions} parts, {source} "
                                    f"{figures['seconds']:.2f} s"
                                )
            finally:
                spark.stop()


def _coalesced(frame: Any, partitions: int) -> Any:
    """Fewer partitions than queues: several queues, one task."""
    return lambda streaming: frame(streaming).coalesce(partitions)


def _append(path: Path, entry: dict[str, Any]) -> None:
    with path.open("a") as out:
        out.write(json.dumps(entry, separators=(",", ":")) + "\n")


def _newest(path: Path) -> list[dict[str, Any]]:
    """The entry that opened the last run that timed jobs, its entries, and those of the last run that
    scaled.
    """
    entries = [json.loads(line) for line in path.read_text().splitlines()]

    def last(kind: str) -> list[dict[str, Any]]:
        runs = [entry["run"] for entry in entries if entry["kind"] == kind]
        return [e for e in entries if runs and e["run"] == runs[-1] and e["kind"] in (kind, "run")]

    rounds, scale = last("round"), last("scale")
    if not rounds and not scale:
        raise click.ClickException(f"{path} holds no figures")
    return rounds + scale[1:] if rounds else scale


if __name__ == "__main__":
    main()
