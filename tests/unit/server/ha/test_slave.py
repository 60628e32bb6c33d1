"""A slave's search for its master."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.server.ha import slave
from orbitmq.server.ha.slave import HaClient


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

    settings, replication = SimpleNamespace(broker_name="broker-a"), SimpleNamespace(ha_address="")
    nothing: Any = None
    client = HaClient(
        settings,  # type: ignore[arg-type]
        nothing,
        replication,  # type: ignore[arg-type]
        nothing,
        now=lambda: 0,
        flush=ask_for_master,
        ask_for_master=ask_for_master,
        after_append=lambda now: None,
    )
    following = asyncio.create_task(client.run())
    await asked.wait()
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    said = [record.message for record in caplog.records]
    assert [("knows a master of broker-a" in line) for line in said] == ([True] if is_said else [])
