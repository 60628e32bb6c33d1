"""Searching a lake and live topics, of OrbitMQ and of Apache."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orbitmq.cli.app import run as run_command
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.archive.running import ArchiveOptions
from orbitmq.spark.jobs.archive.running import run as run_archive
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.search.matching import Found, Wanted, once
from orbitmq.spark.jobs.search.running import SearchOptions, SearchResult, run
from orbitmq.spark.lake.storage import LakeLocation
from tests.spark.conftest import Outgoing, Server, create_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.testing import LocalBroker

pytestmark = pytest.mark.timeout(900)

TOPIC = "searched"
ARCHIVED, SENT = 40, 60


@pytest.fixture(scope="module")
def lake(
    spark: SparkSession, orbitmq_server: LocalBroker, tmp_path_factory: pytest.TempPathFactory
) -> LakeLocation:
    """Forty messages in the lake, and twenty more in the broker only."""
    create_topic(orbitmq_server, TOPIC)
    location = LakeLocation(str(tmp_path_factory.mktemp("lake")))
    publish(orbitmq_server, TOPIC, messages(0, ARCHIVED))
    run_archive(ArchiveOptions(location, (TOPIC,), setup=JobSetup(orbitmq_server.namesrv)))
    publish(orbitmq_server, TOPIC, messages(ARCHIVED, SENT))
    return location


def messages(low: int, high: int) -> list[Outgoing]:
    return [
        Outgoing(
            f"order {n} of {n * 3} Ω".encode(),
            n % 4,
            {"KEYS": f"o-{n} all", "TAGS": "A" if n % 2 else "B", "UNIQ_KEY": f"{n:032X}", "n": str(n)},
        )
        for n in range(low, high)
    ]


def search(server: Server, wanted: Wanted, lake: LakeLocation | None = None, **more: Any) -> SearchResult:
    topics = more.pop("topics", (TOPIC,))
    return run(SearchOptions(wanted, topics, lake, setup=JobSetup(server.namesrv), **more))


def numbers(result: SearchResult) -> list[int]:
    return sorted(int(dict(one.properties)["n"]) for one in result.messages)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(key="o-7"), [7]),
        (Wanted(key="o-47"), [47]),
        (Wanted(key="o-"), []),
        (Wanted(message_id=f"{9:032X}"), [9]),
        (Wanted(message_id=f"{59:032X}"), [59]),
        (Wanted(properties=(("n", "8"), ("TAGS", "B"))), [8]),
        (Wanted(properties=(("n", "8"), ("TAGS", "A"))), []),
        (Wanted(text="of 132 Ω"), [44]),
        (Wanted(text="order 1", tag="A"), [1, 11, 13, 15, 17, 19]),
        (Wanted(pattern=r"order \d of"), list(range(10))),
        (Wanted(key="all", text="order 5"), [5, *range(50, 60)]),
    ],
)
def test_lake_and_live_together(
    orbitmq_server: LocalBroker, lake: LakeLocation, wanted: Wanted, found: list[int]
) -> None:
    result = search(orbitmq_server, wanted, lake)
    assert numbers(result) == found
    assert "lake" in result.places
    assert [one.store_ms for one in result.messages] == sorted(one.store_ms for one in result.messages)


def test_each_place_alone(orbitmq_server: LocalBroker, lake: LakeLocation) -> None:
    every = Wanted(key="all")
    assert numbers(search(orbitmq_server, every, lake, live=False)) == list(range(ARCHIVED))
    assert numbers(search(orbitmq_server, every, scan=True)) == list(range(SENT))
    limited = search(orbitmq_server, every, lake, limit=10)
    oldest = search(orbitmq_server, every, lake).messages[:10]
    assert (limited.messages, limited.cut) == (oldest, True)
    assert max(one.store_ms for one in oldest) <= min(
        one.store_ms for one in search(orbitmq_server, Wanted(key="o-20"), lake).messages
    )
    assert search(orbitmq_server, every, lake, live=False, topics=()).messages != []


def test_files_are_left_out_by_time(orbitmq_server: LocalBroker, lake: LakeLocation) -> None:
    now = int(time.time() * 1000)
    late = search(orbitmq_server, Wanted(since_ms=now + 3_600_000), lake, live=False)
    assert (late.files, late.files_left_out > 0, late.messages) == (0, True, [])
    all_of_it = search(orbitmq_server, Wanted(since_ms=now - 7_200_000, until_ms=now + 3_600_000), lake)
    assert numbers(all_of_it) == list(range(SENT))


@pytest.mark.usefixtures("spark")
def test_by_the_index_of_a_broker(server: Server, topic: str) -> None:
    """A unique key and an offset id lead to their message; without Spark where that is all that is asked."""
    publish(server, topic, messages(0, 20))
    deadline = time.monotonic() + 60
    while True:  # an index is behind by up to a second, and how far it is nobody tells
        result = search(server, Wanted(key="o-11"), topics=(topic,))
        if result.places == ("index",) or time.monotonic() > deadline:
            break
        assert numbers(result) == [11]
    assert (numbers(result), result.places) == ([11], ("index",))
    (one,) = result.messages
    for name in (one.message_id, one.offset_message_id):
        same = search(server, Wanted(message_id=name), topics=(topic,))
        assert (same.messages[0].name, same.places) == (one.name, ("index",))
        assert same.messages[0].body == "order 11 of 33 Ω".encode()


@pytest.mark.usefixtures("spark")
def test_the_command(
    orbitmq_server: LocalBroker, lake: LakeLocation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "found.html"
    where = ["job", "search", "-n", orbitmq_server.namesrv, "--lake", lake.url]
    assert run_command([*where, "--text", "order 4", "--tag", "B", "--json", "--report", str(page)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sorted(one["keys"] for one in told) == sorted(f"o-{n} all" for n in (4, *range(40, 50, 2)))
    assert {one["place"] for one in told} == {"lake", "topic"}
    assert "order 44 of 132 Ω" in page.read_text()
    assert run_command([*where, "--key", "o-7"]) == 0
    assert "1 found in lake" in capsys.readouterr().out
    for wrong in ([], ["--property", "x"]):
        assert run_command([*where, *wrong]) != 0
    assert run_command(["job", "search", "--no-live", "--key", "x"]) == 2
    capsys.readouterr()
    nowhere = str(tmp_path / "nowhere")
    assert run_command(["job", "search", "--lake", nowhere, "--no-live", "--key", "x"]) == 1
    assert "nowhere holds no lake" in capsys.readouterr().err
    for which, says in (
        (
            [*where, "--topic", TOPIC, "--topic", "serached"],
            "neither a broker nor the lake has a topic serached",
        ),
        ([*where, "--no-live", "--topic", "serached"], "the lake has no topic serached"),
        (["job", "search", "-n", orbitmq_server.namesrv, "-t", "serached"], "no broker has a topic serached"),
    ):
        assert run_command([*which, "--key", "x"]) == 1
        assert says in capsys.readouterr().err


@pytest.mark.usefixtures("spark")
def test_a_wrong_expression_is_told_in_a_line(orbitmq_server: LocalBroker, lake: LakeLocation) -> None:
    """Of a session of the job's own: Spark would show the stacks of its task several times before."""
    where = ["-n", orbitmq_server.namesrv, "--topic", TOPIC, "--master", "local[1]", "--memory", "512m"]
    command = [sys.executable, "-m", "orbitmq", "job", "search", *where, "--regex", "order ["]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Unclosed character class" in done.stderr.splitlines()[-1]
    assert done.stderr.count("Unclosed character class") == 1
    assert "\tat " not in done.stderr


def test_nothing_to_look_for_is_an_error() -> None:
    with pytest.raises(BadOption, match="nothing to look for"):
        Wanted().check()


def test_what_two_places_have_is_shown_once() -> None:
    def found(place: str, offset: int, at_ms: int) -> Found:
        return Found(place, "t", "b", 0, offset, at_ms, 0, None, None, "i", "o", b"")

    shown = once(
        [found("lake", 1, 50), found("lake", 2, 40), found("index", 1, 50), found("index", 3, 60)], 3
    )
    assert [(one.place, one.queue_offset) for one in shown] == [("lake", 2), ("lake", 1), ("index", 3)]
