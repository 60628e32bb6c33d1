"""The broker's answers to requests, one module per subject; each registers its functions in `handlers`."""

from __future__ import annotations

from orbitmq.handling.call import Handlers

handlers = Handlers()
