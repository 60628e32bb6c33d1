"""Files that the console serves from memory."""

import shutil
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from orbitmq.console.app import STATIC
from orbitmq.console.assets import Assets


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("/", "index.html", "text/html"),
        ("/here/topics/x", "index.html", "text/html"),
        ("/static/app.js", "app.js", "text/javascript"),
        ("/static/ui/table.js", "ui/table.js", "text/javascript"),
        ("/static/style.css", "style.css", "text/css"),
        ("/static/icon.svg", "icon.svg", "image/svg+xml"),
    ],
)
def test_every_file_comes_whole_with_its_type(api: httpx.Client, path: str, name: str, kind: str) -> None:
    answer = api.get(path)
    assert answer.status_code == 200
    assert answer.content == (STATIC / name).read_bytes()
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["cache-control"] == "no-cache"


def test_a_browser_that_has_a_file_gets_it_no_second_time(api: httpx.Client) -> None:
    tag = api.get("/static/app.js").headers["etag"]
    again = api.get("/static/app.js", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert api.get("/static/app.js", headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_head_request_has_the_headers_alone(api: httpx.Client) -> None:
    answer = api.head("/static/app.js")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) == (STATIC / "app.js").stat().st_size


@pytest.mark.parametrize(
    "path", ["/static/nothing.js", "/static/", "/static/ui", "/static/%2e%2e/app.py", "/static//etc/passwd"]
)
def test_paths_that_are_no_file_of_the_console_are_not_found(api: httpx.Client, path: str) -> None:
    assert api.get(path).status_code == 404


def test_an_update_on_the_disk_changes_no_page_of_a_console_that_runs(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    shutil.copytree(STATIC, folder)
    assets = Assets(folder)
    (folder / "app.js").write_text("newer")
    (folder / "index.html").unlink()
    with TestClient(
        Starlette(routes=[Route("/static/{path:path}", assets.file), Route("/", assets.page)])
    ) as client:
        assert client.get("/static/app.js").content == (STATIC / "app.js").read_bytes()
        assert client.get("/").content == (STATIC / "index.html").read_bytes()
