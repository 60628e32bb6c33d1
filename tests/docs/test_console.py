from pathlib import Path

import pytest

from tests.docs.console import Shell, Step, steps

ROOT = Path(__file__).parents[2]
WITH_SPARK = "data-guide.md"
"""Its commands and its Python go together, and need Spark: see tests/spark/guide.py."""
WITH_A_RELAY = "outbox.md"
"""Its relay runs until it is stopped: see test_outbox_page.py."""
WITH_MORE = {
    "failover.md": "docs/test_failover.py",
    "consensus-stores.md": "docs/test_consensus_stores.py",
    "leaving-dledger.md": "docs/test_leaving_dledger.py",
    "migrate.md": "peers/test_migration.py",
    "replication.md": "docs/test_replication.py",
}
"""Documents whose commands need files or servers that they describe, and the tests that run them."""
ELSEWHERE = {WITH_SPARK, WITH_A_RELAY, *WITH_MORE}
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


@pytest.mark.parametrize(("document", "module"), WITH_MORE.items())
def test_a_document_that_needs_more_is_run_elsewhere(document: str, module: str) -> None:
    text = (ROOT / "tests" / module).read_text()
    assert f'"{document}"' in text
    assert "steps(GUIDE)" in text


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
