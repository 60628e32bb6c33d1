"""Bodies in JSON, as Python's own types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class JsonSerializer:
    """JSON of dicts, lists, texts, numbers, True, False and None, with Python's own module.

    NaN and infinity, which are not JSON, are refused.
    """

    content_type = "application/json"

    def serialize(self, value: Any, properties: dict[str, str]) -> bytes:
        """The value as JSON in UTF-8. Raises TypeError and ValueError for what JSON lacks."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()

    def deserialize(self, body: bytes, properties: Mapping[str, str]) -> Any:
        """The value. Raises ValueError for what is not JSON."""
        return json.loads(body)
