"""All broker groups, and every step that changes one: ids, addresses, in-sync sets, masters.

A step is decided on the state with all earlier steps in it, and written to the journal. Refusals carry the
code that Apache's controller answers with.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orbitmq.controller.election import choose
from orbitmq.controller.group import FIRST_BROKER_ID, UNKNOWN_LOSS, BrokerGroup, Election, Replica
from orbitmq.controller.journal import Journal
from orbitmq.controller.live import DEFAULT_TIMEOUT_MS, LiveBrokers
from orbitmq.controller.options import ControllerSettings
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused

log = logging.getLogger(__name__)

GROUP_KEYS = "groups/"
"""Key of groups in the consensus store, below the prefix of the controllers."""
MAX_GROUPS = 10_000
"""Broker groups of one controller; a further one is refused."""
MAX_REPLICAS = 64
"""Members of one group; a further one is refused."""
MAX_NAME_LENGTH = 255

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
        self._changed: dict[str, BrokerGroup] = {}
        """Groups with a new master, whose members have to be notified, by name."""
        self.elections_by_result = {"new_master_elected": 0, "keep_current_master": 0, "no_master_elected": 0}

    def load(self, texts: Mapping[str, str], now: int) -> None:
        """Takes over what the store holds, by key: this controller leads from now on.

        Raises UnreadableGroup.
        """
        self._groups = {}
        self._changed = {}
        for text in texts.values():
            group = BrokerGroup.from_text(text)
            self._groups[group.name] = group
        self._lead_since_ms = now

    def clear(self) -> None:
        """Forgets everything: this controller does not lead any more."""
        self._groups = {}
        self._changed = {}

    def __iter__(self) -> Iterator[BrokerGroup]:
        return iter(self._groups.values())

    def get(self, name: str) -> BrokerGroup | None:
        """A group by its broker name."""
        return self._groups.get(name)

    def need(self, name: str | None, code: int = _MISSING_CODE) -> BrokerGroup:
        """A group by its broker name. Raises Refused with `code`."""
        group = None if name is None else self._groups.get(name)
        if group is None:
            raise Refused(code, f"Broker-set: {name} hasn't been registered in controller")
        return group

    def drain_changed(self) -> list[BrokerGroup]:
        """Groups with a new master since the last call."""
        changed = list(self._changed.values())
        self._changed = {}
        return changed

    def is_live(self, group: BrokerGroup, broker_id: int | None) -> bool:
        """True if a member lives."""
        return broker_id is not None and self._live.get((group.name, broker_id)) is not None

    def next_broker_id(self, name: str) -> int:
        """An id that a new member may apply for."""
        group = self._groups.get(name)
        return FIRST_BROKER_ID if group is None else group.next_id

    def apply_broker_id(self, cluster: str, name: str, broker_id: int, check_code: str) -> None:
        """Gives an id to a broker; the same check code may take it again. Raises Refused."""
        group = self._groups.get(name)
        if group is None:
            if broker_id != FIRST_BROKER_ID:
                raise _bad_id(f"the first member of {name} has to apply for {FIRST_BROKER_ID}")
            if not name or len(name) > MAX_NAME_LENGTH:
                raise _bad_id(f"a broker name has 1 to {MAX_NAME_LENGTH} characters")
            if len(self._groups) >= MAX_GROUPS:
                raise _bad_id(f"this controller has {MAX_GROUPS} broker groups, which is the most it keeps")
            group = BrokerGroup(cluster, name)
        taken = group.replicas.get(broker_id)
        if taken is not None:
            if taken.check_code != check_code:
                raise _bad_id(f"id {broker_id} of {name} belongs to another broker")
            return
        if broker_id < FIRST_BROKER_ID or broker_id < group.next_id:
            raise _bad_id(f"id {broker_id} of {name} was given out before: apply for {group.next_id}")
        if len(group.replicas) >= MAX_REPLICAS:
            raise _bad_id(f"{name} has {MAX_REPLICAS} members, which is the most a group may have")
        self._put(group.with_replica(broker_id, Replica("", check_code)))

    def register(self, name: str, broker_id: int, address: str) -> BrokerGroup:
        """Notes where a member is now; gives its group. Raises Refused."""
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
        if replica.address != address:
            group = group.with_replica(broker_id, Replica(address, replica.check_code))
            self._put(group)
        return group

    def master_began_anew(self, group: BrokerGroup, now: int) -> BrokerGroup:
        """Ends the reign of a master whose process has begun anew, and elects; gives the group after it.

        It may have lost the end of its log to a power cut, which its slaves have: bytes that it stored now
        would stand in the place of those, in the same epoch, and nobody could tell the logs apart.
        """
        assert group.master_id is not None
        self._live.connection_lost((group.name, group.master_id))
        self.elect(group, now, "the master's process has begun anew")
        return self._groups[group.name]

    def alter_sync_state_set(
        self, name: str, master_id: int, master_epoch: int, new: frozenset[int], set_epoch: int
    ) -> BrokerGroup:
        """The in-sync set as the master reports it. Raises Refused, in Apache's order of checks."""
        failed = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
        group = self.need(name, failed)
        if new == group.sync_state_set:
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
            if not self.is_live(group, broker_id):
                raise Refused(
                    ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"broker {broker_id} of {name} is not alive"
                )
        if master_id not in new:
            raise Refused(failed, f"the new set lacks the master, {master_id}")
        group = group.with_sync_state_set(new)
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
    ) -> ElectionResult:
        """Elects a master, or keeps the one there is. A group for which nobody can be master loses it."""
        allow_unclean = self._settings.enable_elect_unclean_master
        live = self._live.of_group(group.name)
        choice = choose(group, live, preferred=preferred, first=first, allow_unclean=allow_unclean)
        if choice is not None and choice.broker_id == group.master_id:
            self.elections_by_result["keep_current_master"] += 1
            return ElectionResult(group, False)
        last_id = group.last_master_id
        before = None if last_id is None else self._live.last((group.name, last_id))
        if choice is None:
            self.elections_by_result["no_master_elected"] += 1
            if group.master_id is None or self.is_live(group, group.master_id):
                return ElectionResult(group, False)
            gone = Election(now, group.master_epoch, None, "", f"{reason}; no in-sync replica is alive")
            return self._elected(group, gone)
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
        return self._elected(group, election)

    def _last_epoch(self, group: BrokerGroup) -> int:
        """The last epoch that the group has had, by its members' word if the store is new and they are not.

        Counted anew, an epoch would name two masters, and logs that differ would pass for the same.
        """
        if group.was_never_elected:
            # A broker of Apache's that has had none says -1, as often as not before it asks for an election.
            return max([0, *(one.epoch for one in self._live.of_group(group.name).values())])
        return group.master_epoch

    def _elected(self, group: BrokerGroup, election: Election) -> ElectionResult:
        group = group.elected(election)
        self._put(group)
        self._changed[group.name] = group
        if election.master_id is None:
            log.error("%s has no master any more: %s", group.name, election.reason)
        else:
            log.warning(
                "broker %d (%s) is the master of %s in epoch %d: %s%s%s",
                election.master_id, election.master_address, group.name, election.master_epoch,
                election.reason,
                f"; {election.without_master_ms} ms without a master" if election.without_master_ms else "",
                f"; unclean: {_loss(election)} lost" if election.is_unclean else "",
            )  # fmt: skip
        return ElectionResult(group, True)

    def elect_where_needed(self, now: int, reason: str) -> None:
        """Elects a master for every group whose master is gone, or that has none."""
        for group in list(self._groups.values()):
            if group.was_never_elected or self.is_live(group, group.master_id):
                continue
            if self._may_still_come(group, now):
                continue
            self.elect(group, now, reason)

    def _may_still_come(self, group: BrokerGroup, now: int) -> bool:
        """True if the master may live without this controller knowing, which has led for a short time only.

        The leader before may have promised it a lease, so nobody else may be master until that is over.
        """
        if group.master_id is None or self._live.last((group.name, group.master_id)) is not None:
            return False
        timeouts = [one.timeout_ms for one in self._live.of_group(group.name).values()]
        return now - self._lead_since_ms <= max(timeouts, default=DEFAULT_TIMEOUT_MS)

    def clean(self, name: str, broker_ids: frozenset[int], *, even_living: bool) -> None:
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
        for broker_id in ids:
            self._live.forget((name, broker_id))
        left = group.without_replicas(ids)
        if left.replicas:
            self._put(left)
        else:
            del self._groups[name]
            self._changed.pop(name, None)
            self._journal.put(GROUP_KEYS + name, None)

    def _put(self, group: BrokerGroup) -> None:
        self._groups[group.name] = group
        self._journal.put(GROUP_KEYS + group.name, group.to_text())


def _loss(election: Election) -> str:
    return (
        "an unknown number of bytes"
        if election.lost_bytes == UNKNOWN_LOSS
        else f"{election.lost_bytes} bytes"
    )


def _bad_id(remark: str) -> Refused:
    return Refused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark)
