"""Availability: the definitions against cases worked out by hand, and probes of brokers that come and go."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from orbitmq.cli.app import run as cli
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.availability import LOG_SCHEMA, AvailabilityOptions, run
from orbitmq.spark.jobs.availability_tables import (
    OBSERVATION_DDL,
    availability,
    bucketed,
    from_trace,
    outages,
)
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.trace_records import RECORD_DDL
from orbitmq.spark.jobs.ui import JobUi
from orbitmq.testing import LocalBroker
from tests.spark.conftest import Outgoing, Server, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("spark")]

START = datetime(2026, 1, 2, 3, 4, 5)
GAP_S = 30

UP, DOWN = True, False
Tries = list[tuple[float, bool]]
CASES: dict[str, Tries] = {
    # Down from 20 to 40 and from 60 to 70, of 100 seconds.
    "two outages": [
        (0, UP), (10, UP), (20, DOWN), (30, DOWN), (40, UP), (50, UP), (60, DOWN), (70, UP), (100, UP),
    ],
    "well": [(n, UP) for n in range(100)],
    # Down when the job stopped at 20, up when it began again at 1000: nobody knows what was in between.
    "stopped while down": [(0, UP), (10, UP), (20, DOWN), (1000, UP), (1010, UP)],
    "stopped later": [(0, UP), (10, DOWN), (20, DOWN), (1000, UP)],
    "a gap among failures": [(0, DOWN), (10, DOWN), (1000, DOWN), (1010, UP), (1020, UP)],
    "lasting": [(0, UP), (10, DOWN), (20, DOWN), (30, DOWN)],
    "down throughout": [(0, DOWN), (10, DOWN)],
    "tried once": [(0, DOWN)],
}  # fmt: skip
"""By a name, which is the topic's: seconds, and whether it worked."""


def observed(spark: SparkSession, cases: dict[str, Tries]) -> DataFrame:
    rows = [
        (START + timedelta(seconds=at), "b", "h:1", topic, "send", ok, 2.0, None if ok else f"at {at:g}")
        for topic, tries in cases.items()
        for at, ok in tries
    ]
    return spark.createDataFrame(rows, OBSERVATION_DDL)


@pytest.fixture(scope="module")
def figures(spark: SparkSession) -> dict[str, Any]:
    """The figures of each case: that they do not mix is part of the test."""
    return {row.topic: row.asDict() for row in availability(observed(spark, CASES), GAP_S).collect()}


@pytest.fixture(scope="module")
def outages_of(spark: SparkSession) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in CASES}
    for row in outages(observed(spark, CASES), GAP_S).collect():
        found[row.topic].append(row)
    return found


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_two_outages_worked_out_by_hand(figures: dict[str, Any], outages_of: dict[str, Any]) -> None:
    found = figures["two outages"]
    assert (found["observedSeconds"], found["downSeconds"], found["outages"]) == (100, 30, 2)
    assert found["timeAvailability"] == pytest.approx(0.7)
    assert found["timeNines"] == pytest.approx(-math.log10(0.3))
    assert (found["mtbfSeconds"], found["mttrSeconds"]) == (35, 15)
    assert found["timeAvailability"] == pytest.approx(35 / (35 + 15)), "A = MTBF / (MTBF + MTTR)"
    assert (found["observations"], found["failures"]) == (9, 3)
    assert found["requestAvailability"] == pytest.approx(6 / 9)
    assert found["requestNines"] == pytest.approx(-math.log10(3 / 9))
    assert (found["up"], found["since"], found["until"]) == (True, START, after(100))
    told = outages_of["two outages"]
    assert [(r.began, r.ended, r.seconds, r.failures, r.ongoing, r.error) for r in told] == [
        (after(20), after(40), 20, 2, False, "at 20"),
        (after(60), after(70), 10, 1, False, "at 60"),
    ]


def test_without_a_failure_there_is_no_number_of_nines_but_a_least_one(
    figures: dict[str, Any], outages_of: dict[str, Any]
) -> None:
    found = figures["well"]
    assert found["timeAvailability"] == 1
    assert (found["timeNines"], found["requestNines"]) == (None, None)
    assert (found["mtbfSeconds"], found["mttrSeconds"], found["outages"]) == (None, None, 0)
    # Wilson: z²/(n + z²) with z = 1.645 may fail.
    assert found["requestNinesAtLeast"] == pytest.approx(1.579, abs=0.001)
    assert outages_of["well"] == []


