"""Requests that an `Admin` sends, in tests of what it asks servers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from orbitmq import Admin


def heard(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> Counter[type[Any]]:
    """Requests to one server from now on, counted by their class."""
    counts: Counter[type[Any]] = Counter()
    call = admin.call

    async def counted(address: str, request: Any) -> Any:
        counts[type(request)] += 1
        return await call(address, request)

    monkeypatch.setattr(admin, "call", counted)
    return counts
