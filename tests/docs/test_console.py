from pathlib import Path

import pytest

from tests.docs.console import Shell, Step, steps

ROOT = Path(__file__).parents[2]
WITH_SPARK = "data-guide.md"
"""Its commands and its Python go together, and need Spark: see tests/spark/guide.py."""
WITH_FILES = {"failover.md", "consensus-stores.md", "leaving-dledger.md"}
"""Their commands need files or servers that the document describes: each has a module of tests to itself."""
ELSEWHERE = {WITH_SPARK, *WITH_FILES}
DOCUMENTS = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    if steps(path.read_text()) and path.name not in ELSEWHERE
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_do_what_the_document_shows(document: Path, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    try:
        for step in steps(document.read_text()):
            shell.run(step)
    finally:
        shell.close()


@pytest.mark.parametrize("name", sorted(WITH_FILES))
def test_a_document_that_needs_files_has_its_own_test(name: str) -> None:
    module = Path(__file__).with_name(f"test_{name.removesuffix('.md').replace('-', '_')}.py")
    assert "def test_the_commands_run" in module.read_text()


def test_reads_commands_and_their_output() -> None:
    text = "```console\n$ one \\\n   --two\nthree\n$ four\n```\nfive\n```\n$ six\n```\n"
    assert steps(text) == [Step("one --two", ["three"]), Step("four")]


@pytest.mark.parametrize("shown", [["a", "c"], ["a…", "c"], ["…"]])
def test_output_may_say_more_than_the_document(tmp_path: Path, shown: list[str]) -> None:
    Shell(tmp_path).run(Step("echo a; echo b; echo c", shown))


@pytest.mark.parametrize("shown", [["c", "a"], ["d"]])
def test_output_may_not_say_less(tmp_path: Path, shown: list[str]) -> None:
    with pytest.raises(AssertionError, match="but it printed"):
        Shell(tmp_path).run(Step("echo a; echo b; echo c", shown))


def test_a_command_has_to_succeed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit code 3"):
        Shell(tmp_path).run(Step("exit 3"))
