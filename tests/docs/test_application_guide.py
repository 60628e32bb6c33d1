"""The guide's Python is Python, and what it imports is there."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "develop" / "application-guide.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_compiles_and_imports_what_there_is(text: str) -> None:
    compile(text, str(GUIDE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, alias.name) for alias in node.names)


@pytest.mark.parametrize("name", ["send_msg_timeout_ms", "max_in_flight", "close_timeout_ms", "concurrency"])
def test_options_it_names_exist(name: str) -> None:
    from orbitmq.client import ProducerOptions, PushConsumer

    assert name in GUIDE.read_text()
    assert hasattr(ProducerOptions("g"), name) or hasattr(PushConsumer("g"), name)
