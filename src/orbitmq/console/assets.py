"""The files that browsers load, read once when the console starts.

Answers come from memory: a page and the API under it are of one version although an update replaces the files
below a console that runs, and a request costs no thread and no open file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

PAGE = "index.html"
MEDIA_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".LICENSE": "text/plain",
}
"""By suffix. The system's own table is not asked: Windows may have text/plain for `.js`, and no browser runs
that.
"""


class Assets:
    """All files below `folder` by their paths there, such as `ui/table.js`. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _Asset(path)
            for path in sorted(folder.rglob("*"))
            if path.suffix in MEDIA_TYPES
        }

    async def page(self, request: Request) -> Response:
        return self._files[PAGE].answer(request)

    async def file(self, request: Request) -> Response:
        """The file that the request's `path` names; 404 for a path that is none of them."""
        asset = self._files.get(request.path_params["path"])
        return asset.answer(request) if asset else PlainTextResponse("no such file\n", 404)


class _Asset:
    def __init__(self, path: Path) -> None:
        self._content = path.read_bytes()
        self._media_type = MEDIA_TYPES[path.suffix]
        # Browsers ask again with the ETag each time: after an update no page is half old.
        tag = hashlib.sha256(self._content).hexdigest()[:32]
        self._headers = {"Cache-Control": "no-cache", "ETag": f'"{tag}"'}

    def answer(self, request: Request) -> Response:
        known = request.headers.get("if-none-match", "")
        if self._headers["ETag"] in (one.strip().removeprefix("W/") for one in known.split(",")):
            return Response(status_code=304, headers=self._headers)
        return Response(self._content, media_type=self._media_type, headers=self._headers)
