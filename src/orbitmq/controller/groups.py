"""All broker groups, and every step that changes one: ids, addresses, in-sync sets, masters.

A step is decided on the state with all earlier steps in it, and written to the journal. Refusals carry the
code that Apache's controller answers with.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from orbitmq.controller.election import Choice, choose, most_complete
from orbitmq.controller.group import FIRST_BROKER_ID, UNKNOWN_LOSS, BrokerGroup, Election, Replica
from orbitmq.controller.journal import Journal
from orbitmq.controller.leases import OpenLeases
from orbitmq.controller.live import DEFAULT_TIMEOUT_MS, LiveBroker, LiveBrokers, Member
from orbitmq.controller.options import ControllerSettings
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.epoch_replication import MAX_EPOCHS
from orbitmq.protocol.errors import Refused

log = logging.getLogger(__name__)

GROUP_KEYS = "groups/"
"""Key of groups in the consensus store, below the prefix of the controllers."""
MAX_GROUPS = 10_000
"""Broker groups of one controller; a further one is refused."""
MAX_REPLICAS = 64
"""Members of one group; a further one is refused."""
MAX_NAME_LENGTH = 255
MAX_ID_GAP = 1_000
"""By so much at most an id that a new member applies for is behind the ids given out before."""
MAX_UNREGISTERED = 1_000
"""Members of all groups that have got an id and have not registered yet; a further one is refused."""
UNREGISTERED_MS = 600_000
"""A member that has not registered for so long is forgotten."""
MAX_EPOCHS_AHEAD = MAX_EPOCHS
"""By so much at most the epoch of a member is ahead of its group's: after the store was restored."""
MAX_MEMBERS_EPOCH = 1 << 30
"""Largest epoch of a member that counts; on the wire an epoch has 31 bits."""

