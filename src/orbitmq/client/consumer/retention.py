"""The time for which the brokers of a consumer's topics keep dead letters."""

from __future__ import annotations

from orbitmq.client.consumer.context import ConsumerContext
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.admin import GetBrokerConfig

RESERVED_HOURS = "fileReservedTime"
"""The option of brokers for the age at which files of the log, and dead letters in them, are deleted."""
HOUR_MS = 3_600_000


async def dead_letter_retention_ms(session: ConsumerContext) -> int | None:
    """The longest such time of all brokers of the subscribed topics, in ms.

    None if no broker answers: many let only administrators read their options.
    """
    addresses: set[str] = set()
    for topic in list(session.subscriptions):
        route = await session.instance.routes.route(topic)
        if route is not None:
            addresses.update(members[min(members)] for members in route.brokers.values() if members)
    found = [await _retention_ms(session, address) for address in sorted(addresses)]
    return max((one for one in found if one is not None), default=None)


async def _retention_ms(session: ConsumerContext, address: str) -> int | None:
    try:
        reply = await session.instance.call(address, GetBrokerConfig())
    except OrbitError:
        return None  # refused, or away: other calls report a broker that is away
    for line in bytes(reply.body or b"").decode("utf-8", "replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == RESERVED_HOURS and value.strip().isdigit():
            return int(value) * HOUR_MS
    return None
