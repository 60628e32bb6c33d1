"""Tests that plant failures in their whole process, and so must have one without other threads."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any


def _run(module: str, name: str, given: dict[str, Any]) -> None:
    __import__(module)
    getattr(sys.modules[module], name).__wrapped__(**given)


def in_own_process(test: Callable[..., None]) -> Callable[..., None]:
    """Has a test run in a process of its own, whose only thread is the test's."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            process.submit(_run, test.__module__, test.__name__, given).result()

    return run
