"""Dead letters that go back: once, to where they belong, with an audit that says so."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from orbitmq import Admin
from orbitmq.admin.dead_letters.asked import Asked
from orbitmq.admin.dead_letters.journal import RedriveJournal, Run
from orbitmq.admin.dead_letters.redrive import Redrive
from orbitmq.cli.app import run as run_command
from orbitmq.spark.jobs.dlq.audit import Audit
from orbitmq.spark.jobs.dlq.running import DlqOptions
from orbitmq.spark.jobs.dlq.running import run as run_dlq
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.read.cluster import Cluster
from tests.kit.dead_letters import origin, plant
from tests.spark.conftest import Outgoing, Server, create_topic, ends, publish
from tests.spark.test_resend_jobs import CutOff, billing, cut_off, dlq_options, orders, stored

__all__ = ["billing", "orders"]  # fixtures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.testing import LocalBroker

AS_CLOCKS_GO = 0.95
"""Of the time that a rate takes: pauses are measured by another clock than births."""


def test_a_selection_goes_back_once_and_the_audit_says_so(
    spark: SparkSession, orbitmq_server: LocalBroker, billing: str, tmp_path: Path
) -> None:
    audit = str(tmp_path / "audit")
    options = dlq_options(
        orbitmq_server,
        billing,
        redrive=True,
        audit=audit,
        where="exception = 'Timeout' or originTopic is null",
        rate=1,
    )
    dry = run_dlq(
        dlq_options(orbitmq_server, billing, redrive=True, audit=audit, where=options.where, dry_run=True)
    )
    assert (dry.selected, dry.homeless, dry.sent) == (3, 1, 0)
    assert dry.topics == {f"invoices_{billing}": 2}
    done = run_dlq(options)
    assert (done.selected, done.homeless, done.sent) == (3, 1, 2)
    rows = stored(spark, orbitmq_server, f"invoices_{billing}")
    assert [row["keys"] for row in rows] == ["k1", "k0"]
    assert born_over_seconds(rows) >= AS_CLOCKS_GO, "one a second"
    [letter] = [row for row in stored(spark, orbitmq_server, f"%DLQ%{billing}") if row["keys"] == "k0"]
    assert rows[1].properties["orbitmq.redriven"] == letter.offsetMsgId
    assert "RETRY_TOPIC" not in rows[1].properties
    table = Audit(audit).table(spark).orderBy("keys").collect()
    assert [(row["keys"], row.result, row.sentAt is not None) for row in table] == [
        ("k0", "sent", True),
        ("k1", "sent", True),
        ("k5", "nowhere to send it: its topic is not known, or there is none of that name", False),
    ]
    assert all(row.by and row.selection == options.where for row in table)
    again = run_dlq(options)
    assert again.sent == 0
    assert len(stored(spark, orbitmq_server, f"invoices_{billing}")) == 2


def test_a_redrive_that_was_cut_off_is_carried_on(
    spark: SparkSession,
    orbitmq_server: LocalBroker,
    billing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = dlq_options(
        orbitmq_server,
        billing,
        redrive=True,
        audit=str(tmp_path / "audit"),
        where="group like 'billing%' and exception = 'Timeout'",
    )
    with monkeypatch.context() as patched:
        patched.setattr("orbitmq.spark.jobs.dlq.audit.Audit.finish", cut_off)
        with pytest.raises(CutOff):
            run_dlq(options)
    carried_on = run_dlq(options)
    assert len(carried_on.carried_on) == 1
    assert (carried_on.sent, carried_on.already_there, carried_on.selected) == (0, 2, 0)
    assert len(stored(spark, orbitmq_server, f"invoices_{billing}")) == 2


def test_a_letter_for_the_group_alone_comes_to_it_under_its_own_topic(
    orbitmq_server: LocalBroker, spark: SparkSession, billing: str, tmp_path: Path
) -> None:
    from orbitmq.sync import PushConsumer

    seen: list[tuple[str, bytes]] = []
    consumer = PushConsumer(billing, orbitmq_server.namesrv)
    consumer.subscribe(f"payments_{billing}", "*", lambda message: seen.append((message.topic, message.body)))
    with consumer:
        with Cluster([orbitmq_server.namesrv]) as cluster:
            deadline = time.monotonic() + 60
            while cluster.queues_of(f"%RETRY%{billing}") is None and time.monotonic() < deadline:
                time.sleep(0.05)
        done = run_dlq(
            dlq_options(
                orbitmq_server,
                billing,
                redrive=True,
                to="retry",
                audit=str(tmp_path / "audit"),
                where="keys = 'k4'",
            )
        )
        assert done.sent == 1
        deadline = time.monotonic() + 60
        while not seen and time.monotonic() < deadline:
            time.sleep(0.05)
    assert seen == [(f"payments_{billing}", b"plain words")]
    assert stored(spark, orbitmq_server, f"payments_{billing}") == [], "nobody else gets it"


def test_what_a_consumer_gave_up_is_a_letter_and_goes_back(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    """On both brokers: letters as brokers themselves make them."""
    from orbitmq.sync import FIRST_OFFSET, PushConsumer

    group = f"gives_up_{topic}"
    publish(server, topic, [Outgoing(b"poison", 1, {"KEYS": "k", "UNIQ_KEY": f"{1:032X}"})])

    def give_up(message: object) -> None:
        raise ValueError("never")

    consumer = PushConsumer(group, server.namesrv, max_reconsume_times=0, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic, "*", give_up)
    options = DlqOptions(
        JobSetup(namesrv=server.namesrv),
        f"%DLQ%{group}",
        redrive=True,
        audit=str(tmp_path / "audit"),
    )
    with consumer:
        deadline = time.monotonic() + 90
        while not _has_letters(server, group):
            assert time.monotonic() < deadline, "no dead letter came"
            time.sleep(0.1)
    result = run_dlq(options)
    assert [(row.originTopic, row.group) for row in result.groups] == [(topic, group)]
    assert (result.selected, result.homeless, result.sent) == (1, 0, 1)
    given = {"namesrv": server.namesrv, "subscribe": topic}
    rows = spark.read.format("orbitmq").options(**given).load().orderBy("storeTimestamp").collect()
    assert [(bytes(row.body), row["keys"]) for row in rows] == [(b"poison", "k"), (b"poison", "k")]
    assert rows[1].properties["orbitmq.firstMessageId"] == f"{1:032X}"
    assert rows[1].reconsumeTimes == 0


def _has_letters(server: Server, group: str) -> bool:
    """The topic of dead letters is made with the first one."""
    with Cluster([server.namesrv]) as cluster:
        known = cluster.queues_of(f"%DLQ%{group}")
    return bool(known) and ends(server, f"%DLQ%{group}", len(known)) > 0


def test_the_command_replays_what_was_stored_between_two_times_at_a_rate(
    spark: SparkSession, orbitmq_server: LocalBroker, orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(orbitmq_server, "replay_cli")
    found = {row["keys"]: millis(row.storeTimestamp) for row in stored(spark, orbitmq_server, orders)}
    times = sorted(found.values())
    assert len(set(times)) == 20, "no two were stored in one millisecond"
    since, until, rate = times[2], times[-2], 10
    between = {key for key, ms in found.items() if since <= ms < until}
    command = ["job", "replay", "-n", orbitmq_server.namesrv, "--topic", orders, "--to", "replay_cli"]
    chosen = ["--since", str(since), "--until", str(until), "--rate", str(rate)]
    assert run_command([*command, *chosen, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == len(between)
    sent = stored(spark, orbitmq_server, "replay_cli")
    assert {row["keys"] for row in sent} == between
    at_once = spark.sparkContext.defaultParallelism  # the first one of each task
    assert born_over_seconds(sent) >= AS_CLOCKS_GO * (len(between) - at_once) / rate


def millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def born_over_seconds(rows: list[Any]) -> float:
    """From the first message that left to the last one."""
    born = [millis(row.bornTimestamp) for row in rows]
    return (max(born) - min(born)) / 1000


def test_the_console_and_the_job_at_once_send_each_letter_once(
    spark: SparkSession, orbitmq_server: LocalBroker, tmp_path: Path
) -> None:
    """Each has a journal of its own; the second one at a letter finds it sent, whichever that is."""
    create_topic(orbitmq_server, "shared_redrive", queues=1)
    letters = origin("shared_redrive", exception="Timeout", exceptionAttempt="3", colour="blue")
    asyncio.run(plant(orbitmq_server.namesrv, "shared_group", 60, letters))

    async def by_console() -> Run:
        journal = RedriveJournal(tmp_path / "redrives.sqlite3")
        async with Admin(orbitmq_server.namesrv) as admin:
            console = Redrive(admin, "here", journal)
            run = await console.carry_out(await console.begin("shared_group", Asked(rate=20), "ann"))
        journal.close()
        return run

    options = dlq_options(orbitmq_server, "shared_group", redrive=True, audit=str(tmp_path / "audit"))
    with ThreadPoolExecutor(1) as threads:
        console = threads.submit(asyncio.run, by_console())
        done = run_dlq(options)
        run = console.result()
    assert run.state == "done"
    assert run.counts.get("sent", 0) + done.sent == 60
    rows = stored(spark, orbitmq_server, "shared_redrive")
    assert Counter(row["keys"] for row in rows) == Counter(f"l-{number}" for number in range(60))
    for row in rows:
        mine = {name: text for name, text in row.properties.items() if name.startswith(("o", "exc", "col"))}
        assert mine.pop("orbitmq.write").startswith("redrive/%DLQ%shared_group|")
        assert mine.pop("orbitmq.redriven") != row.properties["UNIQ_KEY"]
        assert mine == {
            "colour": "blue",
            "orbitmq.replays": "1",
            "orbitmq.firstMessageId": f"{int(row['keys'][2:]):032X}",
        }
    create_topic(orbitmq_server, "%RETRY%shared_group", queues=1)
    later = run_dlq(
        dlq_options(orbitmq_server, "shared_group", redrive=True, audit=str(tmp_path / "other"), to="retry")
    )
    assert (later.selected, later.homeless, later.sent, later.already_there) == (60, 0, 0, 60)


def test_a_letter_that_was_sent_again_often_enough_stays(orbitmq_server: LocalBroker, tmp_path: Path) -> None:
    create_topic(orbitmq_server, "often_redriven", queues=1)
    again = [{"orbitmq.replays": "3"}, {"orbitmq.replays": "2"}, {"orbitmq.replays": "x"}]
    for number, more in enumerate(again):
        asyncio.run(plant(orbitmq_server.namesrv, "often", 1, origin("often_redriven", **more), start=number))
    options = dlq_options(orbitmq_server, "often", redrive=True, audit=str(tmp_path / "audit"))
    done = run_dlq(options)
    assert (done.too_often, done.selected, done.sent) == (1, 2, 2)
