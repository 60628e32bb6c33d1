"""A slave's search for its master."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.server.ha import slave
from orbitmq.server.ha.slave import HaClient
from orbitmq.store.errors import StoreUnavailable


def client_of(replication: Any, ask_for_master: Callable[[], Awaitable[object]]) -> HaClient:
    """A slave's connection that nothing is behind."""
    nothing: Any = None
    settings: Any = SimpleNamespace(broker_name="broker-a")
    return HaClient(
        settings, nothing, replication, replication, nothing, now=lambda: 0, flush=ask_for_master,
        ask_for_master=ask_for_master, after_append=lambda now: None,
    )  # fmt: skip


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("patience", "is_said"), [(0.0, True), (1e9, False)])
async def test_a_slave_whose_master_nobody_knows_says_so_after_a_while(
    patience: float, is_said: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slave, "UNKNOWN_SECONDS", patience)
    monkeypatch.setattr(slave, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(slave, "ASK_SECONDS", 0.0)
    asked = asyncio.Event()
    tries = 0

    async def ask_for_master() -> None:
        nonlocal tries
        tries += 1
        if tries > 3:
            asked.set()

    client = client_of(SimpleNamespace(ha_address=""), ask_for_master)
    following = asyncio.create_task(client.run())
    await asked.wait()
    await end(following)
    said = [record.message for record in caplog.records]
    assert [("knows a master of broker-a" in line) for line in said] == ([True] if is_said else [])


async def test_a_slave_whose_disk_was_full_tries_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders waited for it five seconds longer than there was no room."""
    monkeypatch.setattr(slave, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(slave, "REFUSED_SECONDS", 1e9)
    tries, again = 0, asyncio.Event()

    async def follow_once(self: HaClient, address: str) -> None:
        nonlocal tries
        tries += 1
        if tries > 1:
            again.set()
        raise StoreUnavailable("the disk is too full")

    async def ask_for_master() -> None:
        pass

    monkeypatch.setattr(HaClient, "_follow_once", follow_once)
    replication = SimpleNamespace(ha_address="127.0.0.1:1", refusal="")
    following = asyncio.create_task(client_of(replication, ask_for_master).run())
    await again.wait()
    await end(following)
    assert replication.refusal == "the disk is too full"
