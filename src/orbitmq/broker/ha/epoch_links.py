"""A slave in controller mode, as its master knows it: it names itself, and gets the log epoch by epoch."""

from __future__ import annotations

from orbitmq.broker.role.epochs import Epochs
from orbitmq.broker.role.links import Send, SlaveLink
from orbitmq.protocol.epoch_replication import MAX_PIECE_BYTES, SlaveReader, encode_answer, encode_header
from orbitmq.protocol.replication import BadStream


class EpochLink(SlaveLink):
    """One slave. It is answered with the epochs of the log before it says where it continues."""

    def __init__(self, address: str, now: int, epochs: Epochs) -> None:
        super().__init__(address, now)
        self._epochs = epochs
        self._reader = SlaveReader()

    def _read(self, data: bytes, log_end: int) -> int | None:
        is_new = self._reader.handshake is None
        report = self._reader.feed(data)
        handshake = self._reader.handshake
        if is_new and handshake is not None:
            if handshake.is_learner:
                raise BadStream(f"the slave {self.address} is an asyncLearner, which is not served")
            self.broker_id = handshake.broker_id
            self.greeting = encode_answer(log_end, self._epochs.entries)
        return report

    def header(self, send: Send, confirm_offset: int) -> bytes:
        epoch, _ = self._epochs.at(send.physical_offset)
        return encode_header(*send, epoch, confirm_offset)

    def _room(self, physical_offset: int) -> int:
        _, end = self._epochs.at(physical_offset)
        return MAX_PIECE_BYTES if end is None else min(end - physical_offset, MAX_PIECE_BYTES)
