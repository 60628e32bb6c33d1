"""The guide to failover: its commands run as they stand, with its options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orbitmq.testing import LocalCluster
from tests.docs.console import Shell, steps

GUIDE = (Path(__file__).parents[2] / "docs" / "operate" / "failover.md").read_text()


@pytest.mark.needs("etcd")
def test_the_commands_run(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (options,) = re.findall(r"^```properties\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL)
    (tmp_path / "broker.conf").write_text(shell.here(options))
    try:
        for step in steps(GUIDE):
            shell.run(step)
    finally:
        LocalCluster.load(tmp_path / "failing").halt()
        shell.close()
