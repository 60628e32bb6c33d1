"""A controller as a whole: its tables, its handlers, what time and lost connections do to them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.controller.group import BrokerGroup
from orbitmq.controller.groups import GROUP_KEYS, BrokerGroups
from orbitmq.controller.handlers import handlers
from orbitmq.controller.handlers.admin import UPDATES_KEY
from orbitmq.controller.journal import Journal
from orbitmq.controller.leadership import Leadership
from orbitmq.controller.live import LiveBrokers, Member
from orbitmq.controller.options import CONTROLLER_TABLE, ControllerSettings
from orbitmq.controller.tables import ControllerTables
from orbitmq.handling.call import BoundHandler
from orbitmq.options.errors import OptionError
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.bodies.ha import SyncStateSet
from orbitmq.protocol.requests.ha import NotifyBrokerRoleChanged

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """A request to be sent one-way to a broker, on a connection of the controller's own."""

    address: str
    request: NotifyBrokerRoleChanged
    peer: str
    """Address that the broker's heartbeats come from, `ip:port`."""


class Controller:
    """All rules of one controller.

    Its process calls `lead` with what the store holds once it has the lease, `step_down` when it may have
    lost it, `check` at its interval, `connection_closed` for every connection that ends; it writes what
    `journal` holds, in order, and sends what `drain_notices` gives once that is written.
    """

    def __init__(self, settings: ControllerSettings, leadership: Leadership) -> None:
        self.settings = settings
        self.leadership = leadership
        self.journal = Journal()
        self.live = LiveBrokers()
        self.groups = BrokerGroups(settings, self.journal, self.live)
        self._tables = ControllerTables(settings, self.groups, self.live, self.journal, leadership)

    def bind(self) -> dict[int, BoundHandler]:
        return handlers.bind({ControllerTables: self._tables})

    def lead(self, texts: Mapping[str, str], now: int) -> None:
        """Takes over what the store holds, by key. Raises UnreadableGroup."""
        groups = {key: text for key, text in texts.items() if key.startswith(GROUP_KEYS)}
        self.groups.load(groups, now)
        self.live.lead(now, self.groups.is_member)
        self._tables.updates = parse_properties(texts.get(UPDATES_KEY, "").encode(), "the consensus store")
        for name, value in self._tables.updates.items():
            try:
                CONTROLLER_TABLE.apply_update(self.settings, {name: value})
            except OptionError as error:
                # A later release has written it. A group without a controller would be worse.
                log.error("an option in the consensus store does not count here: %s", error)
        self.leadership.leads = True

    def step_down(self) -> None:
        """Stops leading: what is not written is dropped, who waits for it is refused."""
        self.leadership.leads = False
        self.journal.drop()
        self.groups.clear()
        self.live.step_down()

    def check(self, now: int) -> None:
        """Takes out brokers that were silent for too long, and elects masters where one is missing."""
        for name, broker_id in self.live.expire(now, self.groups.lease_ms):
            self._gone((name, broker_id), "sent no heartbeat in time")
        if self.leadership.leads:
            self.groups.forget_unregistered(now)
            self.groups.elect_where_needed(now, "the master sent no heartbeat in time")

    def connection_closed(self, connection_id: int, now: int) -> None:
        """Takes out the brokers of a connection that ended, and elects masters where one is missing."""
        gone = self.live.connection_closed(connection_id)
        for member in gone:
            self._gone(member, "closed its connection")
            self.groups.ended(member, now)
        if gone and self.leadership.leads:
            self.groups.elect_where_needed(now, "the master's connection ended")

    def _gone(self, member: Member, reason: str) -> None:
        log.warning("broker %d of %s %s", member[1], member[0], reason)

    def drain_notices(self) -> list[Notice]:
        """One-way requests to the living members of groups that have a new master."""
        notices = []
        for group in self.groups.drain_changed():
            if group.master_id is not None and self.settings.notify_broker_role_changed:
                notices += self._notices(group)
        return notices

    def _notices(self, group: BrokerGroup) -> list[Notice]:
        request = NotifyBrokerRoleChanged(
            group.master_address,
            group.master_epoch,
            group.sync_state_set_epoch,
            group.master_id,
            SyncStateSet(set(group.sync_state_set), group.sync_state_set_epoch),
        )
        living = sorted(self.live.of_group(group.name).items(), key=lambda one: one[0] != group.master_id)
        return [Notice(broker.address, request, broker.peer) for _, broker in living]