_MISSING_CODE = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The group after an attempt; `changed` if it has another master than before."""

    group: BrokerGroup
    changed: bool


class BrokerGroups:
    """The groups by broker name, as this controller knows them while it leads."""

    def __init__(self, settings: ControllerSettings, journal: Journal, live: LiveBrokers) -> None:
        self._settings = settings
        self._journal = journal
        self._live = live
        self._groups: dict[str, BrokerGroup] = {}
        self._lead_since_ms = 0
        self._leases = OpenLeases()
        self._unregistered: dict[Member, int] = {}
        """Members that have not registered yet, and since when this controller knows them."""
        self._changed: dict[str, BrokerGroup] = {}
        """Groups with a new master, whose members have to be notified, by name."""
        self.elections_by_result = {"new_master_elected": 0, "keep_current_master": 0, "no_master_elected": 0}

    def load(self, texts: Mapping[str, str], now: int) -> None:
        """Takes over what the store holds, by key: this controller leads from now on.

        Raises UnreadableGroup.
        """
        self.clear()
        for text in texts.values():
            group = BrokerGroup.from_text(text)
            self._groups[group.name] = group
            for broker_id, replica in group.replicas.items():
                if not replica.address:
                    self._unregistered[group.name, broker_id] = now
            if group.waits_for_lease:
                self._leases.open(group.name, now + group.lease_ms)
        self._lead_since_ms = now

    def clear(self) -> None:
        """Forgets everything: this controller does not lead any more."""
        self._groups = {}
        self._changed = {}
        self._unregistered = {}
        self._leases.clear()

    def __iter__(self) -> Iterator[BrokerGroup]:
        return (group for group in self._groups.values() if group.replicas)

    def get(self, name: str) -> BrokerGroup | None:
        """A group by its broker name. One whose members were all removed is none."""
        group = self._groups.get(name)
        return group if group is not None and group.replicas else None

    def need(self, name: str | None, code: int = _MISSING_CODE) -> BrokerGroup:
        """A group by its broker name. Raises Refused with `code`."""
        group = None if name is None else self.get(name)
        if group is None:
            raise Refused(code, f"Broker-set: {name} hasn't been registered in controller")
        return group

    def drain_changed(self) -> list[BrokerGroup]:
        """Groups with a new master since the last call."""
        changed = list(self._changed.values())
        self._changed = {}
        return changed

    def is_live(self, group: BrokerGroup, broker_id: int | None) -> bool:
        return broker_id is not None and self._live.get((group.name, broker_id)) is not None

    def next_broker_id(self, name: str) -> int:
        """An id that a new member may apply for."""
        group = self._groups.get(name)
        return FIRST_BROKER_ID if group is None else group.next_id

    def apply_broker_id(self, cluster: str, name: str, broker_id: int, check_code: str, now: int) -> None:
        """Gives an id to a broker; the same check code may take it again. Raises Refused."""
        group = self.get(name)
        if group is None:
            if broker_id != FIRST_BROKER_ID:
                raise _bad_id(f"the first member of {name} has to apply for {FIRST_BROKER_ID}")
            group = self._new_group(cluster, name)
        taken = group.replicas.get(broker_id)
        if taken is not None:
            if taken.check_code != check_code:
                raise _bad_id(f"id {broker_id} of {name} belongs to another broker")
            return
        if broker_id < FIRST_BROKER_ID or broker_id < group.next_id:
            raise _bad_id(f"id {broker_id} of {name} was given out before: apply for {group.next_id}")
        if broker_id > group.next_id + MAX_ID_GAP:
            raise _bad_id(f"id {broker_id} of {name} is too large: apply for {group.next_id}")
        if len(group.replicas) >= MAX_REPLICAS:
            raise _bad_id(f"{name} has {MAX_REPLICAS} members, which is the most a group may have")
        if len(self._unregistered) >= MAX_UNREGISTERED:
            raise _bad_id(f"{MAX_UNREGISTERED} members have an id and have not registered: ask again later")
        self._unregistered[name, broker_id] = now
        self._put(group.with_replica(broker_id, Replica("", check_code, was_heard=False)))

    def _new_group(self, cluster: str, name: str) -> BrokerGroup:
        before = self._groups.get(name)
        if before is not None:
            return replace(before, cluster=cluster)
        if not name or len(name) > MAX_NAME_LENGTH:
            raise _bad_id(f"a broker name has 1 to {MAX_NAME_LENGTH} characters")
        if len(self._groups) >= MAX_GROUPS:
            empty = next((one for one, group in self._groups.items() if not group.replicas), None)
            if empty is None:
                raise _bad_id(f"this controller has {MAX_GROUPS} broker groups, which is the most it keeps")
            self._remove(empty)
        return BrokerGroup(cluster, name)

    def forget_unregistered(self, now: int) -> None:
        """Removes members that have got an id and have not registered for long: no election waits for
        them.
        """
        for (name, broker_id), since in list(self._unregistered.items()):
            if now - since > UNREGISTERED_MS:
                log.warning("broker %d of %s has never registered, and is forgotten", broker_id, name)
                self._without(self.need(name), frozenset((broker_id,)))

    def register(
        self,
        name: str,
        broker_id: int,
        address: str,
        log_epoch: int = 0,
        run: str | None = None,
        last_run: str | None = None,
    ) -> BrokerGroup:
        """Notes where a member is now, and which run of its process that is; gives its group. One that may
        lack the end of its log leaves the in-sync set. Raises Refused.
        """
        group = self.need(name)
        replica = group.replicas.get(broker_id)
        if replica is None:
            raise Refused(
                _MISSING_CODE, f"BrokerId: {broker_id} of {name} hasn't been registered in controller"
            )
        living = self._live.get((name, broker_id))
        if living is not None and living.address != address:
            raise _bad_id(
                f"id {broker_id} of {name} is in use by the living broker {living.address}: if this data "
                "folder is a copy, remove brokerIdentity from it"
            )
        if run is not None and replica.is_elsewhere(address):
            raise _bad_id(
                f"id {broker_id} of {name} was registered at {replica.address}, where its process may run "
                "unheard, for it may be left to a blind master. If this data folder is a copy, remove "
                "brokerIdentity from it. If the broker has moved and that process has ended, start it once "
                "with enableBlindMaster=false"
            )
        self._unregistered.pop((name, broker_id), None)
        before = group
        group = group.with_replica(broker_id, replace(replica, address=address, run=run or ""))
        if replica.address and not replica.has_all(run, last_run) and not group.is_restored:
            group = group.without_end_of(broker_id, log_epoch)
            if broker_id in before.sync_state_set:
                log.warning(
                    "broker %d of %s has begun anew and may lack the end of its log: in sync are %s now, "
                    "before: %s", broker_id, name, _ids(group.sync_state_set), _ids(before.sync_state_set),
                )  # fmt: skip
        if group != before:
            self._put(group)
        return group

    def heard(self, group: BrokerGroup, broker_id: int, beat: LiveBroker, now: int) -> BrokerGroup:
        """Notes the heartbeat of a member; gives its group.

        Raises Refused for an epoch that it cannot have. One that is later than the group's shows that the
        store was restored: then no member is master until all members were heard, see `elect`. A later set
        does as well; then the master of this epoch stays, who knows its set, and no other member is elected
        before.
        """
        replica, before = group.replicas[broker_id], group
        epoch = beat.known_epoch
        if epoch > max(group.master_epoch, min(group.master_epoch + MAX_EPOCHS_AHEAD, MAX_MEMBERS_EPOCH)):
            raise _bad_heartbeat(
                f"epoch {epoch} of broker {broker_id} is too far ahead of {group.name}, which is in epoch "
                f"{group.master_epoch}"
            )
        if beat.set_epoch > group.sync_state_set_epoch + MAX_EPOCHS_AHEAD:
            raise _bad_heartbeat(
                f"change {beat.set_epoch} of the in-sync set of {group.name} is too far ahead of change "
                f"{group.sync_state_set_epoch}"
            )
        if not group.was_never_elected and epoch > group.master_epoch:
            if not replica.was_heard:
                raise _bad_heartbeat(
                    f"the log of broker {broker_id} is in epoch {epoch}, which {group.name} has not had yet: "
                    "it is that of another group or store. Start this broker with an empty store"
                )
            log.error(
                "broker %d of %s has epoch %d, and the consensus store only %d: it was restored. Nobody is "
                "master until all members are heard, or an operator elects one",
                broker_id, group.name, epoch, group.master_epoch,
            )  # fmt: skip
            group = replace(group, master_id=None, master_epoch=epoch, is_restored=True)
        elif replica.run and group.was_never_elected and (group.begins_anew or epoch > 0):
            if not group.is_restored:
                log.error(
                    "the members of %s have a past, and the store does not: an operator elects", group.name
                )
                group = replace(group, is_restored=True)
        elif (
            broker_id == group.master_id
            and epoch == group.master_epoch
            and beat.is_master
            and (beat.set_epoch > group.sync_state_set_epoch or group.is_restored)
        ):
            self._say_older_set(group, beat)
            latest = max(beat.set_epoch, group.sync_state_set_epoch)
            known = replace(group, sync_state_set_epoch=latest, is_restored=False)
            group = known.with_sync_state_set(frozenset((broker_id,)))
        elif (
            replica.was_heard
            and epoch == group.master_epoch
            and beat.set_epoch > group.sync_state_set_epoch
            and not group.was_never_elected
        ):
            self._say_older_set(group, beat)
            group = replace(group, sync_state_set_epoch=beat.set_epoch, is_restored=True)
        self._live.heartbeat((group.name, broker_id), beat)
        if not replica.was_heard:
            group = group.with_replica(broker_id, replace(replica, was_heard=True))
        if broker_id == group.master_id:
            group = replace(group, lease_ms=max(group.lease_ms, beat.timeout_ms))
            if group.waits_for_lease and beat.is_master and epoch == group.master_epoch:
                self._leases.forget(group.name)
                group = replace(group, waits_for_lease=False)
        elif not beat.is_master and epoch >= group.master_epoch:
            group = self._lease_ended(group, broker_id, now)
        if group != before:
            self._put(group)
        return group

    def _say_older_set(self, group: BrokerGroup, beat: LiveBroker) -> None:
        if beat.set_epoch > group.sync_state_set_epoch:
            log.error(
                "the in-sync set of %s has had change %d, and the consensus store only %d: it was restored",
                group.name, beat.set_epoch, group.sync_state_set_epoch,
            )  # fmt: skip

    def ended(self, member: Member, now: int) -> None:
        """Notes that a member's process has ended, and its lease with it."""
        group = self.get(member[0])
        after = None if group is None else self._lease_ended(group, member[1], now)
        if after is not None and after != group:
            self._put(after)

    def is_member(self, member: Member, broker: LiveBroker) -> bool:
        """True if a broker is registered at the address that its heartbeat names."""
        group = self.get(member[0])
        replica = None if group is None else group.replicas.get(member[1])
        return replica is not None and bool(replica.address) and replica.address == broker.address

    def lease_left_ms(self, group: BrokerGroup, now: int) -> int:
        """Time for which the master that was elected has to wait, as another member's lease may hold."""
        return self._leases.left_ms(group.name, now)

    def _lease_ended(self, group: BrokerGroup, broker_id: int, now: int) -> BrokerGroup:
        """The group after a member has given up its lease: a master that has waited for it is notified."""
        if not self._leases.ended(group.name, broker_id) or self._leases.left_ms(group.name, now):
            return group
        log.info("broker %d of %s has given up its lease", broker_id, group.name)
        group = replace(group, waits_for_lease=False)
        self._changed[group.name] = group
        return group

    def master_began_anew(self, group: BrokerGroup, now: int) -> BrokerGroup:
        """Ends the reign of a master whose process has restarted, and elects; gives the group after it.

        It may have lost the end of its log to a power cut, which its slaves have: bytes that it stored now
        would stand in the place of those, in the same epoch, and no broker could tell the logs apart.
        """
        assert group.master_id is not None
        member = group.name, group.master_id
        self._live.connection_lost(member)
        self.ended(member, now)
        self.elect(self._groups[group.name], now, "the master's process has begun anew")
        return self._groups[group.name]

    def alter_sync_state_set(
        self,
        name: str,
        master_id: int,
        master_epoch: int,
        new: frozenset[int],
        set_epoch: int,
        *,
        renews: bool = False,
    ) -> BrokerGroup:
        """The in-sync set as the master reports it. Raises Refused, in Apache's order of checks.

        A request that `renews` has the change counted though the set stays as it is.
        """
        failed = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
        group = self.need(name, failed)
        is_same = new == group.sync_state_set
        if is_same and not renews:
            raise Refused(failed, "The newSyncStateSet is equal with oldSyncStateSet")
        if group.master_id != master_id:
            raise Refused(
                ResponseCode.CONTROLLER_INVALID_MASTER,
                f"broker {master_id} is not the master of {name}, which is {group.master_id}",
            )
        if group.master_epoch != master_epoch:
            raise Refused(
                ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
                f"master epoch {master_epoch} of {name} is not the current one, {group.master_epoch}",
            )
        if group.sync_state_set_epoch != set_epoch:
            raise Refused(
                ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
                f"set epoch {set_epoch} of {name} is not the current one, {group.sync_state_set_epoch}",
            )
        for broker_id in sorted(new):
            if broker_id not in group.replicas:
                raise Refused(
                    ResponseCode.CONTROLLER_INVALID_REPLICAS, f"{name} has no broker with id {broker_id}"
                )
            if not is_same and not self.is_live(group, broker_id):
                raise Refused(
                    ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"broker {broker_id} of {name} is not alive"
                )
        if master_id not in new:
            raise Refused(failed, f"the new set lacks the master, {master_id}")
        group = replace(group.with_sync_state_set(new), reserve=frozenset())
        self._put(group)
        return group

    def elect(
        self,
        group: BrokerGroup,
        now: int,
        reason: str,
        *,
        preferred: int | None = None,
        first: int | None = None,
        by_operator: bool = False,
    ) -> ElectionResult:
        """Elects a master, or keeps the one there is. A group for which no member can be master loses it.

        Raises Refused if an operator names another member of a restored group than the most complete one.
        """
        may_still_come = self._may_still_come(group, now)
        if may_still_come and not by_operator:
            return ElectionResult(group, False)
        live = self._live.of_group(group.name)
        if group.is_restored:
            choice = self._choose_restored(group, live, preferred=preferred, by_operator=by_operator)
        else:
            allow_unclean = self._settings.enable_elect_unclean_master
            choice = choose(group, live, preferred=preferred, first=first, allow_unclean=allow_unclean)
        if choice is not None and choice.broker_id == group.master_id:
            self.elections_by_result["keep_current_master"] += 1
            return ElectionResult(group, False)
        last_id = group.last_master_id
        before = None if last_id is None else self._live.last((group.name, last_id))
        if choice is None:
            self.elections_by_result["no_master_elected"] += 1
            if group.master_id is None or may_still_come or self.is_live(group, group.master_id):
                return ElectionResult(group, False)
            waits = self._leases.left_ms(group.name, now) > 0
            group = replace(group, waits_for_lease=waits).without_master(
                now, f"{reason}; no in-sync replica is alive"
            )
            self._put(group)
            log.error("%s has no master any more: %s", group.name, group.elections[-1].ended_because)
            return ElectionResult(group, True)
        if may_still_come:
            self._leases.open(group.name, self._lead_since_ms + group.lease_ms)
        broker_id, is_unclean = choice
        was_away = before is not None and not self.is_live(group, last_id)
        lost = 0
        if is_unclean:
            lost = UNKNOWN_LOSS
            if before is not None:
                lost = max(0, before.max_offset - max(0, live[broker_id].max_offset))
        self.elections_by_result["new_master_elected"] += 1
        election = Election(
            at_ms=now,
            master_epoch=self._last_epoch(group) + 1,
            master_id=broker_id,
            master_address=group.replicas[broker_id].address,
            reason=reason,
            without_master_ms=max(0, now - before.last_ms) if before is not None and was_away else 0,
            is_unclean=is_unclean,
            lost_bytes=lost,
        )
        return self._elected(group, election, live, now)

    def _choose_restored(
        self, group: BrokerGroup, live: Mapping[int, LiveBroker], *, preferred: int | None, by_operator: bool
    ) -> Choice | None:
        """The member with the most complete log: the in-sync set is that of an older time.

        None until all members were heard, for one that was not may have more; an operator need not wait.
        The store does not know the members of a group that starts over: there it takes an operator.
        """
        heard = {one: live[one] for one in group.replicas if self._live.was_heard((group.name, one))}
        chosen = most_complete(heard)
        may_lack_one = group.was_never_elected or len(heard) < len(group.replicas)
        if chosen is None or (may_lack_one and not by_operator):
            return None
        if preferred not in (None, chosen):
            best = live[chosen]
            raise Refused(
                ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
                f"the consensus store of {group.name} was restored, and broker {chosen} has the most "
                f"complete log (epoch {best.epoch}, up to {best.max_offset}): elect that one",
            )
        return Choice(chosen)

    def unheard(self, group: BrokerGroup) -> list[int]:
        """Members of which this controller has not heard since it leads."""
        return sorted(one for one in group.replicas if not self._live.was_heard((group.name, one)))

    def _last_epoch(self, group: BrokerGroup) -> int:
        """The last epoch that the group has had, by its members' word if the store is new and they are not.

        Counted from 1 again, an epoch would name two masters, and logs that differ would pass for the same.
        """
        # A broker of Apache's that has had none says -1, as often as not before it asks for an election.
        return max(
            [group.master_epoch, *(one.known_epoch for one in self._live.of_group(group.name).values())]
        )

    def _elected(
        self, group: BrokerGroup, election: Election, live: Mapping[int, LiveBroker], now: int
    ) -> ElectionResult:
        self._open_leases(group, election.master_id, live)
        waits = self._leases.left_ms(group.name, now) > 0
        chosen = live.get(election.master_id)
        lease_ms = DEFAULT_TIMEOUT_MS if chosen is None else chosen.timeout_ms
        group = group.elected(
            election, max(lease_ms, group.lease_ms) if waits else lease_ms, waits_for_lease=waits
        )
        self._put(group)
        self._changed[group.name] = group
        log.warning(
            "broker %d (%s) is the master of %s in epoch %d: %s%s%s",
            election.master_id, election.master_address, group.name, election.master_epoch,
            election.reason,
            f"; {election.without_master_ms} ms without a master" if election.without_master_ms else "",
            f"; unclean: {_loss(election)} lost" if election.is_unclean else "",
        )  # fmt: skip
        return ElectionResult(group, True)

    def _open_leases(
        self, group: BrokerGroup, new_master: int | None, live: Mapping[int, LiveBroker]
    ) -> None:
        """Notes the leases of members that live and may answer as masters: no other member may until they
        end.
        """
        for broker_id, one in live.items():
            has_lease = one.is_master is not None and (one.is_master or broker_id == group.master_id)
            if has_lease and broker_id != new_master:
                # The leader before may have answered a later heartbeat than the one that came here.
                was_heard = self._live.was_heard((group.name, broker_id))
                since_ms = one.last_ms if was_heard else max(one.last_ms, self._lead_since_ms)
                until_ms = since_ms + max(one.timeout_ms, group.lease_ms)
                self._leases.open(group.name, until_ms, broker_id)
        if group.is_restored and self.unheard(group):
            self._leases.open(group.name, self._lead_since_ms + group.lease_ms)

    def elect_where_needed(self, now: int, reason: str) -> None:
        """Elects a master for every group whose master is gone, or that has none."""
        for group in list(self._groups.values()):
            if group.was_never_elected or self.is_live(group, group.master_id):
                continue
            why = "all members of the restored group were heard" if group.is_restored else reason
            self.elect(group, now, why)

    def _may_still_come(self, group: BrokerGroup, now: int) -> bool:
        """True if the master may live without this controller knowing, which has led for a short time only.

        The leader before may have promised it a lease, so no other member may be master until that is over.
        """
        if group.master_id is None or self.is_live(group, group.master_id):
            return False
        if self._live.has_ended((group.name, group.master_id)):
            return False
        return now - self._lead_since_ms <= group.lease_ms

    def lease_ms(self, member: Member) -> int:
        """Time for which a member is waited for at least: a master may have been promised it."""
        group = self._groups.get(member[0])
        return group.lease_ms if group is not None and group.master_id == member[1] else 0

    def clean(self, name: str, broker_ids: frozenset[int], now: int, *, even_living: bool) -> None:
        """Forgets members of a group, or with no ids the group. Raises Refused."""
        invalid = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
        group = self.need(name, invalid)
        ids = broker_ids or frozenset(group.replicas)
        unknown = sorted(ids - group.replicas.keys())
        if unknown:
            raise Refused(invalid, f"{name} has no broker with id {unknown[0]}")
        living = sorted(one for one in ids if self.is_live(group, one))
        if living and not even_living:
            raise Refused(
                invalid, f"broker {living[0]} of {name} is alive: stop it, or clean living brokers as well"
            )
        cleaned = {one: beat for one, beat in self._live.of_group(name).items() if one in ids}
        self._open_leases(group, None, cleaned)
        if group.master_id in ids and self._may_still_come(group, now):
            self._leases.open(name, self._lead_since_ms + group.lease_ms)
        if self._leases.left_ms(name, now):
            group = replace(group, waits_for_lease=True)
        self._without(group, ids)

    def _without(self, group: BrokerGroup, broker_ids: frozenset[int]) -> None:
        for broker_id in broker_ids:
            self._live.forget((group.name, broker_id))
            self._unregistered.pop((group.name, broker_id), None)
        left = group.without_replicas(broker_ids)
        self._changed.pop(group.name, None)
        if left.replicas or left.master_epoch:
            self._put(left)  # epochs that it has had never start over
        else:
            self._remove(group.name)

    def _remove(self, name: str) -> None:
        del self._groups[name]
        self._leases.forget(name)
        self._journal.put(GROUP_KEYS + name, None)

    def _put(self, group: BrokerGroup) -> None:
        self._groups[group.name] = group
        self._journal.put(GROUP_KEYS + group.name, group.to_text())


def _ids(broker_ids: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(broker_ids)))


def _loss(election: Election) -> str:
    return (
        "an unknown number of bytes"
        if election.lost_bytes == UNKNOWN_LOSS
        else f"{election.lost_bytes} bytes"
    )


def _bad_heartbeat(remark: str) -> Refused:
    return Refused(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)


def _bad_id(remark: str) -> Refused:
    return Refused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark)
