"""Folders by path or URL: of this machine, or wherever fsspec reaches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from orbitmq.extras import lacking
from orbitmq.spark.errors import BadOption


def local_path(url: str) -> Path | None:
    """The folder of this machine that a path or a `file:` URL names; None for any other URL."""
    if url.startswith("file:"):
        return Path(unquote(url.removeprefix("file:").removeprefix("//")))
    return None if "://" in url else Path(url)


def remote_folder(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The file system of fsspec that a URL names, and the path in it.

    Raises BadOption for an unknown kind of URL, or without what it needs installed.
    """
    try:
        import fsspec  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise BadOption(f"{lacking(url, 'fsspec', 'spark')} (and s3fs, gcsfs, ...)") from None
    scheme, _, rest = url.partition("://")
    if scheme in ("s3a", "s3n"):  # what Hadoop calls it
        scheme = "s3"
    try:
        filesystem, path = fsspec.core.url_to_fs(f"{scheme}://{rest}", **options)
    except (ImportError, ValueError) as error:
        raise BadOption(f"{url}: {error}") from None
    return filesystem, path.rstrip("/")
