"""Tables that the handlers of the name server are given, and their registry."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.handling.call import Handlers
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.nameserver.kv import KVConfig
from orbitmq.nameserver.options import NamesrvSettings
from orbitmq.nameserver.routes import RouteTable

handlers = Handlers()
"""`@handlers(GetRouteinfoByTopic)` registers a handler of the name server."""


@dataclass(slots=True)
class RouteTables:
    """For requests about brokers and topics."""

    routes: RouteTable
    kv: KVConfig
    settings: NamesrvSettings
    started_ms: int
    """When this name server started: brokers need a while to register."""


@dataclass(slots=True)
class ConfigTables:
    """For requests about the KV configuration and the options."""

    kv: KVConfig
    settings: NamesrvSettings
    dirty_tables: DirtyTables
