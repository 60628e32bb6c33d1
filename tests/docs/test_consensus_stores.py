"""The guide to consensus stores: ZooKeeper starts with its file, and controllers on it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.console import Shell, steps
from tests.needs import need

GUIDE = (Path(__file__).parents[2] / "docs" / "operate" / "consensus-stores.md").read_text()


def test_the_commands_run(tmp_path: Path) -> None:
    need("java", "mvn")
    shell = Shell(tmp_path)
    (options,) = re.findall(r"^```properties\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL)
    (tmp_path / "zoo.cfg").write_text(shell.here(options) + "admin.enableServer=false\n")
    try:
        for step in steps(GUIDE):
            shell.run(step)
    finally:
        shell.close()
