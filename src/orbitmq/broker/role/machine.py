"""A broker whose role a controller decides: what is to be done next, by all that was heard.

The server tells what has happened (a heartbeat was answered, a decision was heard, logs have parted, a role
was taken), asks for the next step, carries it out, and asks again. Nothing here waits, and `now` is given.
Steps follow from what is known, not from the order in which it came: one that has failed is given again after
the controller was asked again.

A master that hears no controller may continue blind: without a lease it acknowledges what all hold who may be
elected, for whoever is elected had it before its own epoch began. A contradiction ends it at once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.role.epochs import Epochs
from orbitmq.broker.role.in_sync import InSyncSet, Lease
from orbitmq.broker.role.links import Links
from orbitmq.broker.role.options import RoleOptions
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.broker.role.state import RoleState
from orbitmq.protocol.bodies.ha import SyncStateSet
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.controller import (
    ControllerAlterSyncStateSet,
    ControllerElectMaster,
    ControllerGetReplicaInfo,
    ControllerRegisterBroker,
    ElectMasterReply,
    ReplicaInfoReply,
    SyncStateSetReply,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat

log = logging.getLogger(__name__)

RETRY_MS = 500
"""Time after which the controller is asked again where a step has failed."""
BLIND_AHEAD = 20
"""A master continues blind by this part of the controller's time limit before its lease is over."""
GONE = (
    ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
)
"""Refusals of a broker that the controller does not know, or not at this address: it registers again."""
SILENT = (
    ResponseCode.CONTROLLER_NOT_LEADER,
    ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR,
    ResponseCode.GO_AWAY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.SYSTEM_BUSY,
)
"""Refusals of a controller that does not lead, or cannot decide: they say nothing of the group."""
NOT_MASTER = (
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    ResponseCode.CONTROLLER_INVALID_MASTER,
    ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
)
"""Refusals that say that what this master knows of its group is outdated."""


class OwnLog(Protocol):
    """The part of the store's log that the machine looks at."""

    @property
    def max_physical(self) -> int: ...
    @property
    def confirm_offset(self) -> int: ...


class Elected(NamedTuple):
    """The controller's word on a group."""

    master_id: int
    master_address: str
    epoch: int
    ids: frozenset[int]
    set_epoch: int
    wait_ms: int = 0
    """Time for which another member may still answer as master."""
    only_in_sync: bool = False
    """True if the controller says that it elects no member out of sync."""

    @classmethod
    def of(cls, reply: ReplicaInfoReply | ElectMasterReply) -> Elected | None:
        """The decision in an answer; None where the group has no master."""
        if reply.master_broker_id is None or not reply.master_address or reply.master_epoch is None:
            return None
        ids, set_epoch = frozenset[int](), 0
        if isinstance(reply, ElectMasterReply):
            set_epoch = reply.sync_state_set_epoch or 0
        elif reply.body is not None:
            set_epoch = reply.body.sync_state_set_epoch
        if reply.body is not None:
            ids = frozenset(reply.body.sync_state_set or ())
        return cls(
            reply.master_broker_id,
            reply.master_address,
            reply.master_epoch,
            ids,
            set_epoch,
            reply.wait_ms or 0,
            bool(reply.only_in_sync),
        )

    @classmethod
    def followed(cls, master_address: str, epoch: int) -> Elected:
        """The decision that a slave carried out before; set and master's id are not known any more."""
        return cls(0, master_address, epoch, frozenset(), 0)


class Run(NamedTuple):
    """A run of a broker's process, by which controllers tell it from those before and from copies."""

    id: str | None = None
    """None where enableBlindMaster is off: then no controller asks."""
    last: str | None = None
    """The run before, whose log this one has in full; None if it may lack the end of that."""


