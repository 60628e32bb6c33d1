"""A local S3: who talks to it talks to a real server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

KEYS = {"key": "k", "secret": "s"}
"""Keys that fsspec signs with; the server takes any."""


@contextmanager
def local_s3() -> Iterator[str]:
    """Its address, for as long as the block runs; skips where what it needs is not installed."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    for name in ("werkzeug", "botocore", "aiobotocore", "s3fs"):
        logging.getLogger(name).setLevel(logging.WARNING)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
