"""The controllers of a cluster, as one of them knows them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Leadership:
    """One controller, the others, and which one leads. The server keeps it up to date."""

    group: str
    own_id: str
    own_address: str
    leader_id: str = ""
    """Empty while no controller leads, as far as this controller knows."""
    peers: dict[str, str] = field(default_factory=dict)
    """Addresses by id, this controller's included."""
    leads: bool = False
    """True if this controller holds the lease, and has taken over what the store holds."""
    lease_until_ms: int = 0
    """When the lease of this controller may end, by its own clock."""

    @property
    def leader_address(self) -> str:
        """The leader's address; empty while it is not known."""
        return self.peers.get(self.leader_id, "")
