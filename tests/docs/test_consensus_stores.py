"""The guide to consensus stores: ZooKeeper starts with its file, and controllers on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.console import Shell, steps

GUIDE = (Path(__file__).parents[2] / "docs" / "operate" / "consensus-stores.md").read_text()


@pytest.mark.needs("java", "mvn")
def test_the_commands_run(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (options,) = re.findall(r"^```properties\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL)
    (tmp_path / "zoo.cfg").write_text(shell.here(options) + "admin.enableServer=false\n")
    try:
        for step in steps(GUIDE):
            shell.run(step)
    finally:
        shell.close()
