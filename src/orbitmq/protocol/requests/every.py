"""All requests: importing this module imports every subject. For documents, tests, and looking up by code."""

from __future__ import annotations

import importlib
import pkgutil

from orbitmq.protocol import requests
from orbitmq.protocol.requests.unused import UNUSED
from orbitmq.protocol.schema.declare import REQUESTS

for _module in pkgutil.iter_modules(requests.__path__):
    importlib.import_module(f"{requests.__name__}.{_module.name}")

__all__ = ["REQUESTS", "UNUSED"]
