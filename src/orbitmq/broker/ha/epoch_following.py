"""The slave's side in controller mode: it cuts what its master does not have, then follows epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import attrgetter

from orbitmq.broker.ha.following import Following
from orbitmq.broker.role.epochs import Epochs
from orbitmq.protocol.epoch_replication import Answer, Epoch, MasterReader, encode_handshake, encode_report
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.replication import BadStream
from orbitmq.store.replica.replica_log import ReplicaLog


class LogsDiverged(OrbitError):
    """The own log has bytes behind `common_end` that its master's does not have: they are to be cut off."""

    def __init__(self, common_end: int, log_end: int, master: str) -> None:
        super().__init__(
            f"the log of the master {master} is the same up to {common_end}; here it ends at {log_end}"
        )
        self.common_end = common_end


class EpochFollowing(Following):
    """One connection to the master. `on_epoch(epoch)` is called before the first bytes of a new epoch."""

    def __init__(
        self,
        replica: ReplicaLog,
        master: str,
        now: int,
        *,
        broker_id: int,
        epochs: Epochs,
        least_epoch: int,
        on_epoch: Callable[[Epoch], None],
    ) -> None:
        super().__init__(replica, master, now)
        self.confirm_offset = 0
        """The master's confirm offset: what lies behind it may still be cut off."""
        self._broker_id = broker_id
        self._epochs = epochs
        self._least_epoch = least_epoch
        self._on_epoch = on_epoch
        self._reader = MasterReader()
        self._agreed = False

    @property
    def knows_epochs(self) -> bool:
        """True if this log has epochs by which it can be compared with the master's."""
        return bool(self._epochs.entries)

    @property
    def handshake(self) -> bytes:
        return encode_handshake(self._broker_id)

    def report(self, end: int, now: int, interval_ms: int) -> bytes | None:
        """As of any slave, once both sides have agreed where to continue."""
        if not self._agreed or super().report(end, now, interval_ms) is None:
            return None
        return encode_report(self.reported)

    def heard(self, data: bytes, now: int) -> None:
        """Appends what the master has sent. Raises LogsDiverged, BadStream, NotTheMasters."""
        self.last_heard_ms = now
        pieces = self._reader.feed(data)
        if not self._agreed and self._reader.answer is not None:
            self._agree(self._reader.answer)
        for epoch, group in groupby(pieces, key=attrgetter("epoch")):
            of_epoch = list(group)
            self._check(of_epoch[0].physical_offset)
            if epoch.number < self._epochs.last:
                raise BadStream(
                    f"the master {self.master} sends bytes of epoch {epoch.number}, and this log is in "
                    f"epoch {self._epochs.last}: another broker was elected since"
                )
            if epoch.number > self._epochs.last:
                self._on_epoch(epoch)
            self.confirm_offset = max(self.confirm_offset, *(piece.confirm_offset for piece in of_epoch))
            self._append([(piece.physical_offset, piece.data) for piece in of_epoch], now)

    def _agree(self, answer: Answer) -> None:
        """Continues where both logs are the same. Raises LogsDiverged where that is before this one's end."""
        newest = answer.epochs[-1].number if answer.epochs else 0
        if newest < self._least_epoch:
            raise BadStream(
                f"the master {self.master} is in epoch {newest}, and epoch {self._least_epoch} has begun: "
                "another broker was elected since"
            )
        end = self._replica.end
        if end and self._epochs.entries:
            common = self._epochs.common_end(end, answer.epochs, answer.log_end)
            if common is None:
                raise BadStream(
                    f"the log of the master {self.master} has no epoch in common with this one: they are "
                    "logs of different groups. Start this broker with an empty store"
                )
            if common < end:
                raise LogsDiverged(common, end, self.master)
        self._agreed = True
