"""Files that browsers load: none from elsewhere, none changed, no code inline, no word untranslated."""

import ast
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from orbitmq.admin import diagnosis
from orbitmq.console.api.problems import ADVICE
from orbitmq.console.app import STATIC
from orbitmq.console.assets import MEDIA_TYPES

VENDOR = STATIC / "vendor"
OWN = [path for path in STATIC.rglob("*.js") if VENDOR not in path.parents]


def test_files_of_others_are_those_that_were_fetched_with_their_licences() -> None:
    listed = {"vendor.json"}
    for package in json.loads((VENDOR / "vendor.json").read_text()):
        assert package["licence"] in ("MIT", "Apache-2.0")
        assert any(name.endswith(".LICENSE") for name in package["files"])
        for name, digest in package["files"].items():
            assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
            listed.add(name)
    assert {path.name for path in VENDOR.iterdir()} == listed


def test_code_of_others_is_below_40_kb_compressed() -> None:
    code = b"".join(path.read_bytes() for path in sorted(VENDOR.iterdir()) if path.suffix in (".js", ".css"))
    assert len(gzip.compress(code, 9)) < 40_000


def test_pages_load_nothing_from_elsewhere_and_nothing_inline() -> None:
    for path in [*OWN, STATIC / "index.html", STATIC / "style.css"]:
        text = path.read_text()
        assert not re.search(r"""["'(]https?://(?!www\.w3\.org)""", text), path
        assert "innerHTML" not in text, path
    index = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", index)


def test_every_import_of_a_page_is_a_file() -> None:
    for path in OWN:
        for name in re.findall(r"""from ["'](/static/[^"']+)["']""", path.read_text()):
            assert (STATIC / name.removeprefix("/static/")).is_file(), f"{path.name}: {name}"


def imported(name: str) -> set[str]:
    """A module with all that it imports before it runs."""
    found, todo = set[str](), [name]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            path = STATIC / one.removeprefix("/static/")
            for other in re.findall(r"""from ?["']([^"']+\.js)["']""", path.read_text()):
                todo.append(f"/static/vendor/{other.removeprefix('./')}" if other.startswith("./") else other)
    return found


def test_a_browser_knows_from_the_first_answer_which_modules_each_page_needs() -> None:
    index = (STATIC / "index.html").read_text()
    listed = re.findall(r'<link rel="modulepreload" href="([^"]+)">', index)
    assert len(listed) == len(set(listed))
    frame = imported("/static/app.js")
    assert set(listed) >= frame - {"/static/app.js"}
    assert set(listed) <= frame | imported("/static/views/overview.js")


def test_the_first_page_loads_the_code_of_no_other_page() -> None:
    views = {f"/static/views/{path.name}" for path in (STATIC / "views").glob("*.js")}
    first = imported("/static/app.js") | imported("/static/views/overview.js")
    assert first & views == {f"/static/views/{name}.js" for name in ("all", "login", "overview")}


def test_every_page_is_a_component_of_its_module() -> None:
    pages = re.findall(r'of\("(\w+)", "(\w+)"\)', (STATIC / "views" / "all.js").read_text())
    assert len(pages) == 9
    for module, component in pages:
        assert re.search(
            rf"export (function|const) {component}\b", (STATIC / "views" / f"{module}.js").read_text()
        )


def phrases() -> Iterator[str]:
    """The texts of explanations that come from the library. Commands and bare values have no translation."""
    for path in Path(diagnosis.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "phrase":
                first = node.args[0]
                for one in [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]:
                    assert isinstance(one, ast.Constant), f"{path}:{one.lineno}: a text is spelt out"
                    text = str(one.value)
                    if re.search("[a-z]", re.sub(r"{\w+}", "", text)) and not text.startswith("orbitmq "):
                        yield text


def test_every_text_is_there_in_chinese_and_none_is_left_over() -> None:
    chinese = (STATIC / "words" / "zh.js").read_text()
    there = dict(re.findall(r'"((?:[^"\\]|\\.)+)": "((?:[^"\\]|\\.)+)"', chinese))
    wanted = {"active", "standby", "blind", "down", "refusing", "normal", "retry", "deadLetter", "system"}
    wanted |= {"viewer", "operator", "admin"}
    for path in OWN:
        if path.parent.name != "words":
            wanted |= set(re.findall(r'\bt\("((?:[^"\\]|\\.)*)"', path.read_text()))
            wanted |= set(re.findall(r'title: "([^"]+)"', path.read_text()))
    wanted |= set(phrases()) | ADVICE
    assert wanted - set(there) == set()
    assert set(there) - wanted == set()
    for text, translated in there.items():
        assert sorted(re.findall(r"{\w+}", text)) == sorted(re.findall(r"{\w+}", translated)), text


def test_every_file_has_a_type_that_the_console_serves() -> None:
    assert [
        path.name for path in STATIC.rglob("*") if path.is_file() and path.suffix not in MEDIA_TYPES
    ] == []
