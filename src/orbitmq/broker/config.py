"""The options of a running broker: shown, and changed where that needs no new start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.options.declare import Settings
from orbitmq.options.option import snake_case
from orbitmq.options.properties import update_properties
from orbitmq.options.table import OptionTable
from orbitmq.protocol.bodies.version import DataVersion


class BrokerConfig:
    """The option rows of a broker with the values that hold now.

    Handlers read the settings object itself, so that a change holds from the next request on. A broker that
    was started with a properties file has it rewritten after a change (brokerConfigPath); for any other one
    a change lasts until the next start.
    """

    NAME = "config"

    def __init__(
        self,
        table: OptionTable[Any],
        settings: Settings,
        dirty_tables: DirtyTables,
        now: int,
        *copies: object,
    ) -> None:
        """`copies` are objects that hold some of the values under the same names, and follow changes."""
        self.settings = settings
        self._copies = copies
        self.version = DataVersion(timestamp=now)
        self._table = table
        self._dirty_tables = dirty_tables
        self._changed: dict[str, str] = {}
        self.found: dict[str, str] = {}
        """Values that follow from other options where they are not set, by property: addresses, ports,
        folders."""

    def properties(self) -> dict[str, str]:
        """Every property that has a value, by Apache's name."""
        return dict(sorted({**self.found, **self._table.as_properties(self.settings)}.items()))

    def update(self, properties: dict[str, str], black_list: str, now: int) -> list[str]:
        """Changes values, all of them or none; gives the properties that have another one now.

        Raises OptionError (NotAtRunTime, InvalidValue, RefusedValue).
        """
        changed = self._table.apply_update(self.settings, properties, black_list)
        for name in map(snake_case, changed):
            for copy in self._copies:
                if hasattr(copy, name):
                    setattr(copy, name, getattr(self.settings, name))
        if changed:
            values = self.properties()
            self._changed |= {name: values.get(name, "") for name in changed}
            self.version.next(now)
            self._dirty_tables.mark(self.NAME)
        return changed

    def note_role(self, broker_role: str, broker_id: int, now: int) -> None:
        """Takes over a change of role that has been carried out. The next start has it, too, but for a role
        that a controller gives.
        """
        settings: Any = self.settings
        settings.broker_role, settings.broker_id = broker_role, broker_id
        if settings.enable_controller_mode:
            return
        self._changed |= {"brokerRole": broker_role, "brokerId": str(broker_id)}
        self.version.next(now)
        self._dirty_tables.mark(self.NAME)

    def rewrite(self) -> Callable[[bytes], str]:
        """A function from the properties file's content to the one with all changes made since the start."""
        changed = dict(self._changed)
        return lambda content: update_properties(content, changed)
