"""The page of reports says what the tests here show, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.reported.rows import SUBJECTS, Row

ROOT = Path(__file__).parents[2]
ROWS = [row for rows in SUBJECTS.values() for row in rows]


def functions(path: Path) -> dict[str, str]:
    """The tests of a module, with their docstrings."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.reports[0])
def test_the_tests_of_a_report_exist(row: Row) -> None:
    assert row.tests
    for test in row.tests:
        path, _, name = test.partition("::")
        assert name in functions(ROOT / path), test


def test_each_test_here_names_its_reports_and_stands_in_the_table() -> None:
    named = {test: row for row in ROWS for test in row.tests}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        for name, docstring in functions(path).items():
            row = named.get(f"tests/reported/{path.name}::{name}")
            assert row is not None, f"{path.name}::{name} is in no row"
            numbers = [report.partition("#")[2] for report in row.reports]
            assert all(f"#{number}" in docstring for number in numbers), name


def test_no_report_is_listed_twice() -> None:
    reports = [report for row in ROWS for report in row.reports]
    assert len(reports) == len(set(reports))
