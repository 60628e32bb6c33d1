"""ZooKeeper as the consensus store, through kazoo.

All keys are children of one node, the prefix, with their names quoted. ZooKeeper lacks these features of
etcd:

- A read no older than its call. Reads of ZooKeeper may be old, so a write without effect goes before each.
- A condition on when a key was created. Each key that guards has a fence beside it, a node that is written
  with each creation of the key and with each change under the guard. A change is made on the condition that
  the key is there, and that its fence has the version of the creation or change before. So ZooKeeper refuses
  a change that was tried without an answer once the next try has been carried out.
- A lease of so many seconds. A lease here is a session, and ZooKeeper may count from an earlier sign of this
  side than the last one that a member has answered: members pass such signs on once in half a tick, and one
  that dies keeps them to itself. See HOLDING_PART.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from orbitmq.server.controller.consensus import (
    Changes,
    ConsensusError,
    ForeignStore,
    Lease,
    LeaseLost,
    NoMajority,
    StoreUnreachable,
    StoreWiped,
    WriteGuard,
    parts,
)
from orbitmq.server.controller.identity import IDENTITY_KEY, PrefixIdentity
from orbitmq.server.controller.zookeeper_client import Ensemble, Operation, ZooKeeperClient, ZooKeeperTls

MAX_CHANGES = 100
MAX_BYTES = 512 << 10
"""Size of one transaction; ZooKeeper takes 1 MiB (jute.maxbuffer)."""
READS_AT_A_TIME = 200
SESSION_PART = 2
"""A session's timeout is this many times the seconds of a lease: ZooKeeper rounds up to its ticks anyway."""
HOLDING_PART = 3
"""A lease holds for one part in so many of the session's timeout T.

The sign that ZooKeeper counts from may be older than a renewal by half a tick and by one lease, since the
renewal before was no older. With a tick of at most T/2, ZooKeeper's least timeout, a lease of L and a
renewal that holds for L: T - T/4 - L >= L, so L may be 3/8 of T. A third leaves some for delays.
"""
BASE_SESSION_SECONDS = 6
TRIES = 4
"""Tries of a transaction whose nodes came or went meanwhile."""
_FENCE = "!"
"""First character of a fence's name; in quoted keys it never is."""


