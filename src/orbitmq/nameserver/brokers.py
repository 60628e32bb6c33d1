"""Brokers as a name server knows them: their groups, registrations, and what is sent to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.protocol.bodies.route import MASTER_ID, BrokerData
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.requests.ha import NotifyMinBrokerIdChange


@dataclass(slots=True)
class LiveBroker:
    """One living broker."""

    broker_name: str
    last_ms: int
    timeout_ms: int
    version: DataVersion
    connection_id: int
    """The connection on which it registered last; its end is the end of the broker."""
    ha_address: str
    host: str = ""
    """The address that it registered from."""

    def is_expired(self, now: int) -> bool:
        """True if its last heartbeat is too long ago."""
        return self.last_ms + self.timeout_ms < now


@dataclass(slots=True)
class BrokerGroup:
    """The members of a broker name, by id."""

    cluster: str
    name: str
    addresses: dict[int, str] = field(default_factory=dict)
    zone_name: str | None = None
    enable_acting_master: bool = False

    @property
    def has_master(self) -> bool:
        """True if a member has id 0."""
        return MASTER_ID in self.addresses

    def to_data(self) -> BrokerData:
        """The group as routes and cluster lists show it."""
        return BrokerData(
            self.cluster, self.name, dict(self.addresses), self.zone_name, self.enable_acting_master
        )


@dataclass(slots=True)
class Registration:
    """A broker's registration: its addresses and topics."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    version: DataVersion
    topics: Mapping[str, TopicConfig]
    mappings: Mapping[str, TopicQueueMappingInfo] = field(default_factory=dict)
    """Static topics; the keys are topics, each mapping names its broker."""
    filter_servers: list[str] = field(default_factory=list)
    zone_name: str | None = None
    timeout_ms: int | None = None
    enable_acting_master: bool | None = None
    """None: the broker is too old to know of acting masters."""
    connection_id: int = 0
    host: str = ""
    """The address that it came from, without the port."""
    may_write: bool = True
    """True if its topics accept messages; false for a slave that acts as master."""


@dataclass(slots=True, frozen=True)
class Master:
    """Addresses of a slave's living master."""

    address: str
    ha_address: str


@dataclass(slots=True, frozen=True)
class Notice:
    """A request to be sent one-way to a broker, on a connection of the name server's own."""

    address: str
    request: NotifyMinBrokerIdChange


class RegistrationRefused(Exception):
    """A broker that is not known yet registered with a single topic: its full table has to come first."""
