"""The owner of a prefix in a consensus store, by the text of one key there."""

from __future__ import annotations

import json
import uuid

from orbitmq.server.controller.consensus import ForeignStore, StoreWiped

IDENTITY_KEY = "identity"
"""Says whose prefix it is, and distinguishes a store that was wiped from one that never held anything."""


class PrefixIdentity:
    """The identity of a prefix for controllers of `group`, known from the first check on.

    `key`, `prefix` and `store` are what errors call them. `if_new` is the error where the store holds another
    identity of this group than before.
    """

    def __init__(self, group: str, *, store: str, prefix: str, key: str, if_new: str) -> None:
        self.text = ""
        """Empty until it is known."""
        self._group = group
        self._store = store
        self._prefix = prefix
        self._key = key
        self._if_new = if_new

    def new_text(self) -> str:
        """The text that the first controller writes."""
        return json.dumps({"group": self._group, "id": uuid.uuid4().hex})

    def check(self, text: str) -> None:
        """Takes the text as known. Raises ForeignStore for another group's, StoreWiped for a newer one."""
        try:
            group = json.loads(text)["group"]
        except (ValueError, KeyError, TypeError):
            raise ForeignStore(f"the {self._key} in {self._store} is not of a controller") from None
        if group != self._group:
            raise ForeignStore(
                f"the prefix {self._prefix} in {self._store} belongs to the controllers of {group!r}, not of "
                f"{self._group!r}: set storePrefix or controllerGroup"
            )
        if self.text and text != self.text:
            raise StoreWiped(self._if_new)
        self.text = text
