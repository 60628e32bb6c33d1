"""Queue locks of ordered consumers."""

from __future__ import annotations

from orbitmq.protocol.bodies.queue import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from orbitmq.protocol.schema.declare import JsonReply, Request, Void, request


@request(41)
class LockBatchMq(Request[JsonReply[LockBatchResponseBody]]):
    """Lock queues for a client of a group, or renew its locks."""

    body: LockBatchRequestBody


@request(42)
class UnlockBatchMq(Request[Void]):
    """Give up locks."""

    body: UnlockBatchRequestBody
