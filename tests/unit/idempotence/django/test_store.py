"""The store for Django: key and effect are one atomic block, on every database."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from orbitmq.client import HoldBack, InvalidArgument, ReceivedMessage, Reply, Retry
from orbitmq.idempotence import (
    DjangoStore,
    Event,
    KeyConflict,
    Once,
    StoreUnavailable,
    TableMissing,
    TransactionEnded,
    once,
)
from tests.kit.client_messages import received
from tests.kit.databases import mariadb_server, postgres_server


@pytest.fixture(params=["default", "postgresql", "mariadb"])
def alias(request: pytest.FixtureRequest, project: list[str]) -> Iterator[str]:
    yield request.param
    execute(request.param, "DELETE FROM effects")
    execute(request.param, "DELETE FROM orbitmq_handled_messages")
    connections.close_all()


def execute(alias: str, statement: str, *values: object) -> list[Any]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if statement.startswith("SELECT") else []


def effects(alias: str) -> list[str]:
    return [row[0] for row in execute(alias, "SELECT name FROM effects ORDER BY name")]


def order(number: int, body: bytes = b"body", **properties: str) -> ReceivedMessage:
    return received(number, body, **{"UNIQ_KEY": f"ID{number}", **properties})


def guarded(alias: str, **options: Any) -> Once:
    return once(DjangoStore(alias), **{"group": "g", "name": "h", "busy_pause_ms": 7, **options})


def booking(alias: str) -> Callable[[ReceivedMessage], None]:
    return lambda message: execute(alias, "INSERT INTO effects VALUES (%s)", message.message_id)[:0] or None


def test_key_and_effect_are_committed_together_and_once(alias: str) -> None:
    guard = guarded(alias, keep_result=True)

    def work(message: ReceivedMessage) -> Reply:
        booking(alias)(message)
        return Reply(b"\xff1")

    handler = guard(work)
    assert handler(order(1)).body == handler(order(1)).body == b"\xff1"
    with pytest.raises(KeyConflict):
        handler(order(1, b"other"))
    assert effects(alias) == ["ID1"]
    assert (guard.counts[Event.HANDLED], guard.counts[Event.DUPLICATE], guard.counts[Event.CONFLICT]) == (
        1,
        1,
        1,
    )
    assert guard.store.count() == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("failure", [ValueError("no"), Retry(2)], ids=["error", "retry"])
def test_a_failure_leaves_neither_key_nor_effect(alias: str, failure: Exception) -> None:
    failures = [failure]

    def work(message: ReceivedMessage) -> None:
        booking(alias)(message)
        if failures:
            raise failures.pop()

    handler = guarded(alias)(work)
    with (
        pytest.raises(ValueError, match="no") if isinstance(failure, ValueError) else contextlib.nullcontext()
    ):
        assert handler(order(1)) == Retry(2)
    assert effects(alias) == []
    assert handler(order(1)) is None
    assert effects(alias) == ["ID1"]


def test_a_second_delivery_meanwhile_does_not_wait(alias: str) -> None:
    began, end, results = threading.Event(), threading.Event(), list[Any]()

    def work(message: ReceivedMessage) -> None:
        booking(alias)(message)
        began.set()
        end.wait(60)

    def first() -> None:
        results.append(guarded(alias)(work)(order(1)))
        connections.close_all()

    thread = threading.Thread(target=first)
    thread.start()
    began.wait(60)
    handler = guarded(alias)(booking(alias))
    assert handler(order(1)) == HoldBack(7)
    if alias != "default":
        assert handler(order(2)) is None
    end.set()
    thread.join()
    assert results == [None]
    assert handler(order(1)) is None
    assert effects(alias) == (["ID1"] if alias == "default" else ["ID1", "ID2"])


@pytest.mark.parametrize("how", ["set_rollback", "caught error"])
def test_a_handler_whose_block_is_rolled_back_is_not_done(alias: str, how: str) -> None:
    def work(message: ReceivedMessage) -> None:
        booking(alias)(message)
        if how == "set_rollback":
            transaction.set_rollback(True, using=alias)
        else:
            with contextlib.suppress(ValueError), transaction.atomic(alias, savepoint=False):
                raise ValueError

    with pytest.raises(TransactionEnded, match="nothing was committed"):
        guarded(alias)(work)(order(1))
    assert effects(alias) == []
    assert guarded(alias)(booking(alias))(order(1)) is None


def test_django_refuses_a_commit_and_blocks_within_are_savepoints(alias: str) -> None:
    def commits(message: ReceivedMessage) -> None:
        booking(alias)(message)
        transaction.commit(using=alias)

    with pytest.raises(transaction.TransactionManagementError):
        guarded(alias)(commits)(order(1))

    def ends(message: ReceivedMessage) -> None:
        booking(alias)(message)
        execute(alias, "COMMIT")

    with pytest.raises(TransactionEnded, match="statement COMMIT"):
        guarded(alias)(ends)(order(1))
    assert effects(alias) == []

    def nests(message: ReceivedMessage) -> None:
        booking(alias)(message)
        with contextlib.suppress(ValueError), transaction.atomic(alias):
            booking(alias)(order(9))
            raise ValueError

    assert guarded(alias)(nests)(order(1)) is None
    assert effects(alias) == ["ID1"]


def test_a_batch_releases_what_comes_again(alias: str) -> None:
    def work(messages: list[ReceivedMessage]) -> Retry | None:
        failed = [one for one in messages if one.message_id == "ID2"]
        for message in messages:
            if message not in failed:
                booking(alias)(message)
        return Retry(messages=failed) if failed else None

    batch = [order(1), order(2), order(3)]
    assert guarded(alias)(work)(batch) == Retry(messages=batch[1:2])
    assert (
        guarded(alias)(lambda messages: [booking(alias)(one) for one in messages][:0] or None)(batch) is None
    )
    assert effects(alias) == ["ID1", "ID2", "ID3"]


def test_a_claim_in_a_block_of_the_users(alias: str) -> None:
    guard = guarded(alias)
    with pytest.raises(InvalidArgument, match="an atomic block is needed"):
        guard.claim(alias, order(1))
    for seen in (False, True):
        with transaction.atomic(alias):
            assert (guard.claim(alias, order(1)) is not None) is seen
    with pytest.raises(InvalidArgument, match="is of the database"):
        guard.claim("other", order(1))


def test_old_keys_go_in_small_batches(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.idempotence.django.store.PURGE_BATCH", 2)
    store = DjangoStore(alias)
    handler = once(store, group="g")(booking(alias))
    for number in range(5):
        handler(order(number))
    execute(alias, "UPDATE orbitmq_handled_messages SET done_at_ms = 1 WHERE message_id <> 'ID3'")
    with CaptureQueriesContext(connections[alias]) as queries:  # type: ignore[arg-type]
        assert store.purge(168 * 3_600_000 + 2) == 4
    assert sum(query["sql"].startswith("DELETE") for query in queries.captured_queries) == 2
    assert store.count() == 1


def test_the_migration_is_complete(project: list[str]) -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_a_missing_table_says_how_to_make_it(alias: str) -> None:
    execute(alias, "ALTER TABLE orbitmq_handled_messages RENAME TO gone")
    try:
        with pytest.raises(HoldBack) as raised:
            guarded(alias)(booking(alias))(order(1))
        assert isinstance(raised.value.__cause__, TableMissing)
        assert "manage.py migrate" in str(raised.value.__cause__)
        with pytest.raises(TableMissing):
            DjangoStore(alias).purge(0)
    finally:
        execute(alias, "ALTER TABLE gone RENAME TO orbitmq_handled_messages")


def test_a_database_that_is_away_holds_messages_back_until_it_is_back(alias: str) -> None:
    if alias == "default":
        return
    server = postgres_server() if alias == "postgresql" else mariadb_server()
    guard = guarded(alias)
    handler = guard(booking(alias))
    handler(order(1))
    server.stop()
    try:
        for _ in range(2):
            with pytest.raises(HoldBack) as raised:
                handler(order(2))
            assert isinstance(raised.value.__cause__, StoreUnavailable)
    finally:
        server.start()
    handler(order(2))
    handler(order(1))
    assert effects(alias) == ["ID1", "ID2"]


def test_arguments(project: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="using has to be the alias"):
        DjangoStore("")

    async def handle(message: ReceivedMessage) -> None: ...

    with pytest.raises(InvalidArgument, match="DjangoStore is for plain handlers"):
        once(DjangoStore())(handle)
