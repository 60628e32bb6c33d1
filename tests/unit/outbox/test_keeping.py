"""Counts, parked messages and their release; old rows go in small batches."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, update

from orbitmq import Message
from orbitmq.outbox import NoSuchMessage, Outbox, counts, discard, parked, release
from orbitmq.outbox.claiming import Noted, claim, note
from orbitmq.outbox.keeping import delete_sent
from tests.kit.outbox import rows, states

NOW = 1_795_000_000_000


@pytest.fixture
def ids(outbox: Outbox, engine: Engine) -> list[str]:
    """Messages: parked, blocking, held, held, pending, and one parked of another topic."""
    with engine.begin() as connection:
        made = [
            outbox.add(connection, Message(topic, b"xyz", sharding_key=key, tags="t"))
            for topic, key in [
                *(("orders", "a"), ("orders", "b"), ("orders", "b"), ("orders", "b"), ("orders", "c")),
                ("bills", None),
            ]
        ]
    with engine.begin() as connection:
        seq = [row["seq"] for row in claim(outbox, connection, batch_size=1000).rows]
        noted = Noted(
            parked={seq[0]: "illegal", seq[5]: "too late"}, blocking={seq[1]: "too large"}, held=seq[2:4]
        )
        note(outbox, connection, noted, NOW, keep_sent=True)
    assert states(outbox, engine) == ["parked", "blocking", "held", "held", "pending", "parked"]
    return made


def test_counts(outbox: Outbox, engine: Engine, ids: list[str]) -> None:
    with engine.begin() as connection:
        found = counts(outbox, connection)
    assert (found.pending, found.held, found.parked) == (1, 2, 3)
    assert found.oldest_pending_ms == rows(outbox, engine)[4].created_ms
    assert found.age_ms(found.oldest_pending_ms + 5) == 5


def test_an_empty_outbox_has_no_age(outbox: Outbox, engine: Engine) -> None:
    with engine.begin() as connection:
        assert counts(outbox, connection).age_ms(NOW) == 0


def test_parked_messages_are_listed_with_their_reasons(
    outbox: Outbox, engine: Engine, ids: list[str]
) -> None:
    with engine.connect() as connection:
        found = parked(outbox, connection)
        assert [(one.id, one.topic, one.key, one.reason, one.blocks_key) for one in found] == [
            (ids[0], "orders", "a", "illegal", False),
            (ids[1], "orders", "b", "too large", True),
            (ids[5], "bills", None, "too late", False),
        ]
        assert (found[0].size_bytes, found[0].attempts, found[0].tag) == (3, 1, "t")
        assert [one.id for one in parked(outbox, connection, topic="bills")] == [ids[5]]
        assert [one.id for one in parked(outbox, connection, limit=1)] == [ids[0]]


def test_a_release_has_the_key_go_on_in_its_order(outbox: Outbox, engine: Engine, ids: list[str]) -> None:
    with engine.begin() as connection:
        assert release(outbox, connection, ids=[ids[1]]) == 1
    assert states(outbox, engine) == ["parked", "pending", "pending", "pending", "pending", "parked"]
    assert rows(outbox, engine)[1].attempts == 0


def test_a_release_of_a_topic_and_of_all(outbox: Outbox, engine: Engine, ids: list[str]) -> None:
    with engine.begin() as connection:
        assert release(outbox, connection, topic="bills") == 1
        assert release(outbox, connection) == 2
        assert release(outbox, connection) == 0
    assert states(outbox, engine) == ["pending"] * 6


def test_a_discarded_message_is_gone_and_its_key_goes_on(
    outbox: Outbox, engine: Engine, ids: list[str]
) -> None:
    with engine.begin() as connection:
        assert discard(outbox, connection, ids=[ids[1]]) == 1
    assert states(outbox, engine) == ["parked", "pending", "pending", "pending", "parked"]


def test_an_id_that_is_not_parked_is_told_and_nothing_is_released(
    outbox: Outbox, engine: Engine, ids: list[str]
) -> None:
    with pytest.raises(NoSuchMessage, match=ids[4]), engine.begin() as connection:
        release(outbox, connection, ids=[ids[0], ids[4]])
    assert states(outbox, engine)[0] == "parked"


def test_old_rows_go_in_batches_and_others_stay(outbox: Outbox, engine: Engine, ids: list[str]) -> None:
    with engine.begin() as connection:
        outbox.add_all(connection, [Message("orders", b"x") for _ in range(5)])
        sent = outbox.messages.c.payload == b"x"
        connection.execute(update(outbox.messages).where(sent).values(state="sent", sent_ms=NOW))
        assert delete_sent(outbox, connection, NOW, 100) == 0
        assert delete_sent(outbox, connection, NOW + 1, 3) == 3
        assert delete_sent(outbox, connection, NOW + 1, 3) == 2
    assert len(rows(outbox, engine)) == 6


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_one_relay_deletes_at_a_time(outbox: Outbox, engine: Engine) -> None:
    with engine.connect() as one, engine.connect() as two:
        assert delete_sent(outbox, one, NOW, 100) == 0
        assert delete_sent(outbox, two, NOW, 100) is None