def test_a_time_without_observations_is_neither_up_nor_down(
    figures: dict[str, Any], outages_of: dict[str, Any]
) -> None:
    found = figures["stopped while down"]
    assert (found["observedSeconds"], found["downSeconds"], found["outages"]) == (30, 0, 1)
    (told,) = outages_of["stopped later"]
    assert (told.ongoing, told.ended, told.seconds) == (True, None, 10)
    # A gap in the middle of failures makes two outages of them.
    found = figures["a gap among failures"]
    assert (found["outages"], found["downSeconds"], found["observedSeconds"]) == (2, 20, 30)


def test_an_outage_that_lasts(figures: dict[str, Any], outages_of: dict[str, Any]) -> None:
    found = figures["lasting"]
    assert (found["up"], found["downSeconds"], found["observedSeconds"]) == (False, 20, 30)
    assert (found["mtbfSeconds"], found["mttrSeconds"]) == (10, 20)
    (told,) = outages_of["lasting"]
    assert (told.ongoing, told.ended, told.seconds) == (True, None, 20)


def test_down_from_the_first_to_the_last(figures: dict[str, Any]) -> None:
    found = figures["down throughout"]
    assert (found["timeAvailability"], found["timeNines"]) == (0, 0)
    assert (found["mtbfSeconds"], found["mttrSeconds"]) == (0, 10)
    once = figures["tried once"]
    assert (once["timeAvailability"], once["observedSeconds"], once["outages"]) == (None, 0, 1)


def test_many_clients_at_once_are_looked_at_by_stretches(spark: SparkSession) -> None:
    # 0 to 10: one of three fails. 10 to 20: two of three. 20 to 30: all work. START is five seconds in.
    tries = [(0, UP), (1, DOWN), (2, UP), (11, DOWN), (12, DOWN), (13, UP), (21, UP)]
    seen = observed(spark, {"t": [(at - 5, ok) for at, ok in tries]})
    found = bucketed(seen, 10).orderBy("at").collect()
    assert [(row.ok, row.error) for row in found] == [(True, "at -4"), (False, "at 6"), (True, None)]
    assert [row.ok for row in bucketed(seen, 10, ok_share=0.8).orderBy("at").collect()] == [
        False,
        False,
        True,
    ]


def test_from_trace(spark: SparkSession) -> None:
    def told(**given: Any) -> tuple[Any, ...]:
        names = [column.split()[0] for column in RECORD_DDL.split(", ")]
        return tuple(
            ({"kind": "Pub", "at": START, "topic": "t", "storeHost": "h:1"} | given).get(n) for n in names
        )

    rows = [told(success=True, costMs=4), told(success=False), told(kind="SubAfter"), told(storeHost=None)]
    found = from_trace(spark.createDataFrame(rows, RECORD_DDL)).orderBy("ok").collect()
    assert [(row.broker, row.operation, row.ok, row.latencyMs) for row in found] == [
        ("h:1", "send", False, None),
        ("h:1", "send", True, 4.0),
    ]
    assert "SEND_OK" in found[0].error


def options(server: Server, log: Path, **more: Any) -> AvailabilityOptions:
    setup = {name: more.pop(name) for name in ("report", "dry_run") if name in more}
    return AvailabilityOptions(
        log, JobSetup(server.namesrv, **setup), **({"every_s": 0.2, "samples": 3} | more)
    )


def test_probes_of_a_broker_that_is_well(server: Server, topic: str, tmp_path: Path) -> None:
    """And of a topic that was there in an earlier run, and is gone."""
    publish(server, topic, [Outgoing(b"x")])
    page = tmp_path / "a.html"
    seen = {"broker": "broker-a", "address": server.broker, "topic": "nowhere", "operation": "receive"}
    once = pa.Table.from_pylist([{**seen, "at": datetime(2026, 1, 1, tzinfo=UTC), "ok": True}], LOG_SCHEMA)
    (tmp_path / "log").mkdir()
    pq.write_table(once, tmp_path / "log" / "1-1-1.parquet")
    done = run(
        options(
            server, tmp_path / "log", topics=(topic, "nowhere"), report=page, timeout_ms=60_000, max_gap_s=600
        )
    )
    found = {(row.broker.split()[0], row.topic, row.operation): row for row in done.figures}
    assert set(found) == {
        ("name", "", "route"),
        ("broker-a", "orbitmq_probe", "send"),
        ("broker-a", "orbitmq_probe", "receive"),
        ("broker-a", topic, "receive"),
        ("broker-a", "nowhere", "receive"),
    }
    for (_, about, _), row in found.items():
        assert row.observations == (3 if about != "nowhere" else 4)
        assert row.up == (about != "nowhere"), row
    assert done.probes == 15
    (outage,) = done.outages
    assert (outage.topic, outage.ongoing, outage.failures) == ("nowhere", True, 3)
    assert "nowhere" in outage.error
    text = page.read_text()
    assert text.count("<svg") == 3
    assert "nowhere" in text


