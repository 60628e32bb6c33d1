import re
from pathlib import Path

from orbitmq.spark.columns import COLUMNS
from orbitmq.spark.options import OPTIONS

GUIDE = (Path(__file__).parents[3] / "docs" / "data-guide.md").read_text()


def table_of(heading: str) -> dict[str, str]:
    """First cell's names -> second cell, of the table below a heading."""
    section = GUIDE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]+) \|", section, re.MULTILINE)
    return {name: second for names, second in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_option_is_in_the_guide() -> None:
    assert set(table_of("Options")) == {row.name for row in OPTIONS} - {"topic"}
    assert "`topic` is the same" in GUIDE


def test_every_column_is_in_the_guide_with_its_type() -> None:
    assert table_of("Columns") == {column.name: column.ddl for column in COLUMNS}
