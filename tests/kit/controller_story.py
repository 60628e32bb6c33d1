"""A controller and brokers that talk to it, without network, clock or store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from orbitmq.controller.controller import Controller
from orbitmq.controller.leadership import Leadership
from orbitmq.controller.options import ControllerSettings
from orbitmq.handling.call import Call, Outcome, Peer, Wait
from orbitmq.protocol.bodies.ha import SyncStateSet
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import (
    ControllerAlterSyncStateSet,
    ControllerApplyBrokerId,
    ControllerElectMaster,
    ControllerGetNextBrokerId,
    ControllerGetReplicaInfo,
    ControllerRegisterBroker,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat, NotifyBrokerRoleChanged
from orbitmq.protocol.schema.declare import Reply, Request

START = 1_700_000_000_000
FOR_EVER = 1 << 50
TIMEOUT_MS = 6_000


class ControllerStory:
    """One leading controller. Time passes, and the store takes what was decided, when the story says so."""

    def __init__(self, **settings: Any) -> None:
        self.settings = ControllerSettings(**settings)
        self.stored: dict[str, str] = {}
        """Content of the consensus store."""
        self.now = START
        self.told: list[tuple[str, NotifyBrokerRoleChanged]] = []
        """Address of each broker that was told of a new master, and what it was told."""
        self.takes_over()

    def takes_over(self, overheard: Iterable[StoryBroker] = ()) -> None:
        """Another controller leads from now on: it knows what the store holds, and the last heartbeats of the
        brokers that it has overheard, which are as old as they were.
        """
        leadership = Leadership("g", "c1", "127.0.0.1:19876", "c1", {"c1": "127.0.0.1:19876"})
        leadership.lease_until_ms = FOR_EVER
        self.controller = Controller(self.settings, leadership)
        self.handlers = self.controller.bind()
        for broker in overheard:
            if broker.last_beat is not None:
                request, at = broker.last_beat
                with contextlib.suppress(Refused):
                    self.ask(request, broker.connection, at)
        self.controller.lead(self.stored, self.now)

    def ask(self, request: Request[Any], connection: int = 1, at: int | None = None) -> Any:
        """The reply to a request as a peer would send it; the store takes at once what it waits for."""
        command = request.to_command()
        peer = Peer(connection, b"\x7f\0\0\x01\0\0\0\x01", "127.0.0.1:1", 493)
        call = Call(type(request).from_command(command), command, peer)
        try:
            result = self.handlers[request.CODE](call, self.now if at is None else at)
        finally:
            self.commit()
        if isinstance(result, Wait):
            result = result.then(Outcome(timed_out=False), self.now)
        assert isinstance(result, Reply)
        return result

    def commit(self) -> None:
        """The store takes what was decided so far; brokers are told."""
        journal = self.controller.journal
        batch = journal.drain()
        if batch is not None:
            for key, text in batch.changes.items():
                if text is None:
                    self.stored.pop(key, None)
                else:
                    self.stored[key] = text
            journal.confirm(batch)
        self.told += [(one.address, one.request) for one in self.controller.drain_notices()]

    def pass_time(self, ms: int) -> None:
        """Time passes, and the controller looks round."""
        self.now += ms
        self.controller.check(self.now)
        self.commit()

    def disconnect(self, connection: int) -> None:
        """A connection ends."""
        self.controller.connection_closed(connection, self.now)
        self.commit()


class StoryBroker:
    """A broker of the group `broker-a`: it has an id, is registered, and sends heartbeats when told to."""

    def __init__(
        self, story: ControllerStory, name: str = "broker-a", cluster: str = "C", run: str | None = None
    ) -> None:
        self._story = story
        self.name = name
        self.id: int = story.ask(ControllerGetNextBrokerId(cluster, name)).next_broker_id
        self.connection = 100 + self.id
        self.address = f"127.0.0.1:{10_000 + 100 * self.id}"
        self.cluster = cluster
        self.max_offset = 0
        self.epoch = 0
        self.is_master: bool | None = None
        self.known_epoch: int | None = None
        self.set_epoch: int | None = None
        self.timeout_ms = TIMEOUT_MS
        self.last_beat: tuple[BrokerHeartbeat, int] | None = None
        story.ask(ControllerApplyBrokerId(cluster, name, self.id, self.check_code))
        self.register(run)
        self.beat()

    @property
    def check_code(self) -> str:
        return f"{self.address};1"

    def register(self, run: str | None = None, last_run: str | None = None, epoch: int = 0) -> Any:
        """With a run it has enableBlindMaster; `epoch` is the last one of its log."""
        request = ControllerRegisterBroker(
            self.cluster, self.name, self.id, self.address, epoch=epoch, run=run, last_run=last_run
        )
        return self._story.ask(request)

    def beat(self) -> Any:
        beat = BrokerHeartbeat(
            self.cluster,
            self.address,
            self.name,
            self.id,
            self.epoch,
            self.max_offset,
            self.max_offset,
            self.timeout_ms,
            (1 << 31) - 1,
            self.known_epoch,
            self.set_epoch,
            self.is_master,
        )
        self.last_beat = beat, self._story.now
        return self._story.ask(beat, self.connection)

    def elect(self, designate: bool = False) -> Any:
        return self._story.ask(ControllerElectMaster(self.cluster, self.name, self.id, designate))

    def report_in_sync(self, *broker_ids: int, epoch: int | None = None, set_epoch: int | None = None) -> Any:
        """As master it reports who is in sync."""
        group = self._story.controller.groups.get(self.name)
        assert group is not None
        return self._story.ask(
            ControllerAlterSyncStateSet(
                self.name,
                self.id,
                group.master_epoch if epoch is None else epoch,
                body=SyncStateSet(
                    set(broker_ids), group.sync_state_set_epoch if set_epoch is None else set_epoch
                ),
            )
        )

    def die(self) -> None:
        """Its process ends, and with it its connection."""
        self._story.disconnect(self.connection)
        self.connection += 1000

    def replica_info(self) -> Any:
        return self._story.ask(ControllerGetReplicaInfo(self.name))
