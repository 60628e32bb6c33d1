"""The file of a switch: what was so before it, and how far it is. It outlives the process that writes it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from orbitmq.protocol.errors import OrbitError
from orbitmq.whole_files import sync_folder, write_whole


class BadJournal(OrbitError):
    """The file cannot be used."""


class Phase(IntEnum):
    """Progress of a switch. Each step is noted before the next one begins."""

    BEGUN = 0
    """Nothing was changed yet."""
    DRAINING = 1
    """Routes have no write permission any more."""
    FENCED = 2
    """The master refuses sends."""
    LEVEL = 3
    """The slave has everything; the master may be stopped."""
    STOPPED = 4
    """The master is gone; the slave may be promoted."""
    PROMOTED = 5
    """The new master serves."""
    DONE = 6


@dataclass(slots=True)
class SwitchRecord:
    """One switch of a group, with what was so before."""

    group: str
    to: str
    master: str
    target: str
    broker_role: str
    """The master's brokerRole, which its successor gets."""
    permission: str
    """The master's brokerPermission."""
    perms: dict[str, int]
    """Permission of each topic of the group in the routes."""
    phase: Phase = Phase.BEGUN
    log_end: int = 0
    """The last end of the master's log that was seen."""
    ends: dict[str, dict[str, int]] = field(default_factory=dict)
    """Next queue offset of every queue at the master, behind the fence."""


class MigrationJournal:
    """All switches of a migration, by group, in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, group: str) -> SwitchRecord | None:
        """The switch of a group that has begun, or None. Raises BadJournal."""
        row = self._rows().get(group)
        if row is None:
            return None
        try:
            return SwitchRecord(**{**row, "phase": Phase(row["phase"])})
        except (TypeError, ValueError, KeyError) as error:
            raise BadJournal(f"{self.path} is no journal of a migration: {error}") from None

    def write(self, record: SwitchRecord) -> None:
        """Notes how far a switch is: it is on the disk when this returns. Raises OSError."""
        rows = self._rows()
        rows[record.group] = asdict(record)
        self._replace(rows)

    def forget(self, group: str) -> None:
        """Removes what was noted of a group."""
        rows = self._rows()
        if rows.pop(group, None) is not None:
            self._replace(rows)

    def _rows(self) -> dict[str, dict[str, Any]]:
        try:
            rows = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            raise BadJournal(
                f"{self.path} is no journal of a migration: --journal names another file"
            ) from None
        if not isinstance(rows, dict):
            raise BadJournal(f"{self.path} is no journal of a migration: --journal names another file")
        return rows

    def _replace(self, rows: dict[str, dict[str, Any]]) -> None:
        write_whole(self.path, json.dumps(rows, indent=1))
        sync_folder(self.path.parent)
