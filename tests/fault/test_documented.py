"""The tests that the document names for each fault are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_each_fault_has_the_tests_that_the_document_names() -> None:
    text = (TESTS.parent / "docs" / "trust" / "reliability.md").read_text()
    part = text.partition("### Each fault and its tests")[2].partition("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for path, name in named:
            assert f"def {name}(" in (TESTS / path).read_text(), f"{path}::{name}"
