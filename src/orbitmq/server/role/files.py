"""The files of a broker in controller mode: its id in its group, the epochs of its log, and its master."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import NamedTuple

from orbitmq.broker.role.epochs import BadEpochs, Epochs
from orbitmq.broker.role.machine import Elected, Run
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.server.errors import StartError
from orbitmq.store.config_files import read_text, write_text

TEMPORARY = "-temp"
"""Ends the name of the file of an id that was applied for and perhaps not given."""


class Application(NamedTuple):
    """An id that a broker applies for, with the code by which it may apply again after a crash."""

    broker_id: int
    check_code: str


class IdentityFile:
    """The id that a controller gave this broker: `cluster#name#id`, as Apache's brokers keep it."""

    def __init__(self, path: Path, cluster: str, name: str) -> None:
        self._path = path
        self._temporary = path.with_name(path.name + TEMPORARY)
        self._cluster = cluster
        self._name = name

    def read(self) -> int | None:
        """The id; None where the controller has not given one. Raises StartError."""
        parts = self._parts(self._path, 3)
        return None if parts is None else int(parts[2])

    def read_application(self) -> Application | None:
        """The id that was applied for before a crash. Raises StartError."""
        parts = self._parts(self._temporary, 4)
        return None if parts is None else Application(int(parts[2]), parts[3])

    def apply(self, application: Application) -> None:
        """Notes durably that this id is applied for. Raises OSError."""
        self._write(self._temporary, str(application.broker_id), application.check_code)

    def given(self, broker_id: int) -> None:
        """Notes durably that this id was given. Raises OSError."""
        self._write(self._path, str(broker_id))
        self._temporary.unlink(missing_ok=True)

    def _write(self, path: Path, *parts: str) -> None:
        write_text(path, "#".join((self._cluster, self._name, *parts)))

    def _parts(self, path: Path, count: int) -> list[str] | None:
        if not path.exists():
            return None
        parts = path.read_text().strip().split("#")
        if len(parts) != count or not parts[2].isdigit():
            raise StartError(
                f"{path} does not hold `cluster#name#id`: restore it, or remove it to get a new id"
            )
        if parts[:2] != [self._cluster, self._name]:
            raise StartError(
                f"{path} is that of broker {parts[1]} of cluster {parts[0]}, and this is {self._name} of "
                f"{self._cluster}: start it with its own data folder"
            )
        return parts


class FollowedFile:
    """The master that a slave follows, `cluster#name#own address#epoch#address`: without a controller that
    answers it follows that one again when it has restarted. A copy of its folder elsewhere does not.
    """

    def __init__(self, path: Path, cluster: str, name: str, address: str) -> None:
        self._path = path
        self._slave = cluster, name, address

    def read(self) -> Elected | None:
        """The master and its epoch; None without a file, or with one that is damaged or another slave's."""
        if not self._path.exists():
            return None
        *slave, epoch, address = ["", *self._path.read_text(errors="replace").strip().split("#")][-5:]
        if tuple(slave) != self._slave or not epoch.isdigit() or not address:
            return None
        return Elected.followed(address, int(epoch))

    def note(self, change: RoleChange) -> None:
        """Notes durably whom this broker follows with its new role, before it has it. Raises OSError."""
        if change.role is Role.SLAVE:
            write_text(self._path, "#".join((*self._slave, str(change.epoch), change.master_address)))
        elif change.role is Role.MASTER:
            self._path.unlink(missing_ok=True)


class RunFile:
    """The run of the process that has this data folder, or had it last: `cluster#name#run#end#state`.

    `end` is where its log ended at least: at its beginning, or at its end where that was in order.
    """

    OPEN, SYNCED, ENDED = "open", "synced", "ended"

    def __init__(self, path: Path, cluster: str, name: str) -> None:
        self._path = path
        self._group = cluster, name

    def begin(self, log_end: int, *, sync_flush: bool) -> Run:
        """Notes durably that a run begins, with a log that ends there; what it acknowledges is on the disk
        before with `sync_flush`. Raises OSError.
        """
        last, least, state = self._read()
        has_all = state in (self.SYNCED, self.ENDED) and log_end >= least
        run = Run(secrets.token_hex(8), last if has_all else None)
        self._write(run, log_end, self.SYNCED if sync_flush else self.OPEN)
        return run

    def end(self, run: Run, log_end: int) -> None:
        """Notes durably that a run has ended, and that all of its log is on the disk. Raises OSError."""
        self._write(run, log_end, self.ENDED)

    def _read(self) -> tuple[str | None, int, str]:
        text = self._path.read_text(errors="replace").strip() if self._path.exists() else ""
        *group, run, end, state = ["", "", *text.split("#")][-5:]
        return (run, int(end), state) if tuple(group) == self._group and end.isdigit() else (None, 0, "")

    def _write(self, run: Run, log_end: int, state: str) -> None:
        write_text(self._path, "#".join((*self._group, run.id or "", str(log_end), state)))


class EpochFile:
    """The epochs of the log, on the disk before the first byte of each (`epochFileCheckpoint`)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Epochs:
        """The epochs; none without a file. Raises StartError where the file and its backup are damaged."""

        def is_usable(text: str) -> bool:
            try:
                Epochs.from_text(text)
            except BadEpochs:
                return False
            return True

        found = read_text(self._path, is_usable)
        if found.text is None:
            return Epochs()
        try:
            return Epochs.from_text(found.text)
        except BadEpochs:
            raise StartError(
                f"{self._path} is damaged, and so is its backup: without the epochs of its log this broker "
                "cannot be compared with others. Start it with an empty store, and it gets its master's log"
            ) from None

    def begin(self, epochs: Epochs, entry: Epoch) -> None:
        """Begins an epoch, on the disk first: one that could not be noted has not begun. Raises OSError,
        BadEpochs.
        """
        self.write(epochs.with_epoch(entry))
        epochs.append(entry)

    def truncate(self, epochs: Epochs, log_end: int) -> None:
        """Forgets the epochs of a log that was cut, on the disk first. Raises OSError."""
        kept = Epochs(epochs.entries)
        if kept.truncate(log_end):
            self.write(kept)
            epochs.truncate(log_end)

    def write(self, epochs: Epochs) -> None:
        """Saves epochs durably; those of the log change behind it. Raises OSError."""
        write_text(self._path, epochs.to_text())
