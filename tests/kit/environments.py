"""Environments of child processes, on a build with sanitizers as well."""

from __future__ import annotations

import os
import sys

SANITIZERS = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "PYTHONMALLOC")
"""Variables that modules with sanitizers need from the start of their process."""


def without_sanitizers() -> dict[str, str]:
    """That of this process, for foreign programs: some of them hang with a sanitizer before them."""
    return {name: value for name, value in os.environ.items() if name not in SANITIZERS}


def bare(**variables: str) -> dict[str, str]:
    """For Python processes with the modules of this one, and with nothing else of this machine."""
    own = {name: os.environ[name] for name in SANITIZERS if name in os.environ}
    return {**own, "PYTHONPATH": ":".join(path for path in sys.path if path), "PATH": "", **variables}
