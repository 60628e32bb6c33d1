import json
from pathlib import Path

import httpx

from orbitmq.admin.admin import BrokerAt
from orbitmq.admin.clusters import BrokerState
from orbitmq.admin.progress import GroupSummary
from orbitmq.console.api.overview import overview_of
from orbitmq.console.sampling import Sample
from orbitmq.testing import LocalBroker
from tests.kit.running_console import RunningConsole


def broker(broker_id: int, log_end: int | None, state: str = "active") -> BrokerState:
    return BrokerState(BrokerAt("c", "a", broker_id, f"h:{broker_id}"), state, in_tps=2.0, log_end=log_end)


def test_a_slave_is_behind_by_the_bytes_its_log_lacks() -> None:
    overview = overview_of(Sample(1, [broker(0, 500), broker(1, 420), broker(2, None, "down")]))
    assert [one.behind_bytes for one in overview.brokers] == [None, 80, None]
    assert overview.totals.in_tps == 2.0, "what slaves copy does not come in again"


def test_groups_furthest_behind_come_first_and_ten_at_most() -> None:
    groups = [GroupSummary(f"g{lag}", 1, lag, 0, 0.0) for lag in range(20)]
    overview = overview_of(Sample(1, [], groups))
    assert [one.lag for one in overview.groups] == list(range(19, 9, -1))
    assert overview.group_count == 20


def test_a_sample_with_errors_has_no_sums_that_would_be_too_small() -> None:
    overview = overview_of(Sample(1, [], [GroupSummary("g", 1, 5, 0, 0.0)], errors=["x", "x"]))
    assert overview.totals.lag is None
    assert overview.errors == ["x"]


def test_the_overview_and_its_events_are_those_of_the_broker(
    api: httpx.Client, console_broker: LocalBroker
) -> None:
    overview = api.get("/api/clusters/here/overview").json()
    assert [(one["address"], one["state"]) for one in overview["brokers"]] == [
        (console_broker.broker, "active")
    ]
    # If looks take long, the next one comes after the longest pause, a minute.
    with api.stream("GET", "/api/clusters/here/overview/events", timeout=180) as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        line = next(one for one in events.iter_lines() if one.startswith("data: "))
    assert json.loads(line[6:])["atMs"] > overview["atMs"]
    history = api.get("/api/clusters/here/history").json()
    assert len(history["times"]) == len(history["series"]["lag"]) >= 2


def test_a_cluster_that_is_gone_says_so_in_its_overview(api: httpx.Client) -> None:
    overview = api.get("/api/clusters/gone/overview").json()
    assert overview["brokers"] == []
    assert "cannot connect to 127.0.0.1:1" in overview["errors"][0]


def test_charts_go_on_after_a_restart_where_a_file_keeps_them(
    console_broker: LocalBroker, tmp_path: Path
) -> None:
    kept = tmp_path / "history.sqlite3"
    runs = []
    for _ in range(2):
        with RunningConsole(tmp_path, history_file=kept, here=console_broker.namesrv) as running:
            api = running.client()
            api.get("/api/clusters/here/overview")
            runs.append(api.get("/api/clusters/here/history").json())
    first, second = runs
    points = len(first["times"])
    assert points >= 1
    assert second["times"][:points] == first["times"]
    assert {name: values[:points] for name, values in second["series"].items()} == first["series"]
    assert None in second["series"]["lag"], "the time without a console is a gap"
