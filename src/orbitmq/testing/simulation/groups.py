"""The shape of a simulated cluster: when it acknowledges, and its broker groups."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from orbitmq.controller.group import BrokerGroup
from orbitmq.testing.simulation.cluster_clients import ClusterClients, ClusterHistory
from orbitmq.testing.simulation.ledger import Ledger
from orbitmq.testing.simulation.machines import BrokerMachine


@dataclass(slots=True, frozen=True)
class Mode:
    """The shape of a cluster, and when it acknowledges."""

    has_controller: bool
    is_sync: bool
    """A message is acknowledged once all brokers have it that may be master, or two where roles are fixed."""
    sync_flush: bool
    goes_blind: bool = False
    """A master that no controller answers stays master (enableBlindMaster)."""
    is_alone: bool = False
    """One broker, and no controller."""

    @classmethod
    def drawn(cls, chance: random.Random, **given: bool | None) -> Mode:
        """The mode that is given by the names of its fields; chance gives the others."""
        mode = cls(*(chance.random() < share for share in (0.7, 0.7, 0.6)))
        mode = replace(mode, **{name: one for name, one in given.items() if one is not None})
        return replace(mode, has_controller=False, is_sync=False) if mode.is_alone else mode

    @property
    def leaves_behind(self) -> bool:
        """True if a member that a power cut took the end of its log from is elected only where nobody else
        may have it.
        """
        return self.has_controller and self.is_sync and self.goes_blind

    def __str__(self) -> str:
        return (
            f"{'controller' if self.has_controller else 'fixed roles'}, "
            f"{'sync' if self.is_sync else 'async'} master, {'sync' if self.sync_flush else 'async'} flush"
            f"{', blind masters' if self.goes_blind else ''}"
        )


@dataclass(slots=True, eq=False)
class Group:
    """One broker group, and all who watch it."""

    name: str
    members: list[BrokerMachine]
    history: ClusterHistory
    ledger: Ledger
    master: BrokerMachine
    """The master by the last election, or by the operator's choice."""
    decided: BrokerGroup | None = None
    """Its entry in the consensus store."""
    clients: ClusterClients | None = None
    elections: int = 0
    blind_spells: int = 0
    """How often a master of it went on without a controller."""
