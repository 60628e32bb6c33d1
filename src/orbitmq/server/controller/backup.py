"""Backup and restore of the decisions in a consensus store."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.controller.backup import groups_in, is_decision
from orbitmq.server.controller.consensus import ConsensusError, ConsensusStore
from orbitmq.server.controller.session import LEADER_KEY, MEMBERS

LEASE_SECONDS = 10
OWNER = "restore"
"""Stands in the place of the leading controller while a backup is written."""


class StoreInUse(ConsensusError):
    """The store has controllers, or decisions, that a restore would overwrite."""


async def read_decisions(store: ConsensusStore) -> dict[str, str]:
    """All keys that the store holds. Raises ConsensusError, also if there is no decision among them."""
    await store.open()
    texts = await store.read()
    if not groups_in(texts):
        raise ConsensusError("the store holds no broker group: check the address and storePrefix")
    return texts


async def write_decisions(store: ConsensusStore, texts: Mapping[str, str], *, replaces: bool = False) -> None:
    """Writes the keys of a backup while no controller runs; with `replaces` over groups that the store has.

    Raises StoreInUse, ConsensusError.
    """
    await store.open()
    there = await store.read()
    if any(key.startswith(MEMBERS) for key in there):
        raise StoreInUse("controllers use the store: stop all of them first; their leases end within seconds")
    before = dict.fromkeys(filter(is_decision, there))
    if groups_in(there) and not replaces:
        raise StoreInUse(
            f"the store has broker groups already ({', '.join(groups_in(there)[:5])}): --replace writes over "
            "them"
        )
    lease = await store.grant(LEASE_SECONDS)
    try:
        guard = await store.create(LEADER_KEY, OWNER, lease.id)
        if guard is None:
            raise StoreInUse("a controller has begun meanwhile: stop it first")
        if await store.commit({**before, **texts}, guard) is None:
            raise StoreInUse("the store took only a part of the backup: restore it again with --replace")
    finally:
        await store.revoke(lease.id)
