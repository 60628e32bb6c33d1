"""The library that speaks Kafka, and how its clients begin and end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from orbitmq.delay_service.errors import ExtraMissing

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""Work that a client has to end in order."""


def library() -> Any:
    """Aiokafka. Raises ExtraMissing."""
    try:
        import aiokafka
    except ModuleNotFoundError:
        raise ExtraMissing("aiokafka", "kafka") from None
    return aiokafka


async def start(client: Any) -> None:
    """Connects a producer or consumer; one that cannot is ended. Raises KafkaError."""
    try:
        await client.start()
    except BaseException:
        await stop(client)
        raise


async def stop(client: Any) -> None:
    """Ends a producer or consumer in whatever state it is. Raises nothing.

    Stopping is a task of its own, for it may raise a CancelledError that nobody asked for: the library lets
    that of a fetch out which waited for its next try. It leaves the connections open then, and looks for news
    of the cluster for ever; a producer without its cluster tries for ever to send what it has. Both end here.
    """
    stopping = asyncio.create_task(client.stop())
    try:
        await asyncio.wait({stopping}, timeout=STOP_SECONDS)
    finally:
        if not stopping.done() or stopping.cancelled() or stopping.exception() is not None:
            log.debug("a client of Kafka did not end in order: %s", stopping)
            stopping.cancel()
            if hasattr(client, "client"):
                parts = [client._sender.close(), client.client.close()]
            else:
                parts = [client._client.close()]
            await asyncio.gather(stopping, *parts, return_exceptions=True)
