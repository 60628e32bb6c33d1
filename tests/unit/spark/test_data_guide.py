from pathlib import Path

import pytest

from docs import spark_source

DOCS = Path(__file__).parents[3] / "docs" / "data"


@pytest.mark.parametrize("page", ["data-guide.md"])
def test_the_guide_leads_to_the_reference(page: str) -> None:
    assert "](spark-source.md)" in (DOCS / page).read_text()


def test_options_say_where_they_count() -> None:
    table = spark_source.options()
    assert "| `maxOffsetsPerTrigger` | stream |" in table
    assert "| `endingOffsets` | batch |" in table
    assert "| `subscribe` | |" in table
