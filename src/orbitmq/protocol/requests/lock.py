"""Queue locks of ordered consumers."""

from __future__ import annotations

from orbitmq.protocol.bodies.queue import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from orbitmq.protocol.schema.declare import Reply, Request, Void, request


class LockBatchReply(Reply):
    """The queues that the client holds now."""

    body: LockBatchResponseBody


@request(41)
class LockBatchMq(Request[LockBatchReply]):
    """Lock queues for a client of a group, or renew its locks."""

    body: LockBatchRequestBody


@request(42)
class UnlockBatchMq(Request[Void]):
    """Give up locks."""

    body: UnlockBatchRequestBody
