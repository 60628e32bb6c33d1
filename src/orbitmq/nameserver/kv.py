"""The name server's KV configuration: namespaces of names and values that operators set."""

from __future__ import annotations

from collections import Counter

from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.nameserver.limits import (
    MOST_KEYS,
    MOST_KEYS_OF_PEER,
    MOST_KV_CHARACTERS,
    MOST_VALUE_CHARACTERS,
    LimitReached,
    check_name,
)
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
        self._keys = 0
        self._characters = 0
        self._peer_of: dict[tuple[str, str], str] = {}
        """The peer that set a key since the start."""
        self._keys_of: Counter[str] = Counter()

    def put(self, namespace: str, key: str, value: str, peer: str = "") -> None:
        """Sets a value for a peer. Raises LimitReached."""
        known = self.get(namespace, key)
        if known == value:
            return
        self._check_room(namespace, key, value, known, peer)
        if known is None:
            self._keys += 1
            self._characters += len(namespace) + len(key)
            self._peer_of[namespace, key] = peer
            self._keys_of[peer] += 1
        self._characters += len(value) - len(known or "")
        self.namespaces.setdefault(namespace, {})[key] = value
        self._dirty_tables.mark(self.NAME)

    def _check_room(self, namespace: str, key: str, value: str, known: str | None, peer: str) -> None:
        check_name(namespace, "the namespace")
        check_name(key, "the key")
        if len(value) > MOST_VALUE_CHARACTERS:
            raise LimitReached(f"a value has {MOST_VALUE_CHARACTERS} characters at most, not {len(value)}")
        more = len(value) - len(known) if known is not None else len(namespace) + len(key) + len(value)
        if more > 0 and self._characters + more > MOST_KV_CHARACTERS:
            raise LimitReached(f"the key-value configuration has {MOST_KV_CHARACTERS} characters at most")
        if known is None and self._keys >= MOST_KEYS:
            raise LimitReached(f"the key-value configuration has {MOST_KEYS} keys at most")
        if known is None and self._keys_of[peer] >= MOST_KEYS_OF_PEER:
            raise LimitReached(f"{MOST_KEYS_OF_PEER} keys were set from {peer}, and that is the limit")

    def get(self, namespace: str, key: str) -> str | None:
        """A value, None if it was never set."""
        return self.namespaces.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Removes a value, if it is there."""
        values = self.namespaces.get(namespace, {})
        value = values.pop(key, None)
        if value is not None:
            if not values:
                del self.namespaces[namespace]  # names of empty ones would have no bound
            self._keys -= 1
            self._characters -= len(namespace) + len(key) + len(value)
            peer = self._peer_of.pop((namespace, key), None)
            if peer is not None:
                self._keys_of[peer] -= 1
                if not self._keys_of[peer]:
                    del self._keys_of[peer]
            self._dirty_tables.mark(self.NAME)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All values of a namespace, None if nothing is set in it."""
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
        pairs = [(name, key, value) for name, values in namespaces.items() for key, value in values.items()]
        self._keys = len(pairs)
        self._characters = sum(len(name) + len(key) + len(value) for name, key, value in pairs)
