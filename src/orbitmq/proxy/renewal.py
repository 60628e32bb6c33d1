"""Messages that the proxy keeps invisible while a push consumer works on them. Rules only: no clock.

A handle that was renewed is replaced by a new one, which its client does not know. So the newest handle is
looked up by the one that the client holds. A client may also acknowledge by a handle of another proxy: if
that one has renewed it, brokers of OrbitMQ know the newest (`broker/pop/renewed.py`), others do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.proxy.options import ProxySettings

RENEW_STEPS_MS = tuple(minutes * 60_000 for minutes in (1, 3, 5, 10, 30, 60))
"""Invisible times of the first, second ... renewal; the last one repeats."""
MOST_PER_CLIENT = 20_000
"""Messages of one client that are renewed; further ones become visible when their time is over."""


@dataclass(slots=True)
class Renewed:
    """One message in the hands of a client."""

    group: str
    topic: str
    client_id: str
    message_id: str
    handle: PopHandle
    """The newest one."""
    consumed_ms: int
    attempt: int
    renewals: int = 0
    failures: int = 0
    is_busy: bool = False
    """True while a renewal is under way."""


class Renewals:
    """All messages that are renewed, by client and by the handle that the client was given."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._by_client: dict[str, dict[str, Renewed]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_client.values()))

    def add(self, given: str, one: Renewed) -> bool:
        """Renews a message from now on; False if its client holds too many."""
        mine = self._by_client.setdefault(one.client_id, {})
        if len(mine) >= MOST_PER_CLIENT:
            return False
        mine[given] = one
        return True

    def held_by(self, client_id: str) -> int:
        """Number of messages of one client that are renewed."""
        return len(self._by_client.get(client_id, ()))

    def newest(self, client_id: str, given: str) -> PopHandle | None:
        """The handle that replaced the one a client holds; None for messages that are not renewed."""
        one = self._by_client.get(client_id, {}).get(given)
        return None if one is None else one.handle

    def remove(self, client_id: str, given: str) -> Renewed | None:
        """Renews a message no longer: it is done, or its time is the client's business now."""
        mine = self._by_client.get(client_id)
        if mine is None:
            return None
        one = mine.pop(given, None)
        if not mine:
            del self._by_client[client_id]
        return one

    def remove_client(self, client_id: str) -> list[Renewed]:
        """Renews none of a client's messages any longer."""
        return list(self._by_client.pop(client_id, {}).values())

    def due(self, now: int) -> Iterator[tuple[str, Renewed]]:
        """Messages to renew now, with the handles that their clients hold."""
        for mine in list(self._by_client.values()):
            for given, one in list(mine.items()):
                if not one.is_busy and one.handle.visible_ms - now <= self._settings.renew_ahead_time_millis:
                    yield given, one

    def is_over(self, one: Renewed, now: int) -> bool:
        """True if a message was held for so long that it goes back to its group."""
        return now - one.consumed_ms >= self._settings.renew_max_time_millis

    @staticmethod
    def next_ms(one: Renewed) -> int:
        """The invisible time of the next renewal."""
        return RENEW_STEPS_MS[min(one.renewals, len(RENEW_STEPS_MS) - 1)]

    def renewed(self, one: Renewed, handle: PopHandle) -> None:
        """Notes a renewal."""
        one.handle = handle
        one.renewals += 1
        one.failures = 0

    def failed(self, one: Renewed) -> bool:
        """Notes a failed renewal; True if it was the last try."""
        one.failures += 1
        return one.failures >= self._settings.max_renew_retry_times
