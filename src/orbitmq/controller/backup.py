"""Backups of the decisions of controllers: the keys of one, and their meaning after a restore."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from orbitmq.controller.group import BrokerGroup, UnreadableGroup
from orbitmq.controller.groups import GROUP_KEYS
from orbitmq.controller.handlers.admin import UPDATES_KEY
from orbitmq.protocol.errors import OrbitError

FORMAT = 1


class BadBackup(OrbitError):
    """A file is no backup of controllers, or of a later version."""


def backup_text(texts: Mapping[str, str], now: int) -> str:
    """A backup of a store's keys at `now` (ms): groups and changed options. It does not say who is alive."""
    kept = {key: text for key, text in texts.items() if is_decision(key)}
    return json.dumps({"format": FORMAT, "takenMs": now, "keys": kept}, ensure_ascii=False, indent=1) + "\n"


def is_decision(key: str) -> bool:
    """True for a key of a group, or of options."""
    return key.startswith(GROUP_KEYS) or key == UPDATES_KEY


def groups_in(texts: Mapping[str, str]) -> list[str]:
    """The names of the broker groups, sorted."""
    return sorted(key.removeprefix(GROUP_KEYS) for key in texts if key.startswith(GROUP_KEYS))


def restored_texts(text: str, now: int) -> dict[str, str]:
    """The keys to write from a backup, at `now` (ms). Raises BadBackup.

    Brokers may be older or newer than the backup, so its in-sync sets count for nothing: each group is
    marked as restored, and elects the member with the most complete log once all of them were heard.
    """
    try:
        found = json.loads(text)
        version, keys = found["format"], dict(found["keys"])
    except (ValueError, KeyError, TypeError):
        raise BadBackup("the file is no backup of a consensus store") from None
    if version != FORMAT:
        raise BadBackup(f"the backup has format {version!r}; this release reads {FORMAT}")
    return {key: _restored(key, value, now) for key, value in keys.items()}


def _restored(key: str, text: object, now: int) -> str:
    if not isinstance(text, str) or not is_decision(key):
        raise BadBackup(f"the backup has a key {key} that is not of a controller")
    if key == UPDATES_KEY:
        return text
    try:
        group = BrokerGroup.from_text(text)
    except UnreadableGroup as error:
        raise BadBackup(
            f"the backup has an unreadable group {key.removeprefix(GROUP_KEYS)}: {error}"
        ) from None
    if group.was_never_elected:
        return text
    return replace(group.without_master(now, "the consensus store was restored"), is_restored=True).to_text()
