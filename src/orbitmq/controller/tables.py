"""Tables that the handlers of a controller work on, and the registry they are in."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.controller.groups import BrokerGroups
from orbitmq.controller.journal import Journal, not_leader
from orbitmq.controller.leadership import Leadership
from orbitmq.controller.live import LiveBrokers
from orbitmq.controller.options import ControllerSettings
from orbitmq.handling.call import Handlers

handlers = Handlers()
"""`@handlers(ControllerElectMaster)` registers a handler of the controller."""


@dataclass(slots=True)
class ControllerTables:
    """For all requests of a controller."""

    settings: ControllerSettings
    groups: BrokerGroups
    live: LiveBrokers
    journal: Journal
    leadership: Leadership
    updates: dict[str, str] = field(default_factory=dict)
    """Options changed while controllers run, by name; every leader takes them over."""

    def need_leadership(self, now: int) -> None:
        """Raises Refused where this controller does not lead, or has slept until its lease was over."""
        if not self.leadership.leads or now >= self.leadership.lease_until_ms:
            raise not_leader()
