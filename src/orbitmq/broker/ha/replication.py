"""A broker's part in its group: master or slave, who follows, and whom it follows itself."""

from __future__ import annotations

from orbitmq.broker.ha.following import Following
from orbitmq.broker.ha.table_versions import TableVersions
from orbitmq.broker.role.links import Links, SlaveLink
from orbitmq.broker.role.options import ReplicationOptions
from orbitmq.broker.role.state import RoleState
from orbitmq.protocol.bodies.ha import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.lite import LiteSubscriptionCtl, PopLiteMessage
from orbitmq.protocol.requests.pop import (
    AckMessage,
    BatchAckMessage,
    ChangeMessageInvisibletime,
    PopMessage,
)
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessage, SendMessageV2
from orbitmq.store import MessageStore

REFUSED_BY_SLAVES = (
    SendMessage,
    SendMessageV2,
    SendBatchMessage,
    PopMessage,
    AckMessage,
    BatchAckMessage,
    ChangeMessageInvisibletime,
    PopLiteMessage,
    LiteSubscriptionCtl,
)
"""Requests that store something in the log, which a slave gets from its master alone. Those that have an
answer of their own for a slave are not among them."""


def flow_control() -> Refused:
    """The refusal of a request that this member of the group does not take now; clients go to another one."""
    return Refused(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while")


class Replication:
    """Links to slaves, or the link to the master."""

    def __init__(
        self, settings: ReplicationOptions, log: MessageStore, links: Links, role: RoleState, now: int
    ) -> None:
        self._settings = settings
        self._role = role
        self._log = log
        self.links = links
        self.table_versions = TableVersions(now)
        self.following: Following | None = None
        """The connection to the master, while there is one."""
        self.master_flushed = 0
        """Physical offset up to which the master has flushed its log, from its last notice
        (RESET_MASTER_FLUSH_OFFSET)."""
        self.refusal = ""
        """The reason why the last connection to the master ended, if it was more than a broken line."""

    @property
    def has_master(self) -> bool:
        """True if this is a slave whose master lives, as far as its connection shows."""
        return self.following is not None

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
            since = self._log.lookup.store_time_from(lacks_from)
            if not 0 < since <= now:  # the slave's log ends within a record
                since = self._log.lookup.earliest_store_time()
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
        if self._role.is_slave:
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
            master_addr=self._role.ha_address, max_offset=end, master_flush_offset=self.master_flushed
        )
        if following is not None:
            info.transferred_byte_in_second = following.rate(now)
            info.last_read_timestamp = following.last_heard_ms
            info.last_write_timestamp = following.last_report_ms
        return info
