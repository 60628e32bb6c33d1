"""The guide to replication: its commands run as they stand, and its option files load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.options import Layer
from orbitmq.options.properties import parse_properties
from orbitmq.testing import LocalCluster
from tests.docs.console import Shell, steps

GUIDE = (Path(__file__).parents[2] / "docs" / "operate" / "replication.md").read_text()


def test_the_commands_run(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    try:
        for step in steps(GUIDE):
            shell.run(step)
        made = LocalCluster.load(tmp_path / "demo")
        assert not any(made.is_running(node.name) for node in made.nodes)
    finally:
        LocalCluster.load(tmp_path / "demo").halt()


@pytest.mark.parametrize("number", [0, 1])
def test_the_options_load(number: int) -> None:
    text = re.findall(r"^```properties\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL)[number]
    settings = BROKER_TABLE.load([Layer("the guide", parse_properties(text.encode(), "the guide"))])
    assert settings.is_slave == bool(number)
    assert settings.bind_address == "0.0.0.0", "the units give no --listen, and the group is on several hosts"
