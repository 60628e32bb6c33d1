"""The observer of a simulated cluster: it compares all logs after every step, for the groups' ledgers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbitmq.broker.role.role import Role
from orbitmq.controller.group import BrokerGroup
from orbitmq.controller.groups import GROUP_KEYS
from orbitmq.store import MessageStore
from orbitmq.testing.load.history import Promise
from orbitmq.testing.simulation.groups import Group, Mode
from orbitmq.testing.simulation.machines import BrokerMachine


@dataclass(eq=False, repr=False)
class Onlooker:
    """`note(text)` writes a line of the trace, `break_(rule, detail)` notes a breach, `now()` is the right
    time.
    """

    _mode: Mode
    _groups: Sequence[Group]
    _note: Callable[[str], None]
    _break: Callable[[str, str], None]
    _now: Callable[[], int]

    def observe(self) -> None:
        """Looks at every broker whose state has changed, and for two that may answer at the same time."""
        for group in self._groups:
            if self._mode.has_controller:
                answering = [f"{one.name} in epoch {epoch}" for one, epoch in _answering(group)]
                if len(answering) > 1:
                    self._break("leases", f"{' and '.join(answering)} may answer as masters of {group.name}")
            for broker in group.members:
                store = broker.store
                if store is None or store.is_closed or not hasattr(broker.server, "broker"):
                    # A broker serves before its start has ended. One that has closed its store shows nothing.
                    continue
                assert broker.server is not None
                role = broker.server.broker.role
                end = store.max_physical
                state = end, store.confirm_offset, role.current, role.epoch, role.blind_since is not None
                if state != broker.seen:
                    if broker.seen[2:] != state[2:]:
                        blind = ", blind" if role.blind_since is not None else ""
                        self._note(f"{broker.name} is {role.current.value}, epoch {role.epoch}{blind}")
                    broker.seen = state
                    broker.reached = max(broker.reached, end)
                    self._look_at(group, broker, role.current, role.epoch)
                if role.blind_since is None:
                    broker.blind_from = None
                else:
                    self._look_at_blind(group, broker, store)

    def _look_at(self, group: Group, broker: BrokerMachine, role: Role, epoch: int) -> None:
        server, mode = broker.server, self._mode
        assert server is not None
        if broker.has_lost:
            ends = (one.held_end(on_disk=False) for one in group.members)
            broker.has_lost = broker.held_end(on_disk=False) < max(ends)
        if not mode.has_controller:
            # A slave that does not follow may have what its master lost; an operator sees to it.
            following = server.broker.replication.following
            if broker is group.master or (following is not None and following is not broker.followed):
                group.ledger.observe(broker, may_lead=broker is group.master)
            return
        if self._has_the_groups_log(group, broker):
            may_lead = role is Role.MASTER or mode.is_sync
            group.ledger.observe(broker, may_lead=may_lead)
        if role is Role.MASTER and server.controller_mode.may_answer:
            group.ledger.writes(broker, epoch)

    def _look_at_blind(self, group: Group, broker: BrokerMachine, store: MessageStore) -> None:
        """A master that no controller answers counts all who may be elected, and confirms only what they
        hold.
        """
        confirmed = store.confirm_offset
        if broker.blind_from is None:
            broker.blind_from = confirmed
            group.blind_spells += 1
        server, decided = broker.server, group.decided
        assert server is not None
        own = server.controller_mode.machine
        if decided is None or (decided.master_id, decided.master_epoch) != (
            own.broker_id,
            server.broker.role.epoch,
        ):
            return  # another member was elected, out of those that this one counts
        uncounted = decided.sync_state_set - own.in_sync.others - {own.broker_id}
        if uncounted:
            self._break("blind", f"{broker.name} does not count {sorted(uncounted)}, who may be elected")
        ends = self._ends(group, decided)
        least = min(ends.values(), default=0)
        # A slave reports the part of a record that it has, too: no answer rests on that.
        record = store.record_at(least) if confirmed > max(broker.blind_from, least) else None
        if record is not None and least + len(record) <= confirmed:
            self._break(
                "blind", f"{broker.name} confirms {confirmed}, and those who may be elected hold {ends}"
            )

    def _ends(self, group: Group, decided: BrokerGroup) -> dict[str, int]:
        """How far each member that may be elected holds the log, as its promise counts it."""
        ends = {}
        for broker_id in decided.sync_state_set:
            address = decided.replicas[broker_id].address
            one = next(one for one in group.members if one.address == address)
            if broker_id not in one.gone_ids:
                strict = self._mode.sync_flush
                ends[one.name] = one.held_end(on_disk=True) if strict else one.reached
        return ends

    def _has_the_groups_log(self, group: Group, broker: BrokerMachine) -> bool:
        """True unless it may show, where controllers decide, what the group has lost by the mode's promise.

        A member that has not heard of its epoch's end may still have what a power cut took from the next
        master, or what that had not got yet.
        """
        if self._mode.is_sync and self._mode.sync_flush:
            return True
        server = broker.server
        return server is not None and server.broker.epochs.last == group.ledger.epoch

    def may_show(self, group: Group, address: str) -> bool:
        """True if the messages that a broker gives from now on are the group's."""
        broker = next(one for one in group.members if one.address == address)
        if not (self._mode.is_sync and self._mode.has_controller):
            return self._mode.is_sync or broker is group.master
        return broker.is_ready and self._has_the_groups_log(group, broker)

    def acknowledged(self, group: Group, promise: Promise) -> None:
        """A client has got an answer: those who have to hold the message do."""
        if promise.place < 0 or not self._mode.is_sync:
            return
        self.observe()
        if not self._mode.has_controller:
            ends = {one.name: one.reached for one in group.members}
            group.ledger.acknowledged(promise.place, ends, 2)
            return
        if group.decided is None:
            return
        ends = self._ends(group, group.decided)
        group.ledger.acknowledged(promise.place, ends, len(ends))

    def decided(self, key: str, before: str | None, after: str | None) -> None:
        """The consensus store has taken a change."""
        if not key.startswith(GROUP_KEYS) or after is None:
            return
        group = next(one for one in self._groups if GROUP_KEYS + one.name == key)
        now = BrokerGroup.from_text(after)
        then = None if before is None else BrokerGroup.from_text(before)
        if now.is_restored and not now.begins_anew and group.decided is not None:
            return  # no member is elected from its set, which is of an older time: that of before counts
        group.decided = now
        if then is not None and now.master_epoch < then.master_epoch:
            self._break("epochs", f"{group.name}: epoch {now.master_epoch} came behind {then.master_epoch}")
        if then is None or now.master_epoch != then.master_epoch:
            if now.master_id is not None:
                self._elected(group, now, then)
        elif now.sync_state_set_epoch != then.sync_state_set_epoch:
            self._note(f"{group.name}: in sync {sorted(now.sync_state_set)}")
            group.ledger.changed_set(now.sync_state_set_epoch)

    def _elected(self, group: Group, now: BrokerGroup, then: BrokerGroup | None) -> None:
        address = now.master_address
        master = next(one for one in group.members if one.address == address)
        was_in_sync = (
            then is None or then.was_never_elected or now.master_id in then.sync_state_set | then.reserve
        )
        if not was_in_sync and then is not None and now.sync_state_set_epoch > then.sync_state_set_epoch + 1:
            # The store was slow: it took a change of the set together with the election that went by it.
            was_in_sync = now.master_id in now.reserve
        self._note(f"{group.name}: {master.name} is elected in epoch {now.master_epoch}")
        group.ledger.elected(now.master_epoch, master.name, was_in_sync, now.sync_state_set_epoch)
        group.master = master
        group.elections += 1
        if now.master_epoch > 1:
            others: set[BrokerMachine] = set()
            if self._mode.leaves_behind and then is not None:
                others = self._others(group, master, then)
            # Elsewhere the others may have shown since the cut of power what this one lacks.
            may_lack = not self._mode.is_sync or (master.has_lost and not others)
            self.life_ended(group, master.held_end(on_disk=False) if may_lack else None)

    def lost_from(self, group: Group, broker: BrokerMachine, durable: int) -> int | None:
        """The physical offset from which on a power cut of a broker may lose acknowledged messages, by the
        mode's promise; None if it may lose none. Call it before the process ends.
        """
        decided = group.decided
        if not self._mode.leaves_behind or decided is None:
            return durable
        others = self._others(group, broker, decided)
        if not others:
            may_lead = _members(group, decided, decided.sync_state_set | decided.reserve)
            return min([durable, *(one.held_end(on_disk=True) for one in may_lead if one.has_lost)])
        if others & _members(group, decided, decided.sync_state_set):
            return None
        # The others have all from before its epoch, and nothing of it.
        rules = getattr(broker.server, "broker", None)
        last = rules.epochs.entries[-1:] if rules is not None else []
        begun = [epoch.start for epoch in last if epoch.number > decided.reserve_epoch]
        return max(durable, *begun) if begun else None

    def _others(self, group: Group, broker: BrokerMachine, decided: BrokerGroup) -> set[BrokerMachine]:
        """Who may be elected in the place of a broker, and has lost nothing."""
        may_lead = _members(group, decided, decided.sync_state_set | decided.reserve)
        return {one for one in may_lead if one is not broker and not one.has_lost}

    def life_ended(self, group: Group, durable: int | None, kind: str = "kill") -> None:
        """A master's reign is over. Records behind `durable` may be lost by the mode's promise."""
        now = self._now()
        group.history.life_ended("cut" if durable is not None else kind, now, durable)
        if durable is not None:
            self._note(f"{group.name}: what lies behind {durable} may be lost")
            group.ledger.forget_from(durable, group.members)
            for member in group.members:
                member.followed = _following(member)


def _members(group: Group, decided: BrokerGroup, ids: frozenset[int]) -> set[BrokerMachine]:
    """The machines of some ids; one that has forgotten its id with its disk is none of them."""
    return {
        one
        for one in group.members
        for broker_id in ids - one.gone_ids
        if decided.replicas[broker_id].address == one.address
    }


def _answering(group: Group) -> list[tuple[BrokerMachine, int]]:
    """Members that are masters with a lease, and their epochs."""
    found = []
    for one in group.members:
        server = one.server
        if one.is_up and server is not None and hasattr(server, "broker"):
            role = server.broker.role
            has_lease = role.current is Role.MASTER and role.blind_since is None
            if has_lease and server.controller_mode.may_answer:
                found.append((one, role.epoch))
    return found


def _following(broker: BrokerMachine) -> object:
    server = broker.server
    if server is None or not broker.is_up or not hasattr(server, "broker"):
        return None
    return server.broker.replication.following
