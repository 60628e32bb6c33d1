"""A broker's part in its group: master or slave, who follows, and whom it follows itself."""

from __future__ import annotations

from typing import Protocol

from orbitmq.broker.ha.following import Following
from orbitmq.broker.ha.links import Links, SlaveLink
from orbitmq.broker.ha.options import SLAVE
from orbitmq.broker.ha.promise import Log
from orbitmq.broker.ha.role import Role
from orbitmq.broker.ha.table_versions import TableVersions
from orbitmq.broker.options import BrokerSettings
from orbitmq.protocol.bodies.ha import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.pop import (
    AckMessage,
    BatchAckMessage,
    ChangeMessageInvisibletime,
    PopMessage,
)
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessage, SendMessageV2

REFUSED_BY_SLAVES = (
    SendMessage,
    SendMessageV2,
    SendBatchMessage,
    PopMessage,
    AckMessage,
    BatchAckMessage,
    ChangeMessageInvisibletime,
)
"""Requests that store something in the log, which a slave gets from its master alone. Those that have an
answer of their own for a slave are not among them."""


def flow_control() -> Refused:
    """The refusal of a request that this member of the group does not take now; clients go to another one."""
    return Refused(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while")


class TimedLog(Log, Protocol):
    """The log, with the times of its messages."""

    def store_time_from(self, physical_offset: int) -> int:
        """Store time of the first record from a physical offset on, in ms; -1 if none begins there."""

    def earliest_store_time(self) -> int:
        """Store time of the first message in the log, in ms; -1 without one."""


class Replication:
    """Links to slaves, or the link to the master, and what the name servers say of the latter."""

    def __init__(self, settings: BrokerSettings, log: TimedLog, links: Links, now: int) -> None:
        self._settings = settings
        self._log = log
        self.links = links
        self.table_versions = TableVersions(now)
        self.following: Following | None = None
        """The connection to the master, while there is one."""
        self.master_address = ""
        """`host:port` of the master for requests, from the name servers; empty where unknown."""
        self.announced_ha_address = ""
        """`host:port` of the master's HA port, from the name servers; the option goes before it."""
        self.master_flushed = 0
        """Physical offset up to which the master has flushed its log, from its last notice
        (RESET_MASTER_FLUSH_OFFSET)."""
        self.is_fenced = False
        """The role is unknown: nothing is stored, and no master is followed."""
        self.is_acting = False
        """This slave acts for its master, which is away."""
        self.works_for_master = False
        """This slave does its master's work: what the master says of how far it got does not count."""
        self.epoch = 0
        """The number of the last change of role, where a controller counts them."""
        self.slave_id = 0
        """The id that this broker has as a slave, or had last; 0 where it never was one."""
        self.own_addresses: frozenset[str] = frozenset()
        """Addresses of this broker itself, which it does not follow."""
        self.refusal = ""
        """The reason why the last connection to the master ended, if it was more than a broken line."""

    @property
    def role(self) -> Role:
        """The role now."""
        if self.is_fenced:
            return Role.UNKNOWN
        return Role.SLAVE if self._settings.broker_role == SLAVE else Role.MASTER

    @property
    def is_slave(self) -> bool:
        """True if this broker takes no messages of its own: it follows a master, or its role is unknown."""
        return self.is_fenced or self._settings.broker_role == SLAVE

    @property
    def has_master(self) -> bool:
        """True if this is a slave whose master lives, as far as its connection shows."""
        return self.following is not None

    @property
    def ha_address(self) -> str:
        """Address of the master's log; empty if unknown."""
        return self._settings.ha_master_address or self.announced_ha_address

    def note_master(self, master_address: str | None, ha_address: str | None) -> None:
        """Takes over what a name server says of the group's master."""
        if self._settings.enable_controller_mode:
            return  # the controller names it
        if ha_address in self.own_addresses or master_address in self.own_addresses:
            return  # the name server has not heard yet that this broker is no longer master
        if self.is_slave and master_address and ha_address:
            self.master_address, self.announced_ha_address = master_address, ha_address

    def behind(self) -> int:
        """The bytes that the slave lacks which has most of the log; without slaves all of it."""
        reached = max((link.acknowledged for link in self.links.all), default=-1)
        return self._log.max_physical - max(0, reached)

    def gap_ms(self, link: SlaveLink, now: int) -> int:
        """For how long the oldest message has waited that a slave lacks; 0 where it lacks none."""
        lacks_from = max(0, link.acknowledged)
        if lacks_from >= self._log.max_physical:
            return 0
        since = self.links.growth.time_of(lacks_from)
        if since is None:
            since = self._log.store_time_from(lacks_from)
            if not 0 < since <= now:  # the slave's log ends within a record
                since = self._log.earliest_store_time()
        return max(0, now - since) if since >= 0 else 0

    def unreplicated(self, now: int) -> tuple[int, int] | None:
        """The part of the log that no slave has: bytes, and for how many ms the oldest of it has waited; None
        without slaves.
        """
        most = max(self.links.all, key=lambda link: link.acknowledged, default=None)
        return None if most is None else (self.behind(), self.gap_ms(most, now))

    def status(self, now: int) -> HARuntimeInfo:
        """The broker's side of replication, for administrators."""
        end = self._log.max_physical
        if self.is_slave:
            return HARuntimeInfo(master=False, ha_client_runtime_info=self._client_status(end, now))
        gap = self._settings.ha_max_gap_not_in_sync
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=self.links.in_sync(end, gap),
            ha_connection_info=[
                HAConnectionRuntimeInfo(
                    addr=link.address,
                    slave_ack_offset=max(0, link.acknowledged),
                    diff=end - max(0, link.acknowledged),
                    diff_millis=self.gap_ms(link, now),
                    in_sync=link.is_in_sync(end, gap),
                    transferred_byte_in_second=link.rate(now),
                    transfer_from_where=max(0, link.next_offset),
                )
                for link in self.links.all
            ],
        )

    def _client_status(self, end: int, now: int) -> HAClientRuntimeInfo:
        following = self.following
        info = HAClientRuntimeInfo(
            master_addr=self.ha_address, max_offset=end, master_flush_offset=self.master_flushed
        )
        if following is not None:
            info.transferred_byte_in_second = following.rate(now)
            info.last_read_timestamp = following.last_heard_ms
            info.last_write_timestamp = following.last_report_ms
        return info
