"""A hook of MkDocs: files of the repository that pages link to become parts of the site."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BESIDE = "repository"
"""The folder of the site for files from outside of docs/."""
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files that pages, and what they link to, name outside of docs/."""
    left = [DOCS / file.src_uri for file in files.documentation_pages()]
    seen: set[Path] = set()
    while left:
        page = left.pop()
        for link in _LINK.findall(page.read_text()):
            target = (page.parent / link).resolve()
            if target in seen or not target.is_file() or target.is_relative_to(DOCS):
                continue
            seen.add(target)
            uri = f"{BESIDE}/{target.relative_to(ROOT).as_posix()}"
            if target.suffix == ".md":
                files.append(File.generated(config, uri, content=target.read_text()))
                left.append(target)
            else:
                files.append(File.generated(config, uri, abs_src_path=str(target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points links at the places that files have in the site."""
    source = page.file.src_uri
    generated = source.startswith(f"{BESIDE}/")
    at = ROOT / source.removeprefix(f"{BESIDE}/") if generated else DOCS / source

    def moved(found: re.Match[str]) -> str:
        target = (at.parent / found[1]).resolve()
        if not target.is_relative_to(ROOT):
            return found[0]
        inside = target.is_relative_to(DOCS)
        if inside and not generated:
            return found[0]
        uri = target.relative_to(DOCS if inside else ROOT).as_posix()
        return f"]({os.path.relpath(uri if inside else f'{BESIDE}/{uri}', Path(source).parent)}"

    return _LINK.sub(moved, markdown)
