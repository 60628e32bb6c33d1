"""The role that a broker has now, and what belongs to it. Its methods alone change it.

Steps of a change come in the order of `orbitmq.broker.role.steps`. One that fails leaves the broker fenced.
"""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.broker.role.options import RoleOptions
from orbitmq.broker.role.role import SLAVE, Role, RoleChange


class RoleState:
    """Asked at every send and pull: its parts are plain attributes."""

    def __init__(self, settings: RoleOptions, own_id: int = 0, own_addresses: Iterable[str] = ()) -> None:
        """`own_addresses` are those of this broker itself, which it does not follow."""
        self._settings = settings
        self._own_addresses = frozenset(own_addresses)
        self.is_fenced = False
        """The role is unknown: nothing is stored, and no master is followed."""
        self.epoch = 0
        """The number of the last change of role, where a controller counts them."""
        self.slave_id = own_id
        """The id that this broker has as a slave, or had last; 0 where it never was one."""
        self.master_address = ""
        """`host:port` of a slave's master for requests; empty where unknown."""
        self.announced_ha_address = ""
        """`host:port` of the master's HA port, as it was announced; the option goes before it."""
        self.is_acting = False
        """This slave acts for its master, which is away."""
        self.works_for_master = False
        """This slave does its master's work: what the master says of how far it got does not count."""
        self.held_at: int | None = None
        """Of a broker that was master: readers see its log up to this physical offset, and no further, until
        it is known again that its log is that of its group's master. None: nothing is held back."""
        self.blind_since: int | None = None
        """Of a master without a lease that acknowledges what everybody holds who may be elected: since when
        it hears no controller, in ms. None: it has a lease, or is no master.
        """
        self.heard_epoch = 0
        """The last epoch that other brokers have told of."""
        self.able: set[int] = set()
        """Members that have told their master that they can be left to a blind one."""
        self.master_confirmed = 0
        """Confirm offset that a slave in controller mode got from its master: readers see no further."""

    @property
    def current(self) -> Role:
        """The role now."""
        if self.is_fenced:
            return Role.UNKNOWN
        return Role.SLAVE if self._settings.broker_role == SLAVE else Role.MASTER

    @property
    def is_master(self) -> bool:
        """True if this broker takes messages of its own."""
        return not self.is_slave

    @property
    def is_slave(self) -> bool:
        """True if this broker takes no messages of its own: it follows a master, or its role is unknown."""
        return self.is_fenced or self._settings.broker_role == SLAVE

    @property
    def ha_address(self) -> str:
        """Address of the master's log; empty if unknown."""
        return self._settings.ha_master_address or self.announced_ha_address

    # Changes of role.

    def fence(self) -> None:
        """Makes the role unknown."""
        self.is_fenced, self.blind_since = True, None

    def await_controller(self) -> None:
        """Begins without a role and shows readers nothing: another master's log may have overtaken the end of
        this one, which may never have been confirmed.
        """
        self.is_fenced, self.held_at = True, 0

    def hold_readers(self, confirm_offset: int) -> None:
        """Shows readers what a master has confirmed, and no more, unless less is shown already."""
        if self.held_at is None:
            self.held_at = confirm_offset

    def release_readers(self) -> None:
        """Shows readers what the promise covers: the log is known to be that of the group's master."""
        self.held_at = None

    def forget_master(self) -> None:
        """Forgets whom this broker followed."""
        self.master_address = self.announced_ha_address = ""

    def begin_epoch(self, epoch: int) -> None:
        """Notes the number of a change of role; it only grows."""
        self.epoch = max(self.epoch, epoch)

    def follow(self, change: RoleChange) -> None:
        """Takes the role of a slave."""
        self.is_fenced = False
        self.slave_id = change.broker_id
        self.master_address, self.announced_ha_address = change.master_address, change.master_ha_address

    def lead(self) -> None:
        """Takes the role of a master."""
        self.is_fenced = False

    # A master that hears no controller.

    def go_blind(self, now: int) -> None:
        """Stays master without a lease."""
        self.blind_since = now

    def see(self) -> None:
        """Stays master with a lease."""
        self.blind_since = None

    def confirm_epoch(self) -> None:
        """A controller has said that this epoch is the last one: what others have told does not count."""
        self.heard_epoch = 0

    def note_member(self, broker_id: int, *, is_able: bool) -> None:
        """Notes if a slave has told its master that it can be left to a blind one."""
        (self.able.add if is_able else self.able.discard)(broker_id)

    def note_epoch(self, epoch: int | None) -> None:
        """Notes an epoch that another broker knows of."""
        self.heard_epoch = max(self.heard_epoch, epoch or 0)

    # A slave and its master.

    def note_master(self, master_address: str | None, ha_address: str | None) -> None:
        """Takes over what a name server says of the group's master."""
        if self._settings.enable_controller_mode:
            return  # the controller names it
        if ha_address in self._own_addresses or master_address in self._own_addresses:
            return  # the name server has not heard yet that this broker is no longer master
        if self.is_slave and master_address and ha_address:
            self.master_address, self.announced_ha_address = master_address, ha_address

    def note_announced(self, master_address: str | None, ha_address: str) -> None:
        """Takes over what a master, or an operator, says of the group's master."""
        self.note_master(master_address or self.master_address, ha_address)
        self.announced_ha_address = ha_address

    def note_confirmed(self, confirm_offset: int) -> None:
        """Takes over the master's confirm offset; it only grows."""
        self.master_confirmed = max(self.master_confirmed, confirm_offset)

    def note_cut(self, log_end: int) -> None:
        """Notes where the log ends that was cut."""
        if self.held_at is not None:
            self.held_at = min(self.held_at, log_end)
        self.master_confirmed = min(self.master_confirmed, log_end)

    def act(self, *, is_acting: bool) -> None:
        """Begins or ends to stand in for a master that is away."""
        self.is_acting = is_acting

    def work_for_master(self, *, works: bool) -> None:
        """Begins or ends the master's own work (deliveries, revivals, check-backs)."""
        self.works_for_master = works
