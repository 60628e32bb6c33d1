"""Batches of a relay whose sends fail in unusual ways."""

from __future__ import annotations

import asyncio
from typing import Any

from orbitmq import Message
from orbitmq.outbox import Outbox
from orbitmq.outbox.sending import Sending, SendingRules


class Cancelling:
    """A producer whose middleware lets the cancellation of something else out."""

    middleware = (object(),)

    async def send(self, *_: Any, **__: Any) -> None:
        raise asyncio.CancelledError


async def test_a_cancellation_that_middleware_lets_out_is_a_failure_like_others() -> None:
    """It ended the relay for good, and was not even logged."""
    row = {**Outbox().row(Message("orders", b"x")), "seq": 1, "attempts": 0}
    producer: Any = Cancelling()
    sent = await Sending(producer, SendingRules(1000, False, None), asyncio.Event(), 0).run([row])
    assert sent.fatal is None
    assert list(sent.noted.tried) == [1]
    assert "cancellation" in str(sent.topics_failed["orders"])