def test_a_dry_run_sends_nothing(orbitmq_server: Server, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = run(options(orbitmq_server, log, topics=("orders",), dry_run=True, probe_topic="never_made"))
    assert [line.split(":")[0] for line in done.planned] == ["route", "send, receive", "receive"]
    assert not log.exists()
    # A later look finds no such topic.
    with pytest.raises(BadOption, match="topic never_made does not exist"):
        run(options(orbitmq_server, log, topics=("never_made",), probe_topic="", samples=1))


class Stopping(JobUi):
    """Stops the broker after some samples, and starts it again later, as an operator would."""

    def __init__(self, acts: dict[int, Callable[[], object]]) -> None:
        super().__init__(quiet=True)
        self.acts = acts
        self.samples = 0

    def progress(self, what: str, total: int | None = None) -> Any:
        outer = super().progress(what, total)
        ui = self

        class Counting:
            def __enter__(self) -> Any:
                outer.__enter__()
                return self

            def __exit__(self, *error: Any) -> None:
                outer.__exit__(*error)

            def note(self, text: str) -> None:
                pass

            def set(self, **values: Any) -> None:
                pass

            def advance(self, by: int = 1) -> None:
                ui.samples += 1
                act = ui.acts.pop(ui.samples, None)
                if act is not None:
                    acting = threading.Thread(target=act)
                    acting.start()
                    acting.join()

        return Counting()


def test_a_broker_that_is_stopped_and_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with LocalBroker(own_process=True, timeout_seconds=300) as server:
        ui = Stopping({3: server.kill, 6: server.start})
        run_options = options(server, log, samples=9, timeout_ms=60_000, max_gap_s=600)
        done = run(run_options, ui)
    (sends,) = [row for row in done.figures if row.operation == "send"]
    assert (sends.observations, sends.failures, sends.outages, sends.up) == (9, 3, 1, True)
    assert 0 < sends.downSeconds < sends.observedSeconds
    (outage,) = [row for row in done.outages if row.operation == "send"]
    assert (outage.failures, outage.ongoing) == (3, False)
    assert outage.error
    # The same log again, without probes: a later run goes on where this one ended.
    again = run(AvailabilityOptions(log, samples=0, max_gap_s=600))
    assert [row.observations for row in again.figures] == [row.observations for row in done.figures]


def test_a_later_run_knows_brokers_that_are_gone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with LocalBroker(own_process=True, timeout_seconds=300) as server:
        first = options(server, log, samples=1, timeout_ms=60_000)
        run(first)
    done = run(first)
    sends = [row for row in done.figures if row.operation == "send"]
    assert [(row.observations, row.failures, row.up) for row in sends] == [(2, 1, False)]


def test_half_a_file_is_not_read(tmp_path: Path) -> None:
    """As a crash leaves one."""
    log = tmp_path / "log"
    log.mkdir()
    rows = pa.Table.from_pylist(
        [
            {
                "at": datetime(2026, 1, 1, tzinfo=UTC),
                "broker": "b",
                "topic": "t",
                "operation": "send",
                "ok": True,
            }
        ]
    )
    pq.write_table(rows, log / "1-1-1.parquet")
    (log / "_2-1-1.parquet").write_bytes(b"PAR1 and no more")
    (row,) = run(AvailabilityOptions(log, samples=0)).figures
    assert (row.broker, row.observations) == ("b", 1)


def test_the_command(orbitmq_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["job", "availability", "-n", orbitmq_server.namesrv]
    assert (
        cli([*base, "--log", str(tmp_path / "log"), "--samples", "1", "--timeout-ms", "60000", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert {row["operation"] for row in found} == {"route", "send", "receive"}
    assert all(row["up"] for row in found)
    assert cli(base) == 2
    assert cli([*base, "--log", "x", "--trace", "y"]) == 2
