"""Checks that a tag, the package and CHANGELOG.md name the same version, and prints that version's changes.

    python .ci/release.py v0.2.0

The exit code is 1, with the reason, where they differ.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAG = re.compile(r"v(\d+\.\d+\.\d+)")


def package_version() -> str:
    """The version that the package has."""
    text = (ROOT / "src" / "orbitmq" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        sys.exit("src/orbitmq/__init__.py has no __version__")
    return found[1]


def changes(version: str) -> str:
    """The section of a version in the change log; empty where it has none."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## \[|\Z)",
        text,
        re.MULTILINE | re.DOTALL,
    )
    return section[1].strip() if section else ""


def main() -> None:
    """The command."""
    if len(sys.argv) != 2 or (tag := TAG.fullmatch(sys.argv[1])) is None:
        sys.exit("usage: python .ci/release.py v1.2.3")
    if package_version() != tag[1]:
        sys.exit(f"the tag is {tag[0]}, but the package has version {package_version()}")
    if not (told := changes(tag[1])):
        sys.exit(f"CHANGELOG.md has no section `## [{tag[1]}] - YYYY-MM-DD`, or an empty one")
    print(told)


if __name__ == "__main__":
    main()
