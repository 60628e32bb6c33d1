"""The README and the first page show the examples as they are, and they do what these say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "start" / "first-program.md"]
TEXT = "".join(page.read_text() for page in PAGES)
SHOWN = re.findall(r"\[`(examples/\w+\.py)`\][^\n]*\n\n```python\n(.*?)```", TEXT, re.DOTALL)


def test_every_python_block_is_an_example() -> None:
    assert len(SHOWN) == TEXT.count("```python") >= 4


@pytest.mark.parametrize(("name", "text"), SHOWN, ids=[name for name, _ in SHOWN])
def test_the_block_is_the_example(name: str, text: str) -> None:
    assert (ROOT / name).read_text() == text
