"""The job `availability`: probes of brokers that come and go. They need no Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from orbitmq.cli.app import run as cli
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.availability import LOG_SCHEMA, AvailabilityOptions, run
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.ui import JobUi
from orbitmq.testing import LocalBroker
from tests.spark.conftest import Outgoing, Server, publish

pytestmark = pytest.mark.timeout(900)


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
    found = {(row["broker"].split()[0], row["topic"], row["operation"]): row for row in done.figures}
    assert set(found) == {
        ("name", "", "route"),
        ("broker-a", "orbitmq_probe", "send"),
        ("broker-a", "orbitmq_probe", "receive"),
        ("broker-a", topic, "receive"),
        ("broker-a", "nowhere", "receive"),
    }
    for (_, about, _), row in found.items():
        assert row["observations"] == (3 if about != "nowhere" else 4)
        assert row["up"] == (about != "nowhere"), row
    assert done.probes == 15
    (outage,) = done.outages
    assert (outage["topic"], outage["ongoing"], outage["failures"]) == ("nowhere", True, 3)
    assert "nowhere" in outage["error"]
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
    (sends,) = [row for row in done.figures if row["operation"] == "send"]
    assert (sends["observations"], sends["failures"], sends["outages"], sends["up"]) == (9, 3, 1, True)
    assert 0 < sends["downSeconds"] < sends["observedSeconds"]
    (outage,) = [row for row in done.outages if row["operation"] == "send"]
    assert (outage["failures"], outage["ongoing"]) == (3, False)
    assert outage["error"]
    # The same log again, without probes: a later run goes on where this one ended.
    again = run(AvailabilityOptions(log, samples=0, max_gap_s=600))
    assert [row["observations"] for row in again.figures] == [row["observations"] for row in done.figures]


def test_a_later_run_knows_brokers_that_are_gone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with LocalBroker(own_process=True, timeout_seconds=300) as server:
        first = options(server, log, samples=1, timeout_ms=60_000)
        run(first)
    done = run(first)
    sends = [row for row in done.figures if row["operation"] == "send"]
    assert [(row["observations"], row["failures"], row["up"]) for row in sends] == [(2, 1, False)]


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
    assert (row["broker"], row["observations"]) == ("b", 1)


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
