"""Links between documents lead somewhere, and no guide is left out of the lists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), ROOT / "benchmarks" / "README.md"]
GUIDES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("*/*.md"))


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


def test_every_guide_is_in_the_navigation() -> None:
    listed = re.findall(
        r"^ +- (?:[\w ]+: )?([\w-]+/[\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    assert sorted(name for name in listed if not name.startswith("repository/")) == GUIDES


@pytest.mark.parametrize("page", ["docs/index.md", "README.md"])
def test_every_guide_is_listed(page: str) -> None:
    linked = re.findall(r"\]\((?:docs/)?([\w-]+/[\w-]+\.md)", (ROOT / page).read_text())
    assert set(GUIDES) - set(linked) == set()


@pytest.mark.parametrize("folder", ["start", "develop", "operate", "data"])
def test_mqadmin_is_named_beside_a_command_of_ours_or_as_apache_s_alone(folder: str) -> None:
    for page in (ROOT / "docs" / folder).glob("*.md"):
        for paragraph in re.split(r"\n\n", page.read_text()):
            if "mqadmin" in paragraph:
                assert re.search(r"Apache's|orbitmq admin", paragraph), f"{page.name}: {paragraph}"
