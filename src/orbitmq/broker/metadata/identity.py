"""The identity of a broker: its names and addresses in registrations, routes and records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BrokerIdentity:
    """One broker of a cluster. `address` may hold a host name; `host` is what records store."""

    cluster: str
    name: str
    broker_id: int
    """0 is the master of its group; a slave has a number above 0."""
    address: str
    """`host:port` under which clients reach the broker (brokerIP1 and listenPort)."""
    ha_address: str
    """`host:port` under which slaves reach it (brokerIP2 and haListenPort)."""
    host: bytes
    """The packed storeHost of records written here: 4 or 16 bytes of IP, then the port as i32."""
    version: str = ""
    """OrbitMQ's own version; brokers tell clients that of the protocol."""

    @property
    def is_master(self) -> bool:
        """True if this broker accepts messages for its group."""
        return self.broker_id == 0