class ZooKeeperStore:
    """The keys below `prefix` in the ensemble of `endpoints`, `host:port`, for controllers of `group`."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        prefix: str,
        group: str,
        timeout_ms: int,
        tls: ZooKeeperTls | None = None,
    ) -> None:
        self._ensemble = Ensemble(tuple(endpoints), timeout_ms / 1000, tls)
        self._prefix = f"/{prefix.strip('/')}"
        self._base: ZooKeeperClient | None = None
        self._leases: dict[int, ZooKeeperClient] = {}
        self._identity = PrefixIdentity(
            group,
            store="ZooKeeper",
            prefix=self._prefix,
            key=f"node {self._path(IDENTITY_KEY)}",
            if_new=f"the nodes below {self._prefix} in ZooKeeper are new, or of another ensemble: check "
            "storeAddress, and restart this controller",
        )
        self._nodes: set[str] = set()
        """Names of nodes that were there when last looked: they are set, others are created."""

    async def open(self) -> None:
        """Checks the store; the first controller writes to whom the prefix belongs."""
        try:
            await self._open(await self._client())
        except (StoreUnreachable, NoMajority):
            # Another session next time: an ensemble that has lost its data refuses those that know more.
            client, self._base = self._base, None
            if client is not None:
                client.close_soon()
            raise

    async def _open(self, client: ZooKeeperClient) -> None:
        text = await self._read_identity(client)
        if text is None:
            if self._identity.text:
                raise StoreWiped(
                    f"{self._ensemble} has lost what controllers wrote below {self._prefix}, or one of these "
                    "addresses is of another ensemble: correct storeAddress, or restore a backup; or, to "
                    "begin anew, stop all brokers of the groups, remove brokerIdentity from their folders, "
                    "and restart the controllers"
                )
            await self._make_prefix(client)
            own = self._identity.new_text().encode()
            with contextlib.suppress(NodeExistsError):
                await client.call(lambda zk: zk.create_async(self._path(IDENTITY_KEY), own))
            text = await self._read_identity(client) or ""
        is_first = not self._identity.text
        self._identity.check(text)
        if is_first and len(self._ensemble.endpoints) > 1:
            await asyncio.gather(*(self._check_member(one) for one in self._ensemble.endpoints))

    async def _read_identity(self, client: ZooKeeperClient) -> str | None:
        try:
            await self._barrier(client)
            text, _ = await client.call(lambda zk: zk.get_async(self._path(IDENTITY_KEY)))
        except NoNodeError:
            return None
        return str(text.decode(errors="replace"))

    async def _make_prefix(self, client: ZooKeeperClient) -> None:
        path = ""
        for name in self._prefix.strip("/").split("/"):
            path = f"{path}/{name}"
            with contextlib.suppress(NodeExistsError):
                await client.transact([_create(path, "")])

    async def _check_member(self, endpoint: str) -> None:
        """ZooKeeper has no id of an ensemble: its members are known by holding the same identity."""
        alone = Ensemble((endpoint,), self._ensemble.timeout_seconds, self._ensemble.tls)
        try:
            client = await ZooKeeperClient.connect(alone, BASE_SESSION_SECONDS)
        except (StoreUnreachable, NoMajority):
            return  # it may be down; when it is up it may be in the minority, and serves no client
        try:
            if await self._read_identity(client) != self._identity.text:
                raise ForeignStore(f"{self._ensemble}: its members are of two ensembles")
        except (StoreUnreachable, NoMajority):
            return
        finally:
            client.close_soon()

    async def read(self, prefix: str = "") -> dict[str, str]:
        """All keys below a prefix with their texts."""
        client = await self._client()
        try:
            await self._barrier(client)
            found: dict[str, str] = {}
            keys = [one for one in await self._keys(client) if one.startswith(prefix)]
            for at in range(0, len(keys), READS_AT_A_TIME):
                some = keys[at : at + READS_AT_A_TIME]
                texts = await asyncio.gather(*(self._text(client, key) for key in some))
                found |= {key: text for key, text in zip(some, texts, strict=True) if text is not None}
        except NoNodeError:
            return {}
        return found

    async def _keys(self, client: ZooKeeperClient, watch: Callable[[Any], None] | None = None) -> list[str]:
        names = await client.call(lambda zk: zk.get_children_async(self._prefix, watch))
        self._nodes = set(names)
        return [unquote(one) for one in names if not one.startswith(_FENCE)]

    async def _text(self, client: ZooKeeperClient, key: str) -> str | None:
        try:
            text, _ = await client.call(lambda zk: zk.get_async(self._path(key)))
        except NoNodeError:
            return None  # deleted meanwhile
        return str(text.decode())

    async def _barrier(self, client: ZooKeeperClient) -> None:
        """A write without effect: reads of this session are no older from now on. Raises NoNodeError."""
        await client.transact([_check(self._prefix, -1)])

    async def grant(self, seconds: int) -> Lease:
        """A new lease: a session of its own."""
        client = await ZooKeeperClient.connect(self._ensemble, seconds * SESSION_PART)
        try:
            text = await self._read_identity(client)
            if text is None:
                raise StoreWiped(f"there is no {self._path(IDENTITY_KEY)} in ZooKeeper")
            self._identity.check(text)
        except BaseException:
            client.close_soon()
            raise
        lease = Lease(client.session_id, client.timeout_ms // HOLDING_PART)
        self._leases[lease.id] = client
        return lease

    async def renew(self, lease: int) -> None:
        await self._on_lease(lease, self._barrier)

    async def revoke(self, lease: int) -> None:
        client = self._session(lease)
        del self._leases[lease]
        if not await client.close():
            raise NoMajority(f"{self._ensemble} did not end a session")

    def _session(self, lease: int) -> ZooKeeperClient:
        client = self._leases.get(lease)
        if client is not None and client.has_ended:
            del self._leases[lease]
            client.close_soon()
            client = None
        if client is None:
            raise LeaseLost("ZooKeeper does not know this controller's session any more")
        return client

    async def _on_lease(self, lease: int, call: Callable[[ZooKeeperClient], Any]) -> Any:
        """Makes a call in a lease's session. An answer of the session that followed it does not count."""
        try:
            result = await call(self._session(lease))
        except NoNodeError:
            raise StoreWiped(f"there is no {self._prefix} in ZooKeeper") from None
        finally:
            self._session(lease)
        return result

    async def put(self, key: str, text: str, lease: int) -> None:
        async def put(client: ZooKeeperClient) -> None:
            path = self._path(key)
            create = _create(path, text, is_ephemeral=True)
            for _ in range(TRIES):
                # A node belongs to the session that created it.
                with contextlib.suppress(NoNodeError):
                    await client.transact([_delete(path), create])
                    return
                with contextlib.suppress(NodeExistsError):
                    await client.transact([create])
                    return
            raise ConsensusError(f"{path} in ZooKeeper is written by somebody else")

        await self._on_lease(lease, put)

    async def create(self, key: str, text: str, lease: int) -> WriteGuard | None:
        """Writes a key that goes with its lease; None if it is there already."""

        async def create(client: ZooKeeperClient) -> WriteGuard | None:
            path, fence = self._path(key), self._fence(key)
            with contextlib.suppress(NodeExistsError):
                await client.call(lambda zk: zk.create_async(fence, b""))
            try:
                operations = [_create(path, text, is_ephemeral=True), _set(fence, "")]
                _, stat = await client.transact(operations)
            except NodeExistsError:
                # It is this lease's where an answer was lost, and this is the second try.
                return await self._held(client, WriteGuard(key, lease, 0))
            return WriteGuard(key, lease, stat.version)

        guard: WriteGuard | None = await self._on_lease(lease, create)
        return guard

    async def _held(self, client: ZooKeeperClient, guard: WriteGuard) -> WriteGuard | None:
        """The guard as ZooKeeper holds it; None if its key is gone, or not of its lease."""
        try:
            # In this order: if the key is still the lease's, it was as its fence was read.
            _, fence = await client.call(lambda zk: zk.get_async(self._fence(guard.key)))
            _, stat = await client.call(lambda zk: zk.get_async(self._path(guard.key)))
        except NoNodeError:
            return None
        return replace(guard, revision=fence.version) if stat.ephemeralOwner == guard.lease else None

    async def commit(self, changes: Changes, guard: WriteGuard) -> WriteGuard | None:
        """All changes or none of up to MAX_CHANGES; more of them go one part after another."""
        client = await self._client()
        for part in parts(changes, MAX_CHANGES, MAX_BYTES):
            held = await self._commit(client, part, guard)
            if held is None:
                return None
            guard = held
        return guard

    async def _commit(self, client: ZooKeeperClient, part: Changes, guard: WriteGuard) -> WriteGuard | None:
        for _ in range(TRIES):
            guards = [_check(self._path(guard.key), -1), _set(self._fence(guard.key), "", guard.revision)]
            try:
                results = await client.transact([*guards, *self._operations(part)])
            except (NoNodeError, NodeExistsError, BadVersionError):
                # The guard's key is gone; or an earlier try was carried out late; or nodes came or went.
                try:
                    await self._barrier(client)
                    held = await self._held(client, guard)
                    await self._keys(client)
                except NoNodeError:
                    return None
                if held is None:
                    return None
                guard = held
                continue
            self._nodes |= {_name(key) for key, text in part.items() if text is not None}
            self._nodes -= {_name(key) for key, text in part.items() if text is None}
            return replace(guard, revision=results[1].version)
        raise ConsensusError(f"the nodes below {self._prefix} in ZooKeeper are written by somebody else")

    def _operations(self, part: Changes) -> Iterable[Operation]:
        for key, text in part.items():
            path, is_there = self._path(key), _name(key) in self._nodes
            if text is not None:
                yield _set(path, text) if is_there else _create(path, text)
            elif is_there:
                yield _delete(path)

    async def watch(self, prefix: str) -> AsyncGenerator[None]:
        """One item as soon as the watch holds, and one after every change below a prefix."""
        client = await self._client()
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def on_event(_: object) -> None:  # in a thread of kazoo's; for a lost connection, too
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(changed.set)

        while True:
            changed.clear()
            try:
                keys = [one for one in await self._keys(client, on_event) if one.startswith(prefix)]
                await asyncio.gather(*(self._watch_text(client, key, on_event) for key in keys))
            except NoNodeError:
                raise StoreWiped(f"there is no {self._prefix} in ZooKeeper") from None
            yield None
            await changed.wait()

    async def _watch_text(self, client: ZooKeeperClient, key: str, watch: Callable[[Any], None]) -> None:
        await client.call(lambda zk: zk.exists_async(self._path(key), watch))

    async def close(self) -> None:
        clients = [*self._leases.values(), *([self._base] if self._base is not None else [])]
        self._leases.clear()
        self._base = None
        await asyncio.gather(*(client.close() for client in clients))

    async def _client(self) -> ZooKeeperClient:
        """The session for all that hangs on no lease. It may end and start over."""
        if self._base is None:
            self._base = await ZooKeeperClient.connect(self._ensemble, BASE_SESSION_SECONDS)
        return self._base

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{_name(key)}"

    def _fence(self, key: str) -> str:
        return f"{self._prefix}/{_FENCE}{_name(key)}"


def _name(key: str) -> str:
    """A node's name: `/` divides paths, and `.` and `..` are no names."""
    return quote(key, safe="").replace(".", "%2E") if not key.strip(".") else quote(key, safe="")


def _check(path: str, version: int) -> Operation:
    return lambda transaction: transaction.check(path, version)


def _create(path: str, text: str, *, is_ephemeral: bool = False) -> Operation:
    return lambda transaction: transaction.create(path, text.encode(), ephemeral=is_ephemeral)


def _set(path: str, text: str, version: int = -1) -> Operation:
    return lambda transaction: transaction.set_data(path, text.encode(), version)


def _delete(path: str) -> Operation:
    return lambda transaction: transaction.delete(path)
