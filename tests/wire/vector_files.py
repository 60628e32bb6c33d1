"""Bytes that Apache RocketMQ 5.4.0 wrote, with what they mean: the files in `vectors`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "vectors"


@cache
def load(name: str) -> Any:
    """The vectors in one file, by its name without `.json`."""
    return json.loads((FOLDER / f"{name}.json").read_text())
