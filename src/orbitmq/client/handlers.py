"""What an application hands to a consumer: handlers, and how they say that a message is to come again."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from orbitmq.client.message import ReceivedMessage


@dataclass(slots=True, frozen=True)
class Retry:
    """A handler returns this where it could not handle the message: it is handed out again later.

    `delay_level` 1 to 18 says when (1s 5s 10s 30s 1m 2m ...), 0 leaves it to the broker, which waits longer
    each time; -1 gives the message up at once: it goes to the group's dead-letter queue. An exception means
    the same as `Retry()`. An ordered consumer repeats the message in place and heeds no level.
    """

    delay_level: int = 0


RETRY = Retry()
"""Hand the message out again, when the broker thinks fit."""

Outcome: TypeAlias = Retry | None
"""None: done."""
Handler: TypeAlias = Callable[[ReceivedMessage], Awaitable[Outcome] | Outcome]
"""An async function, or a plain one, which then runs in a thread."""


def is_async(handler: Handler) -> bool:
    """Whether calling it does not block: it gives a coroutine."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object with an async __call__ is meant
    )
