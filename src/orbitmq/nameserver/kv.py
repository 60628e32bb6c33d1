"""The name server's KV configuration: namespaces of names and values that operators set."""

from __future__ import annotations

from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.route import KVConfigSerializeWrapper
from orbitmq.protocol.errors import MalformedJson

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
"""The namespace of ordered topics: topic -> `broker:queues;...`."""


class KVConfig:
    """All namespaces. A change is marked in `dirty_tables`; the file is whoever's business owns the disk."""

    NAME = "kvConfig"

    def __init__(self, dirty_tables: DirtyTables) -> None:
        self.namespaces: dict[str, dict[str, str]] = {}
        self._dirty_tables = dirty_tables

    def put(self, namespace: str, key: str, value: str) -> None:
        """Sets a value."""
        values = self.namespaces.setdefault(namespace, {})
        if values.get(key) != value:
            values[key] = value
            self._dirty_tables.mark(self.NAME)

    def get(self, namespace: str, key: str) -> str | None:
        """A value, None if it was never set."""
        return self.namespaces.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Removes a value, if it is there."""
        if self.namespaces.get(namespace, {}).pop(key, None) is not None:
            self._dirty_tables.mark(self.NAME)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All values of a namespace, None if nothing was ever set in it."""
        return self.namespaces.get(namespace)

    def to_text(self) -> str:
        """The text of `kvConfig.json`."""
        return KVConfigSerializeWrapper(self.namespaces).to_json_text()

    def load_text(self, text: str) -> None:
        """Takes over what a file holds. Raises MalformedJson, for the file of another table as well."""
        namespaces = KVConfigSerializeWrapper.from_json(text).config_table
        if namespaces is None:
            raise MalformedJson("it has no configTable")
        self.namespaces = namespaces
