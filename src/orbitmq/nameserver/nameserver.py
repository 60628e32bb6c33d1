"""A name server as a whole: its tables, its handlers, and what time does to them."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.handling.call import BoundHandler
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.nameserver.brokers import Notice
from orbitmq.nameserver.handlers import handlers
from orbitmq.nameserver.handlers.config import OPTIONS_FILE
from orbitmq.nameserver.kv import KVConfig
from orbitmq.nameserver.options import NAMESRV_TABLE, NamesrvSettings
from orbitmq.nameserver.routes import RouteTable
from orbitmq.nameserver.tables import ConfigTables, RouteTables
from orbitmq.options.properties import format_properties


class NameServer:
    """All rules of one name server. It knows no other: brokers register with each.

    Its owner calls `expire` every `scan_not_active_broker_interval` ms, `connection_closed` for every
    connection that ends, sends what `drain_notices` gives, and writes the `files` that `dirty_tables` names.
    """

    def __init__(self, settings: NamesrvSettings, now: int) -> None:
        self.settings = settings
        self.dirty_tables = DirtyTables()
        self.routes = RouteTable()
        self.kv = KVConfig(self.dirty_tables)
        self._route_tables = RouteTables(self.routes, self.kv, settings, now)
        self._config_tables = ConfigTables(self.kv, settings, self.dirty_tables)

    def bind(self) -> dict[int, BoundHandler]:
        """The handlers by request code."""
        return handlers.bind({RouteTables: self._route_tables, ConfigTables: self._config_tables})

    @property
    def files(self) -> dict[str, Callable[[], str]]:
        """The text of each table that has a file, by the name that `dirty_tables` uses."""
        return {
            KVConfig.NAME: self.kv.to_text,
            OPTIONS_FILE: lambda: format_properties(NAMESRV_TABLE.as_properties(self.settings, hidden=None)),
        }

    def expire(self, now: int) -> list[int]:
        """Takes out brokers that gave no sign of life in time; gives the connections to close."""
        return self.routes.expire(now, notify=self.settings.notify_min_broker_id_changed)

    def connection_closed(self, connection_id: int) -> None:
        """Takes out the brokers of a connection that is gone."""
        self.routes.connection_closed(connection_id, notify=self.settings.notify_min_broker_id_changed)

    def drain_notices(self) -> list[Notice]:
        """One-way requests to brokers, on connections of the name server's own."""
        return self.routes.drain_notices()