@dataclass(frozen=True, slots=True)
class ChangeRole:
    """Change the role; then `role_taken`."""

    change: RoleChange


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the log of this broker, whose role is unknown; then `log_cut`."""

    physical_offset: int


@dataclass(frozen=True, slots=True)
class Beat:
    """Send a heartbeat; then `beat_answered`. One that `tells` only has to be heard: then `told`, refused or
    not.
    """

    tells: bool = False


@dataclass(frozen=True, slots=True)
class FindLog:
    """Ask the master for the address of its log; then `log_found`."""

    master_address: str


@dataclass(frozen=True, slots=True)
class AskLater:
    """Ask the controller again after some ms."""

    ms: int


@dataclass(frozen=True, slots=True)
class GoBlind:
    """Stay master without a lease. Answers that are ready leave before, or are cut off with their
    connections if the lease is over: they rest on fewer members than answers do from then on.
    """


@dataclass(frozen=True, slots=True)
class See:
    """A controller has said that this broker is master: its lease counts again."""


Step = ChangeRole | Cut | Beat | FindLog | AskLater | GoBlind | See


class RoleMachine:
    """One broker's. It reads its role, and changes only its lease, its in-sync set and its own notes.

    `broker_id` is the id that the controller has given, 0 before.
    """

    def __init__(
        self,
        settings: RoleOptions,
        identity: BrokerIdentity,
        log: OwnLog,
        role: RoleState,
        in_sync: InSyncSet,
        epochs: Epochs,
        links: Links,
        broker_id: int = 0,
        run: Run | None = None,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._log = log
        self._role = role
        self.in_sync = in_sync
        self._epochs = epochs
        self._links = links
        self.broker_id = broker_id
        self._run = run or Run()
        self.lease = Lease()
        """Time for which it may stay master."""
        self.is_registered = False
        self.known_epoch = 0
        """The last epoch of which a controller has told, whether a role came of it or not."""
        self._known_set = -1, 0
        """The epoch in which a controller has told of an in-sync set last, and the number of its change."""
        self.remembered: Elected | None = None
        """The master that this broker follows, or followed before it restarted."""
        self._elected: Elected | None = None
        """The decision that is not carried out yet."""
        self._followed = ""
        """Address of the master that this slave follows."""
        self._ha_address: str | None = None
        """Address of the log of the master that was elected; None before it was asked."""
        self._owes_word = False
        """The controller is to hear that this broker knows of another master, who may wait for that."""
        self._to_cut: int | None = None
        """Physical offset at which the log is still to end: what is behind it is none of the group's."""
        self._last_mastership = 0
        """The last epoch in which this process was master; 0 for none, and once an election was asked for
        instead of continuing in it."""
        self._elects_only_in_sync = False
        """The last answer of a controller said so."""
        self._was_contradicted = False
        """While this master was blind, a controller has said something else than that it is the master."""
        self._set_looked_ms = 0
        self._set_asked_in = 0
        """The epoch in which the controller was asked about the in-sync set."""

    def may_answer(self, now: int) -> bool:
        """False for a master whose lease is over: another one may have been elected. A blind one's answers
        rest on all who may be.
        """
        role = self._role
        if role.current is not Role.MASTER:
            return True
        return self.lease.holds(now) if role.blind_since is None else not self._knows_better

    @property
    def _knows_better(self) -> bool:
        """True if a controller or another broker has said that this broker is not the master."""
        return self._was_contradicted or self._role.heard_epoch > self._role.epoch

    # Registration, heartbeats and the lease.

    def registration(self, broker_id: int) -> ControllerRegisterBroker:
        """The registration of this broker. The controller takes a master that registers for one that has
        started over, and may elect another one: its lease is over.
        """
        self.broker_id, self.lease = broker_id, Lease()
        self.contradicted()
        identity = self._identity
        return ControllerRegisterBroker(
            identity.cluster,
            identity.name,
            broker_id,
            identity.address,
            epoch=self._epochs.last,
            run=self._run.id,
            last_run=self._run.last,
        )

    def registered(self) -> None:
        """The controller knows this broker."""
        self.is_registered = True

    def heartbeat(self) -> BrokerHeartbeat:
        """The heartbeat that is due."""
        settings, identity, log = self._settings, self._identity, self._log
        epoch, is_master = self._epochs.last, self._role.current is Role.MASTER
        known_epoch = max(self.known_epoch, self._role.epoch, epoch)
        set_in, known_set = self._known_set
        return BrokerHeartbeat(
            identity.cluster,
            identity.address,
            identity.name,
            self.broker_id,
            epoch=epoch,
            max_offset=log.max_physical,
            confirm_offset=log.confirm_offset,
            heartbeat_timeout_mills=settings.controller_heart_beat_timeout_mills,
            election_priority=settings.broker_election_priority,
            known_epoch=known_epoch,
            set_epoch=self.in_sync.epoch if is_master else known_set if set_in == known_epoch else None,
            is_master=is_master,
        )

    def beat_answered(self, sent_ms: int, now: int) -> bool:
        """A heartbeat that left at `sent_ms` was answered: the lease is renewed. True if there was none, or
        it does not count yet: the controller is to be asked who is master.
        """
        had_one = self.lease.holds(now) and self._role.blind_since is None
        self.lease = Lease.of(sent_ms, self._settings.controller_heart_beat_timeout_mills)
        return not had_one

    def refused(self, code: int) -> None:
        """The controller has refused a request."""
        if code in GONE:
            self.is_registered = False
        if code not in SILENT:
            self.contradicted()

    def contradicted(self) -> None:
        """A controller has answered something else than that this broker is the master."""
        self._was_contradicted = self._role.blind_since is not None

    def lease_step(self, now: int) -> ChangeRole | GoBlind | None:
        """Fences a master whose lease is over, or has it continue blind, if it can shortly before that: then
        nothing is cut off.
        """
        role = self._role
        if role.current is Role.MASTER and role.blind_since is None and self._can_be_blind():
            timeout_ms = int(self._settings.controller_heart_beat_timeout_mills)
            return None if self.lease.holds(now + timeout_ms // BLIND_AHEAD) else GoBlind()
        if self.may_answer(now):
            return None
        if role.blind_since is not None:
            log.error("another master of %s may have been elected: this one stops", self._identity.name)
            return self._fence()
        log.error(
            "no controller has answered in time: this master of %s stops acknowledging, for another one may "
            "have been elected",
            self._identity.name,
        )
        return self._fence()

    def _can_be_blind(self) -> bool:
        """True if this master may continue without a lease: all who may be elected know of it, and no other
        member is elected.
        """
        role, others = self._role, self.in_sync.others
        return (
            bool(self._settings.enable_blind_master)
            and self._elects_only_in_sync
            and others <= role.able
            and role.heard_epoch <= role.epoch
        )

    def went_blind(self) -> None:
        """A `GoBlind` has succeeded."""
        self._was_contradicted = False
        log.error(
            "no controller answers: this master of %s goes on, and acknowledges what all of %s hold. Locks "
            "and changes of topics, groups and options are refused until a controller is back",
            self._identity.name,
            _names(self.in_sync.others | {self.broker_id}),
        )

    def _fence(self, epoch: int = 0) -> ChangeRole:
        return ChangeRole(RoleChange(Role.UNKNOWN, self.broker_id, epoch=epoch))

    # The role.

    def election(self, now: int) -> ControllerElectMaster:
        """Asks for a master of a group that has none."""
        identity = self._identity
        return ControllerElectMaster(identity.cluster, identity.name, self.broker_id, False, now)

    def heard(self, elected: Elected) -> None:
        """The controller has told who is master."""
        self._elected, self._ha_address = elected, None
        self._elects_only_in_sync = elected.only_in_sync
        if (elected.master_id, elected.epoch) == (self.broker_id, self._role.epoch):
            self._role.confirm_epoch()
        else:
            self.contradicted()
        if elected.epoch >= self._role.epoch:
            is_news = elected.epoch > self.known_epoch
            self.known_epoch = max(self.known_epoch, elected.epoch)
            self._known_set = max(self._known_set, (elected.epoch, elected.set_epoch))
            self._owes_word = elected.master_id != self.broker_id and (is_news or self._owes_word)

    def nobody_answers(self) -> None:
        """No controller answers. A slave that has restarted follows its master of before, which may be blind
        and wait for it; one whose log has a later epoch does not, for that master was replaced.
        """
        before, role = self.remembered, self._role
        if (
            before is not None
            and self.broker_id
            and self._settings.enable_blind_master
            and role.current is Role.UNKNOWN
            and before.epoch >= max(role.epoch, self._epochs.last, self.known_epoch)
        ):
            self.heard(before)

    def log_found(self, ha_address: str) -> None:
        """The master has said where its log is; empty where it has not taken its role yet."""
        self._ha_address = ha_address

    def told(self) -> None:
        """The controller has heard that this broker is no master any more."""
        self._owes_word = False

    def diverged(self, common_end: int) -> None:
        """Its log and its master's part there: the rest is cut off before it follows again."""
        if self._role.current is Role.SLAVE:
            log.warning(
                "%d bytes of this log are none of the master's: they are cut off, from %d on",
                self._log.max_physical - common_end,
                common_end,
            )
            self._followed, self._to_cut = "", common_end

    def log_cut(self) -> None:
        """The log was cut."""
        self._to_cut = None

    def role_taken(self, change: RoleChange) -> None:
        """A change of role has succeeded."""
        if change.role is Role.MASTER:
            self._followed, self._last_mastership = "", change.epoch
            self.remembered = None
        elif change.role is Role.SLAVE:
            self._followed = change.master_address
            self.remembered = Elected.followed(change.master_address, change.epoch)

    def failed(self) -> None:
        """A step has failed: the controller is asked again before the next one."""
        self._elected = None

    def next_step(self, now: int) -> Step | None:
        """The next step towards the role that was heard of; None where there is nothing to do."""
        role, elected = self._role.current, self._elected
        if self._role.blind_since is not None and self._knows_better:
            return self._fence()
        if elected is not None and elected.epoch < self._role.epoch:
            elected = self._elected = None
        is_other = elected is not None and elected.master_id != self.broker_id
        if elected is not None and is_other and role is Role.MASTER:
            log.warning(
                "%s is master of %s in epoch %d: this broker is none any more",
                elected.master_address,
                self._identity.name,
                elected.epoch,
            )
            self._owes_word = True
            return self._fence(elected.epoch)
        if is_other and self._owes_word:
            return Beat(tells=True)
        if self._to_cut is not None:
            # Without it the broker follows no master, and is no master.
            if role is Role.SLAVE:
                return self._fence()
            if role is Role.UNKNOWN:
                return Cut(self._to_cut)
        if elected is None:
            return None
        return self._follow(elected) if is_other else self._lead(elected, now)

    def _follow(self, elected: Elected) -> Step | None:
        role = self._role
        if role.current is Role.SLAVE and (self._followed, role.epoch) == (
            elected.master_address,
            elected.epoch,
        ):
            self._elected = None
            return None
        if self._ha_address is None:
            return FindLog(elected.master_address)
        if not self._ha_address:
            self._elected = None
            return AskLater(RETRY_MS)
        change = RoleChange(
            Role.SLAVE,
            self.broker_id,
            master_address=elected.master_address,
            master_ha_address=self._ha_address,
            epoch=elected.epoch,
        )
        return ChangeRole(change)

    def _lead(self, elected: Elected, now: int) -> Step | None:
        role = self._role
        if role.current is Role.MASTER and elected.epoch == role.epoch:
            self._set_found(elected.ids, elected.set_epoch)
            if role.blind_since is not None:
                # A controller answers both for the time from when it has answered the heartbeat.
                return See() if self.lease.holds(now) else Beat()
            self._elected = None
            return None
        if elected.epoch == self._last_mastership and self._log.confirm_offset < self._log.max_physical:
            # To continue would confirm what members of the set lack, who may be elected yet. OrbitMQ's
            # controllers elect again when a master registers, in a new epoch; Apache's leave it at this one.
            self._last_mastership, self.is_registered, self._elected = 0, False, None
            return None
        if elected.wait_ms > 0:
            log.info(
                "elected in epoch %d: another member may be master for %d ms", elected.epoch, elected.wait_ms
            )
            self._elected = None
            return AskLater(min(RETRY_MS, elected.wait_ms))
        if not self.lease.holds(now):
            # The heartbeats of a broker that has come back are refused until it has its master's epoch.
            return Beat()
        log.info("this broker is master of %s in epoch %d", self._identity.name, elected.epoch)
        ids = elected.ids | {self.broker_id}
        self.in_sync.begin(
            self.broker_id, ids, elected.set_epoch, self._log.max_physical, mastership=elected.epoch
        )
        return ChangeRole(RoleChange(Role.MASTER, 0, waits_for_replicas=True, epoch=elected.epoch))

    # The in-sync set.

    def is_set_due(self, now: int) -> bool:
        """True for a master in the configured interval, soon if a change is open, and at once where a
        member's connection has ended.
        """
        if self._role.current is not Role.MASTER or self._role.blind_since is not None:
            return False
        here = {link.broker_id for link in self._links.all}
        period = int(self._settings.check_sync_state_set_period)
        if self.in_sync.asked is not None:
            period = min(period, RETRY_MS)
        if self.in_sync.others <= here and now - self._set_looked_ms < period:
            return False
        self._set_looked_ms = now
        return True

    def set_question(self) -> ControllerGetReplicaInfo | None:
        """Asks what became of a change of the set without a clear answer; None where none is open.

        The controller answers once the consensus store holds all that it had decided before.
        """
        self._set_asked_in = self._role.epoch
        return None if self.in_sync.asked is None else ControllerGetReplicaInfo(self._identity.name)

    def set_heard(self, info: ReplicaInfoReply) -> bool:
        """The controller has answered `set_question`; False if this broker is not master any more."""
        epoch = self._set_asked_in
        if self._role.epoch != epoch:
            return False
        if (info.master_broker_id, info.master_epoch) != (self.broker_id, epoch) or info.body is None:
            return False
        self._set_found(info.body.sync_state_set or (), info.body.sync_state_set_epoch)
        return True

    def _set_found(self, ids: Collection[int], epoch: int) -> None:
        """The controller tells of a set that this master may not have asked for: a member that is not in it
        may have restarted without the end of its log, and what its connection has acknowledged counts no
        more.
        """
        if self.in_sync.decided(ids, epoch):
            self._links.keep(ids)

    def set_change(self, now: int) -> ControllerAlterSyncStateSet | None:
        """Asks for the set that there should be; None where it is right. From here on answers wait for those
        who join, too: the promise to them begins before anything is stored.
        """
        in_sync, epochs = self.in_sync, self._epochs.entries
        wanted = in_sync.wanted(
            self._links.all,
            self._log.confirm_offset,
            epochs[-1].start if epochs else 0,
            self._settings.ha_max_time_slave_not_catchup,
            now,
        )
        if wanted is None:
            return None
        in_sync.ask(wanted)
        return ControllerAlterSyncStateSet(
            self._identity.name,
            self.broker_id,
            self._role.epoch,
            now,
            SyncStateSet(set(wanted), in_sync.epoch),
            renews=wanted == in_sync.ids or None,
        )

    def set_refused(self, request: ControllerAlterSyncStateSet, code: int) -> None:
        """The controller has refused `set_change`, and settles nothing by that: an earlier request may still
        be carried out.
        """
        if request.renews and code == ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED:
            self.in_sync.may_renew = False

    def set_changed(self, reply: SyncStateSetReply) -> bool:
        """The controller has answered `set_change`; False if that is none of this mastership's."""
        if self._role.epoch != self._set_asked_in or reply.body is None:
            return False
        before = self.in_sync.ids
        self.in_sync.decided(reply.body.sync_state_set or (), reply.new_sync_state_set_epoch)
        log.info("in sync: %s, before: %s", _names(self.in_sync.ids), _names(before))
        return True


def _names(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
