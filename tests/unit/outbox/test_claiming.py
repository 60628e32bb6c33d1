"""Rows of a batch belong to one relay, by their keys; and what became of them is noted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import Engine, event

from orbitmq import Message
from orbitmq.outbox import Outbox, counts
from orbitmq.outbox import claiming as claiming_module
from orbitmq.outbox.claiming import Noted, claim, note
from orbitmq.outbox.tables import LOCKS
from tests.kit.outbox import rows, states

NOW = 1_795_000_000_000
ROW_LOCKS = pytest.mark.parametrize("kind", ["postgresql", "mariadb"])


def write(outbox: Outbox, engine: Engine, *keys: str | None, topic: str = "orders") -> None:
    with engine.begin() as connection:
        outbox.add_all(connection, [Message(topic, b"x", sharding_key=key) for key in keys])


def claimed_keys(outbox: Outbox, connection: Any, **given: Any) -> list[str]:
    return [row["aggregateid"] for row in claim(outbox, connection, **{"batch_size": 100, **given}).rows]


def test_rows_come_in_the_order_in_which_they_were_written(outbox: Outbox, engine: Engine) -> None:
    write(outbox, engine, *"abcabcabc")
    with engine.begin() as connection:
        claimed = claim(outbox, connection, batch_size=100)
        assert [row["aggregateid"] for row in claimed.rows] == list("abcabcabc")
        note(outbox, connection, Noted(sent=[row["seq"] for row in claimed.rows[:4]]), NOW, keep_sent=True)
    with engine.begin() as connection:
        assert claimed_keys(outbox, connection) == list("bcabc")
    assert states(outbox, engine) == ["sent"] * 4 + ["pending"] * 5
    assert [row.sent_ms for row in rows(outbox, engine)[:4]] == [NOW] * 4


@ROW_LOCKS
def test_a_key_belongs_to_one_relay_at_a_time(outbox: Outbox, engine: Engine) -> None:
    write(outbox, engine, "a", "a", "b")
    with engine.connect() as one, engine.connect() as two:
        assert claimed_keys(outbox, one, batch_size=2) == ["a", "b"]
        assert claimed_keys(outbox, two) == []  # the second row of the key waits for the first
        one.rollback()  # as the end of its connection does
        assert claimed_keys(outbox, two) == ["a", "a", "b"]


@ROW_LOCKS
def test_relays_share_a_backlog(outbox: Outbox, engine: Engine) -> None:
    write(outbox, engine, *(str(number) for number in range(200)))
    with engine.connect() as one, engine.connect() as two, engine.connect() as three:
        parts = [set(claimed_keys(outbox, connection)) for connection in (one, two, three)]
    assert all(len(part) > 20 for part in parts)
    assert len(set.union(*parts)) == sum(map(len, parts))


@ROW_LOCKS
def test_a_transaction_that_commits_late_is_not_passed_over(outbox: Outbox, engine: Engine) -> None:
    with engine.connect() as late:
        outbox.add(late, Message("orders", b"late", sharding_key="a"))
        write(outbox, engine, "a")
        with engine.begin() as connection:
            [row] = claim(outbox, connection, batch_size=10).rows
            assert row["payload"] == b"x"
            note(outbox, connection, Noted(sent=[row["seq"]]), NOW, keep_sent=True)
        late.commit()
    with engine.begin() as connection:
        [late_row] = claim(outbox, connection, batch_size=10).rows
    assert late_row["payload"] == b"late"
    assert late_row["seq"] < row["seq"]


def test_all_keys_have_their_turn(outbox: Outbox, engine: Engine) -> None:
    write(outbox, engine, *(str(number) for number in range(500)))
    seen: set[str] = set()
    first_lock = 7
    for _ in range(LOCKS // claiming_module.LOCKS_AT_ONCE):
        with engine.connect() as connection:
            claimed = claim(outbox, connection, batch_size=500, first_lock=first_lock)
        first_lock = claimed.next_lock
        seen.update(row["aggregateid"] for row in claimed.rows)
    assert len(seen) == 500


def test_rows_of_topics_that_have_a_pause_are_left(outbox: Outbox, engine: Engine) -> None:
    write(outbox, engine, "a", topic="down")
    write(outbox, engine, "b")
    with engine.connect() as connection:
        assert claimed_keys(outbox, connection, waiting_topics={"down"}) == ["b"]
        assert claimed_keys(outbox, connection, waiting_topics={"down", "orders"}) == []


def test_a_batch_has_a_limit_in_bytes(
    outbox: Outbox, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming_module, "MAX_BATCH_BYTES", 250)
    with engine.begin() as connection:
        outbox.add_all(connection, [Message("orders", b"x" * 100, sharding_key="a") for _ in range(3)])
        outbox.add(connection, Message("orders", b"x" * 1000, sharding_key="a"))
    sizes = []
    for _ in range(3):
        with engine.begin() as connection:
            found = claim(outbox, connection, batch_size=100).rows
            sizes.append(len(found))
            note(outbox, connection, Noted(sent=[row["seq"] for row in found]), NOW, keep_sent=False)
    assert sizes == [2, 1, 1]
    assert rows(outbox, engine) == []


def test_a_blocked_key_waits_and_the_rows_of_others_go_on(outbox: Outbox, engine: Engine) -> None:
    write(outbox, engine, "a", "A", "a", "b")
    with engine.begin() as connection:
        first, _, third, _ = claim(outbox, connection, batch_size=100).rows
        noted = Noted(blocking={first["seq"]: "too large"}, held=[third["seq"]])
        note(outbox, connection, noted, NOW, keep_sent=True)
    write(outbox, engine, "a")
    with engine.begin() as connection:
        claimed = claim(outbox, connection, batch_size=100)
        assert [row["aggregateid"] for row in claimed.rows] == ["A", "b"]
        note(outbox, connection, Noted(held=claimed.held), NOW, keep_sent=True)
    assert states(outbox, engine) == ["blocking", "pending", "held", "pending", "held"]
    assert rows(outbox, engine)[0].reason == "too large"
    with engine.connect() as connection:
        assert claim(outbox, connection, batch_size=100).held == []


def test_rows_are_not_held_for_a_message_that_blocks_no_more(outbox: Outbox, engine: Engine) -> None:
    write(outbox, engine, "a")
    with engine.begin() as connection:
        [row] = claim(outbox, connection, batch_size=100).rows
        note(outbox, connection, Noted(held=[row["seq"]]), NOW, keep_sent=True)
    assert states(outbox, engine) == ["pending"]


def test_reasons_and_tries_are_noted(outbox: Outbox, engine: Engine) -> None:
    write(outbox, engine, "a", "b")
    for _ in range(2):
        with engine.begin() as connection:
            first, second = claim(outbox, connection, batch_size=100).rows
            note(outbox, connection, Noted(tried={first["seq"]: "no topic"}), NOW, keep_sent=True)
    with engine.begin() as connection:
        note(outbox, connection, Noted(parked={second["seq"]: "illegal"}), NOW, keep_sent=True)
    found = [(row.state, row.attempts, row.reason) for row in rows(outbox, engine)]
    assert found == [("pending", 2, "no topic"), ("parked", 1, "illegal")]


@pytest.mark.parametrize(
    ("kind", "explain", "scan"),
    [
        ("postgresql", "EXPLAIN", r"Seq Scan on orbitmq_outbox( |$)"),
        ("sqlite", "EXPLAIN QUERY PLAN", r"SCAN (orbitmq_outbox|blocking)( |$)"),
    ],
)
def test_a_look_reads_no_row_that_was_sent(outbox: Outbox, engine: Engine, explain: str, scan: str) -> None:
    write(outbox, engine, *(str(number) for number in range(5_000)))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE orbitmq_outbox SET state = 'sent', sent_ms = 1")
    write(outbox, engine, "a")
    statements = []

    @event.listens_for(engine, "before_cursor_execute")
    def keep(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        statements.append((statement, parameters))

    with engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE orbitmq_outbox")
        statements.clear()
        claim(outbox, connection, batch_size=100)
        counts(outbox, connection)
        looks = [one for one in statements if "state" in one[0] and "payload, " not in one[0]]
        assert len(looks) == 3
        for statement, parameters in looks:
            rows = connection.exec_driver_sql(f"{explain} {statement}", parameters).all()
            plan = "\n".join(str(row[-1]) for row in rows)
            assert "orbitmq_outbox_unsent" in plan
            assert re.search(scan, plan, re.MULTILINE) is None, plan
