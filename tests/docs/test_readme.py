"""The README shows the examples as they are, and they do what it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = re.findall(
    r"\[`(examples/\w+\.py)`\][^\n]*\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
)


def test_every_python_block_is_an_example() -> None:
    assert len(SHOWN) == (ROOT / "README.md").read_text().count("```python") >= 3


@pytest.mark.parametrize(("name", "text"), SHOWN, ids=[name for name, _ in SHOWN])
def test_the_block_is_the_example(name: str, text: str) -> None:
    assert (ROOT / name).read_text() == text
