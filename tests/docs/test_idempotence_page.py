"""The page on idempotence: its programs run, and give each message one effect."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orbitmq.idempotence.contract import DEFAULT_RETENTION_HOURS
from orbitmq.idempotence.decorating import AWAY_PAUSE_MS, BUSY_PAUSE_MS
from orbitmq.idempotence.redis_stores import LEASE_SECONDS
from orbitmq.idempotence.rows import SQLITE_WAIT_MS, TABLE
from tests.kit.client_messages import received

PAGE = Path(__file__).parents[2] / "docs" / "develop" / "idempotence.md"
TEXT = PAGE.read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def block_with(text: str) -> str:
    return next(block for block in BLOCKS if text in block)


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_compiles_and_imports_what_there_is(text: str) -> None:
    compile(text, str(PAGE), "exec")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, alias.name) for alias in node.names)


def accounts() -> None:
    with closing(sqlite3.connect("shop.db")) as database, database:
        database.execute("CREATE TABLE accounts (id INTEGER, balance INTEGER)")
        database.execute("INSERT INTO accounts VALUES (1, 100)")


def balance() -> int:
    with closing(sqlite3.connect("shop.db")) as database:
        return int(database.execute("SELECT balance FROM accounts").fetchone()[0])


def test_the_programs_act_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    accounts()
    plain: dict[str, Any] = {}
    exec(block_with("SqlAlchemyStore(sessionmaker"), plain)
    plain["store"].create_table()
    handler = plain["transfer"].for_group("payments", batch=False)
    for number in (1, 1, 2):
        handler(received(number, UNIQ_KEY="ID", transferId=f"t{number}"))
    plain["engine"].dispose()
    assert balance() == 90

    api: dict[str, Any] = {}
    exec(block_with("async_claim"), api)

    async def deliver() -> None:
        # The same group, topic and name: the keys of the first program count.
        for number in (2, 3, 3):
            await api["transfer"](received(number, UNIQ_KEY="ID", transferId=f"t{number}"))
        await api["engine"].dispose()

    asyncio.run(deliver())
    assert balance() == 85


def test_figures_and_names_are_those_of_the_code() -> None:
    for figure in (
        f"for {BUSY_PAUSE_MS:g} ms (`busy_pause_ms`)",
        f"for {AWAY_PAUSE_MS / 1000:g} s, with the reason",
        f"`retention_hours={DEFAULT_RETENTION_HOURS:g}`",
        f"`lease_seconds={LEASE_SECONDS:g}`",
        f"waits for {SQLITE_WAIT_MS} ms",
        f"`{TABLE}`",
    ):
        assert figure in TEXT
