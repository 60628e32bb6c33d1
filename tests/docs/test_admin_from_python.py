"""The Python of the page of commands does what it says, on a broker."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

import pytest

from orbitmq import Admin
from orbitmq.admin.groups import create_group
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.testing import LocalBroker

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "commands.md"
ASYNC, SYNC = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory):
    async def billing(broker: LocalBroker) -> None:
        async with Admin(broker.namesrv) as admin:
            await create_group(admin, broker.broker, SubscriptionGroupConfig("billing"))

    with LocalBroker(tmp_path_factory.mktemp("store")) as broker:
        asyncio.run(billing(broker))
        yield broker.namesrv


def test_the_methods(namesrv: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = ASYNC.replace("127.0.0.1:9876", namesrv)
    code = compile(text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    asyncio.run(eval(code, {}))
    out = capsys.readouterr().out
    assert "['orders']" in out
    assert "broker-a" in out


def test_the_blocking_ones(namesrv: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(SYNC.replace("127.0.0.1:9876", namesrv), {})
    assert capsys.readouterr().out.startswith("6 {")
