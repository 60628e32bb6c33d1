"""Master and slave in controller mode, without a socket between them."""

from __future__ import annotations

import pytest

from orbitmq.broker.ha.epoch_following import EpochFollowing, LogsDiverged
from orbitmq.broker.ha.epoch_links import EpochLink
from orbitmq.broker.role.epochs import Epochs
from orbitmq.broker.role.links import Send
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.protocol.replication import BadStream

SEGMENT = 1000


class Log:
    """A replica's log in memory."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    @property
    def end(self) -> int:
        return len(self.data)

    def append(self, physical_offset: int, data: bytes) -> None:
        assert physical_offset == len(self.data)
        self.data += data

    def drop_partial(self) -> None: ...


class Pair:
    """A master with a log and its epochs, and a slave with others."""

    def __init__(
        self,
        log: bytes,
        epochs: list[Epoch],
        mine: bytes = b"",
        my_epochs: tuple[Epoch, ...] = (),
        least: int = 0,
    ) -> None:
        self.log, self.epochs = log, Epochs(epochs)
        self.link = EpochLink("10.0.0.2:1", 0, self.epochs)
        self.replica, self.own = Log(mine), Epochs(my_epochs)
        self.saved: list[Epoch] = []
        self.slave = EpochFollowing(
            self.replica, "master", 0, broker_id=2, epochs=self.own, least_epoch=least, on_epoch=self.begin
        )

    def begin(self, epoch: Epoch) -> None:
        self.own.append(epoch)
        self.saved.append(epoch)

    def greet(self) -> None:
        assert self.slave.report(self.replica.end, 0, 1) is None, "first both have to agree"
        self.link.heard(self.slave.handshake, 0, len(self.log), 0)
        assert self.link.greeting is not None
        self.slave.heard(self.link.greeting, 0)

    def run(self, batch: int = 300) -> list[int]:
        self.greet()
        ends = []
        for _ in range(1000):
            report = self.slave.report(self.replica.end, 0, 1_000_000)
            if report is not None:
                self.link.heard(report, 0, len(self.log), 0)
            send = self.link.next_send(len(self.log), SEGMENT, batch, 1_000_000, 0)
            if send is None:
                break
            data = self.log[send.physical_offset : send.physical_offset + send.size]
            self.slave.heard(self.link.header(send, len(self.log)) + data, 0)
            self.link.sent(send, 0)
            ends.append(send.physical_offset + send.size)
        return ends


LOG = bytes(range(256)) * 20


def test_an_empty_slave_gets_the_log_and_its_epochs() -> None:
    pair = Pair(LOG, [Epoch(1, 0), Epoch(2, 450), Epoch(4, 2100)])
    ends = pair.run()
    assert pair.replica.data == LOG
    assert pair.own.entries == pair.epochs.entries == pair.saved
    assert {450, 2100} <= set(ends), "no piece crosses the end of an epoch"
    assert pair.link.acknowledged == len(LOG)
    assert pair.slave.confirm_offset == len(LOG)
    assert pair.link.broker_id == 2


def test_a_slave_goes_on_where_its_log_ends() -> None:
    pair = Pair(LOG, [Epoch(1, 0), Epoch(2, 450)], LOG[:700], (Epoch(1, 0), Epoch(2, 450)))
    pair.run()
    assert pair.replica.data == LOG
    assert pair.saved == []


def test_a_master_before_is_told_how_much_of_its_log_was_never_the_groups() -> None:
    pair = Pair(LOG, [Epoch(1, 0), Epoch(3, 600)], LOG[:600] + b"other", (Epoch(1, 0), Epoch(2, 500)))
    with pytest.raises(LogsDiverged) as diverged:
        pair.greet()
    assert diverged.value.common_end == 500


def test_a_log_without_a_common_epoch_is_of_another_group() -> None:
    pair = Pair(LOG, [Epoch(3, 0)], LOG[:600], (Epoch(1, 0),))
    with pytest.raises(BadStream, match="different groups"):
        pair.greet()


def test_a_master_of_an_epoch_that_is_over_is_not_followed() -> None:
    pair = Pair(LOG, [Epoch(1, 0), Epoch(2, 10)], least=3)
    with pytest.raises(BadStream, match="epoch 3 has begun"):
        pair.greet()


def test_bytes_of_an_epoch_that_is_over_are_refused() -> None:
    pair = Pair(LOG, [Epoch(2, 0)])
    pair.run()
    header = EpochLink("m", 0, Epochs([Epoch(1, 0)]))
    piece = header.header(Send(len(LOG), 0), 0)
    with pytest.raises(BadStream, match="another broker was elected"):
        pair.slave.heard(piece, 0)
