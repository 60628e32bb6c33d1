"""The promise behind an acknowledgement: on how many disks and brokers a message is that was acknowledged.

There is one confirm offset: the largest physical offset that the promise covers. Answers wait for it, and
readers see up to it. ASYNC or SYNC flush and ASYNC or SYNC master are four settings of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from orbitmq.broker.role.in_sync import InSyncSet
from orbitmq.broker.role.links import Links
from orbitmq.broker.role.options import RoleOptions
from orbitmq.broker.role.role import ASYNC_MASTER, SLAVE, SYNC_MASTER
from orbitmq.broker.role.state import RoleState
from orbitmq.protocol.codes import ResponseCode


class Log(Protocol):
    """The part of the store's log that the promise looks at."""

    @property
    def max_physical(self) -> int: ...
    @property
    def durable_offset(self) -> int: ...


def unkept_options(settings: RoleOptions) -> Iterator[str]:
    """A line for each option that asks for copies on slaves and has no effect with the other options.

    A slave and a broker in controller mode may come into a role in which these options count.
    """
    if settings.enable_controller_mode:
        return
    names = {
        "inSyncReplicas": settings.in_sync_replicas,
        "minInSyncReplicas": settings.min_in_sync_replicas,
    }
    for name, replicas in names.items():
        if replicas > 1 and settings.broker_role == ASYNC_MASTER:
            yield f"{name}={replicas} changes nothing: an ASYNC_MASTER waits for no slave; set brokerRole"
    if (
        settings.broker_role == SYNC_MASTER
        and settings.min_in_sync_replicas > 1
        and not settings.enable_auto_in_sync_replicas
    ):
        yield (
            f"minInSyncReplicas={settings.min_in_sync_replicas} changes nothing without "
            "enableAutoInSyncReplicas"
        )


class Promise:
    """Conditions that answers to stores wait for. Asked at every send: its parts are plain comparisons."""

    def __init__(self, settings: RoleOptions, log: Log, links: Links, role: RoleState) -> None:
        self._settings = settings
        self._log = log
        self.links = links
        self._role = role
        self.in_sync: InSyncSet | None = InSyncSet() if settings.enable_controller_mode else None
        """The members that a controller may elect; None without a controller."""

    @property
    def blind_since(self) -> int | None:
        """See `RoleState.blind_since`."""
        return self._role.blind_since

    @property
    def is_blind(self) -> bool:
        """True for a master that hears no controller, while others than itself may be elected: nothing is
        acknowledged but what all of them hold.
        """
        in_sync = self.in_sync
        return self._role.blind_since is not None and in_sync is not None and bool(in_sync.others)

    @property
    def lacks_member(self) -> bool:
        """True while this master is blind and a member that may be elected is not connected."""
        return (
            self.is_blind
            and self.in_sync is not None
            and not self.in_sync.others <= {link.broker_id for link in self.links.all}
        )

    @property
    def waits(self) -> bool:
        """True if an answer waits for anything: for the disk, or for replicas."""
        return self.waits_for_disk or self.waits_for_replicas

    @property
    def waits_for_disk(self) -> bool:
        """True if an answer waits for the disk."""
        return self._settings.flush_disk_type == "SYNC_FLUSH"

    @property
    def waits_for_replicas(self) -> bool:
        """True if an answer waits for more brokers than this one."""
        if self._settings.broker_role != "SYNC_MASTER":
            return False
        if self.is_blind:
            return True
        if self.in_sync is not None and self._settings.min_in_sync_replicas > 1:
            return True
        return self.needed_replicas > 1 or self._waits_for_all

    @property
    def _waits_for_all(self) -> bool:
        """True if all of the in-sync set have to have a message, and there are others than this broker."""
        in_sync = self.in_sync
        return in_sync is not None and self._settings.all_ack_in_sync_state_set and bool(in_sync.others)

    @property
    def available_replicas(self) -> int:
        """Brokers that hold the log or nearly so, this one included."""
        if self.in_sync is not None:
            return len(self.in_sync.ids)
        return 1 + self.links.in_sync(self._log.max_physical, self._settings.ha_max_gap_not_in_sync)

    @property
    def needed_replicas(self) -> int:
        """Brokers that have to hold a message before it is acknowledged, this one included."""
        settings = self._settings
        needed = settings.in_sync_replicas
        if settings.enable_auto_in_sync_replicas:
            needed = max(min(needed, self.available_replicas), settings.min_in_sync_replicas)
        return needed

    @property
    def lacks_replicas(self) -> bool:
        """True if nothing may be stored now: fewer brokers are there than minInSyncReplicas asks for.

        Only where it is known who is there: a controller decides who is in sync, enableAutoInSyncReplicas has
        the number follow them, or enableSlaveActingMaster has members watch each other. Else a message is
        stored, and its answer says that replicas were late.
        """
        settings = self._settings
        if self.lacks_member:
            return True
        if self.in_sync is not None:
            return settings.broker_role == "SYNC_MASTER" and (
                self.available_replicas < settings.min_in_sync_replicas
            )
        return (
            settings.broker_role == "SYNC_MASTER"
            and (settings.enable_auto_in_sync_replicas or settings.enable_slave_acting_master)
            and self.needed_replicas > self.available_replicas
        )

    @property
    def replicated(self) -> int | None:
        """The physical offset up to which enough slaves hold the log, None where none has to."""
        if self._role.held_at is not None:
            return self._role.held_at
        if self.in_sync is not None and self._settings.broker_role == SLAVE:
            return self._role.master_confirmed
        reached = self._by_options
        if self.is_blind and self.in_sync is not None:
            everybody = self.in_sync.replicated(self.links.all) or 0
            return everybody if reached is None else min(everybody, reached)
        return reached

    @property
    def _by_options(self) -> int | None:
        """The same by the options alone, for a master."""
        if self._settings.broker_role != "SYNC_MASTER":
            return None
        if self.in_sync is not None:
            if not self.waits_for_replicas:
                return None
            if self._settings.all_ack_in_sync_state_set:
                return self.in_sync.replicated(self.links.all)
        needed = self.needed_replicas
        return None if needed <= 1 else self.links.reached_by(needed - 1)

    def timeout_ms(self) -> int:
        """For how long an answer waits: slaveTimeout where replicas are waited for, else syncFlushTimeout."""
        settings = self._settings
        return settings.slave_timeout if self.waits_for_replicas else settings.sync_flush_timeout

    def late_code(self, end_offset: int) -> ResponseCode:
        """The code of an answer that has waited in vain for the log up to an offset."""
        replicated = self.replicated
        if replicated is not None and replicated < end_offset:
            if not self.links.all:
                return ResponseCode.SLAVE_NOT_AVAILABLE
            return ResponseCode.FLUSH_SLAVE_TIMEOUT
        if self._settings.flush_disk_type == "SYNC_FLUSH" and self._log.durable_offset < end_offset:
            return ResponseCode.FLUSH_DISK_TIMEOUT
        return (
            ResponseCode.FLUSH_SLAVE_TIMEOUT if self.waits_for_replicas else ResponseCode.FLUSH_DISK_TIMEOUT
        )
