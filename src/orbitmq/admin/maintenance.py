"""A broker out of the routes of producers, and back in them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from orbitmq.admin.admin import Admin
from orbitmq.net.errors import NetError
from orbitmq.protocol.codes import PERM_WRITE
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.route import (
    AddWritePermOfBroker,
    GetBrokerClusterInfo,
    GetRouteinfoByTopic,
    WipeWritePermOfBroker,
)


@dataclass(frozen=True, slots=True)
class NameServerState:
    """One name server, and the brokers that it knows."""

    address: str
    error: str | None
    brokers: int | None
    writable: dict[str, bool]
    """By name of the broker: False if producers get none of its queues from this name server."""

    @property
    def drained(self) -> list[str]:
        """Brokers of which it gives producers no queues."""
        return [name for name, writable in self.writable.items() if not writable]


async def name_servers(admin: Admin) -> list[NameServerState]:
    """The state of every name server. One that does not answer has an `error`."""
    return await admin.each(admin.namesrv, lambda address: _state(admin, address))


async def drain(admin: Admin, broker: str) -> int:
    """Takes write permission from a broker in the routes of all name servers; gives the topics changed.

    Raises NoBroker for an unknown name. A change of a topic by the broker, or its restart, undoes it there.
    """
    await admin.masters(broker=broker)
    return (await admin.ask_all(WipeWritePermOfBroker(broker))).wipe_topic_count


async def undrain(admin: Admin, broker: str) -> int:
    """Gives write permission back, also where a topic was read-only before; gives the topics changed.

    Raises NoBroker for an unknown name.
    """
    await admin.masters(broker=broker)
    return (await admin.ask_all(AddWritePermOfBroker(broker))).add_topic_count


async def _state(admin: Admin, address: str) -> NameServerState:
    try:
        info = (await admin.call(address, GetBrokerClusterInfo())).body
    except OrbitError as error:
        return NameServerState(address, str(error), None, {})
    names = sorted(info.broker_addr_table or {})

    async def is_writable(broker: str) -> bool | None:
        """The permission of the topic that is named as the broker: every broker has one."""
        try:
            route = (await admin.call(address, GetRouteinfoByTopic(broker))).body
        except NetError:
            raise
        except OrbitError:
            return None
        perms = [queue.perm for queue in route.queue_datas if queue.broker_name == broker]
        return bool(perms[0] & PERM_WRITE) if perms else None

    found = await asyncio.gather(*(is_writable(name) for name in names), return_exceptions=True)
    writable = {name: value for name, value in zip(names, found, strict=True) if isinstance(value, bool)}
    return NameServerState(address, None, len(names), writable)
