"""Cost of the scanner of stores by itself, without Spark: CPU per record, by columns and size.

`python -m benchmarks.offline` writes a commit log of its own and scans it as a Spark task would, batches of
4 MiB and all. `benchmarks.spark` measures the cost that Spark adds.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import click

from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import pack_host
from orbitmq.spark.offline.options import OfflineOptions
from orbitmq.spark.offline.planning import plan
from orbitmq.spark.offline.reader import read_work
from orbitmq.spark.read import collecting_cy
from orbitmq.spark.read.columns import NAMES

COLUMNS: Mapping[str, str] = {
    "the queue offset alone": "queueOffset",
    "the seven that Kafka has": "keys,body,topic,queueId,queueOffset,storeTimestamp,sysFlag",
    "all that topics have": ",".join(NAMES),
}
HOST = pack_host("10.0.0.1", 10911)
ROOM_BYTES = 260
"""Bytes that a record of this benchmark has beside its body, at most."""


def fill(folder: Path, records: int, body_bytes: int) -> int:
    """A commit log of one file, with a unique id, a key and a tag per message; gives its bytes."""
    log = folder / "commitlog"
    log.mkdir(parents=True)
    body = random.Random(1).randbytes(body_bytes)
    out = bytearray(records * (body_bytes + ROOM_BYTES))
    at = 0
    for number in range(records):
        properties = b"UNIQ_KEY\x01%032X\x02KEYS\x01key-%d\x02TAGS\x01tag\x02WAIT\x01true\x02" % (
            number,
            number,
        )
        now = 1_700_000_000_000 + number
        at += encode_record(
            out,
            at,
            number & 3,
            0,
            number >> 2,
            at,
            0,
            now,
            HOST,
            now,
            HOST,
            0,
            0,
            body,
            b"orders",
            properties,
        )
    with (log / f"{0:020d}").open("wb") as file:
        file.write(memoryview(out)[:at])
    return at


def scan(folder: Path, columns: str) -> tuple[int, float]:
    """Records, and seconds of CPU to turn them into Arrow batches."""
    options = OfflineOptions.parse({"path": str(folder), "columns": columns})
    begin = time.process_time()
    rows = sum(
        batch.num_rows for work in plan(options) for batch in read_work(work, options, options.columns)
    )
    return rows, time.process_time() - begin


@click.command()
@click.option("--megabytes", type=click.IntRange(min=1), default=256, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
def main(megabytes: int, rounds: int) -> None:
    """Print ns of CPU per record, the best of some rounds."""
    built = "compiled" if str(collecting_cy.__file__).endswith((".so", ".pyd")) else "interpreted"
    click.echo(
        f"The scanner is {built}.\n\n| body | columns | ns per record | MB/s |\n| --- | --- | --- | --- |"
    )
    for body_bytes in (128, 1024):
        records = (megabytes << 20) // (body_bytes + ROOM_BYTES)
        with tempfile.TemporaryDirectory() as folder:
            size = fill(Path(folder), records, body_bytes)
            for name, columns in COLUMNS.items():
                seconds = []
                for _ in range(rounds):
                    rows, spent = scan(Path(folder), columns)
                    if rows != records:
                        raise click.ClickException(f"{rows} of {records} records were read")
                    seconds.append(spent)
                best = min(seconds)
                click.echo(
                    f"| {body_bytes} B | {name} | {best / records * 1e9:.0f} | {size / best / 1e6:.0f} |"
                )


if __name__ == "__main__":
    main()
