"""Getting a message stored in spite of an outage: rounds of tries until its time is over.

One round is all that Java's client does: a try, and others at once, at other brokers where there are any.
If a round fails for want of an answer, another one follows after a pause, which doubles each time and is
cut at random: the clients of a broker that comes back do not come all at once. A message that is tried again
keeps its id.
"""

from __future__ import annotations

import asyncio
import random

from orbitmq.client.core.errors import NoMasterNow, SendFailed
from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.options import ProducerOptions
from orbitmq.client.sending.attempts import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, BrokerUnknown, Sender
from orbitmq.net.errors import NetError, NoNameServer
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2, SendReply

OUTAGE_CODES = frozenset({ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY, ResponseCode.GO_AWAY})
"""Error answers that time alone mends."""


class Courier:
    """Delivers the requests of one producer."""

    def __init__(self, instance: ClientInstance, sender: Sender, options: ProducerOptions) -> None:
        self._instance = instance
        self._sender = sender
        self._options = options

    async def deliver(
        self,
        request: SendMessageV2 | SendBatchMessage,
        queue: MessageQueue | None,
        timeout_ms: float | None = None,
    ) -> tuple[MessageQueue, SendReply]:
        """Sends until it is stored, for `timeout_ms` or what the options say.

        Raises SendFailed with the failures of all rounds, and what `Sender.send` raises else.
        """
        options = self._options
        if not options.delivery_timeout_ms:
            return await self._sender.send(request, queue, timeout_ms or options.send_msg_timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout_ms or options.delivery_timeout_ms) / 1000
        pause = FIRST_PAUSE_SECONDS
        failures: list[tuple[str, Exception]] = []
        while True:
            left_ms = max((deadline - loop.time()) * 1000, 1)
            try:
                stored = await self._sender.send(request, queue, min(left_ms, options.send_msg_timeout_ms))
            except SendFailed as failed:
                failures += failed.failures
                if not all(is_outage(error) for _, error in failed.failures):
                    raise
                error: OrbitError = SendFailed(request.topic, failures, failed.code or 0)
            except NoNameServer as unanswered:
                # If none has ever answered, the address is wrong, and time would not mend it.
                if not self._instance.names.has_answered:
                    raise
                error = unanswered
            except NoMasterNow as waiting:
                error = waiting
            else:
                if pause > FIRST_PAUSE_SECONDS:
                    self._instance.answered()
                return stored
            self._instance.unanswered(error)
            wait = pause * random.uniform(0.5, 1)
            if loop.time() + wait >= deadline:
                raise error
            await asyncio.sleep(wait)
            self._instance.check_running()
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def is_outage(error: Exception) -> bool:
    """True if a try failed for want of somebody who answers, which another one later may find."""
    if isinstance(error, BrokerRefused):
        return error.code in OUTAGE_CODES
    return isinstance(error, NetError | BrokerUnknown)
