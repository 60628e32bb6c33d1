"""Names of the loggers to which failures in the background go: one per subject, with a level of its own."""

from __future__ import annotations

import logging

ROOT = "orbitmq.client"
SUBJECTS = {
    "handler": "handlers",
    "handling": "handlers",
    "messages": "handlers",
    "reply": "handlers",
    "pull": "pulls",
    "heartbeat": "heartbeats",
    "heartbeats": "heartbeats",
    "route": "routes",
    "routes": "routes",
    "rebalance": "rebalance",
    "filter": "rebalance",
    "different": "rebalance",
    "tasks": "tasks",
    "offset": "offsets",
    "offsets": "offsets",
    "moved": "offsets",
    "copy": "retries",
    "send": "retries",
    "locks": "locks",
    "renewal": "locks",
    "unlocking": "locks",
    "check": "transactions",
    "end": "transactions",
    "transaction": "transactions",
    "message": "trace",
}
"""First word of a subject -> name of its logger below `orbitmq.client`."""


def logger_of(subject: str) -> logging.Logger:
    """The logger for a subject, `orbitmq.client.handlers` for example."""
    name = SUBJECTS.get(subject.partition(" ")[0])
    return logging.getLogger(f"{ROOT}.{name}" if name else ROOT)
