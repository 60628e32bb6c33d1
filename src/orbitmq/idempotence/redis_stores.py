"""Stores in Redis: leases, and the states consuming and consumed.

They are for effects that are no transaction with Redis, so they cannot promise one effect: between the
handler's effect and the note that it is done, a process may die, Redis may be away, a failover may lose the
note, or the lease may end. Then the message is handled once more. A duplicate that comes later than that is
suppressed.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from orbitmq.client import InvalidArgument
from orbitmq.client.core.checking import check_number, shown
from orbitmq.extras import lacking
from orbitmq.idempotence.both_forms import Of, at_once, awaited, given, plain
from orbitmq.idempotence.contract import CLAIMED, DEFAULT_RETENTION_HOURS, IN_FLIGHT, Claim, State
from orbitmq.idempotence.errors import IdempotenceError, LeaseLost, StoreUnavailable
from orbitmq.idempotence.keys import Entry

try:
    import redis
    import redis.asyncio
except ModuleNotFoundError:
    raise InvalidArgument(lacking("RedisStore", "redis", "redis")) from None

LEASE_SECONDS = 60.0
PREFIX = "orbitmq:once:"
CONSUMING, CONSUMED = "consuming", "consumed"

CLAIM = """
local found = redis.call('GET', KEYS[1])
if found then return found end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
"""
FINISH = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


def _value(state: str, owner: str, entry: Entry, result: str | None = None) -> str:
    return json.dumps(
        {
            "state": state,
            "owner": owner,
            "group": entry.scope.group,
            "topic": entry.scope.topic,
            "handler": entry.scope.handler,
            "key": entry.key,
            "message_id": entry.message_id,
            "fingerprint": entry.fingerprint,
            "result": result,
        }
    )


def _claim_of(name: str, found: object) -> Claim:
    """The claim for a value that was there. Raises IdempotenceError for one that is not a store's."""
    if found is None or found is False:
        return CLAIMED
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    try:
        read = json.loads(text)
        if read["state"] == CONSUMING:
            return IN_FLIGHT
        if read["state"] != CONSUMED:
            raise ValueError(read["state"])
        return Claim(State.DONE, str(read["message_id"]), str(read["fingerprint"]), read["result"])
    except (ValueError, KeyError, TypeError) as error:
        raise IdempotenceError(
            f"the value of {name} in Redis is none of orbitmq.idempotence: {shown(text)}; choose another "
            "prefix="
        ) from error


class _Unit:
    """Leases of a unit of work; `of` gives what the client's calls have returned."""

    arguments: tuple[Any, ...] = ()

    def __init__(self, store: _Base, of: Of) -> None:
        self._store = store
        self._of = of
        self._owner = secrets.token_hex(8)
        self._leases: dict[str, tuple[Entry, str]] = {}
        self._results: dict[str, str] = {}

    async def _run(self, script: str, entry: Entry, *arguments: object) -> Any:
        """The result of a script for an entry. Raises StoreUnavailable."""
        try:
            return await self._of(self._store.client.eval(script, 1, self._store.name_of(entry), *arguments))
        except (redis.RedisError, OSError) as error:
            raise StoreUnavailable(
                f"Redis cannot be reached, or refuses: {type(error).__name__}: {error}; messages wait in the "
                "consumer until it does not"
            ) from error

    async def claim(self, entries: Sequence[Entry]) -> list[Claim]:
        claims = []
        for entry in entries:
            lease = _value(CONSUMING, self._owner, entry)
            found = await self._run(CLAIM, entry, lease, self._store.lease_ms)
            claims.append(_claim_of(self._store.name_of(entry), found))
            if claims[-1] is CLAIMED:
                self._leases[entry.id] = entry, lease
        return claims

    async def keep(self, entry: Entry, result: str) -> None:
        self._results[entry.id] = result

    async def release(self, entries: Sequence[Entry] | None = None) -> None:
        """Gives leases up; all that are left without `entries`."""
        for one in list(self._leases) if entries is None else [entry.id for entry in entries]:
            await self._run(RELEASE, *self._leases.pop(one))

    async def finish(self) -> None:
        """Notes that the effect is there. Raises LeaseLost if a lease was not this unit's any more."""
        lost = []
        for entry, lease in self._leases.values():
            consumed = _value(CONSUMED, self._owner, entry, self._results.get(entry.id))
            if not int(str(await self._run(FINISH, entry, lease, consumed, self._store.retention_ms))):
                lost.append(entry.key)
        if lost:
            raise LeaseLost(
                f"the lease of key {lost[0]!r} ended after {self._store.lease_ms / 1000:g} s, before its "
                "handler: another process may have handled the message, too; give lease_seconds= more than "
                "handlers take"
            )


class _PlainUnit:
    """The form of a unit for plain handlers."""

    arguments: tuple[Any, ...] = ()

    def __init__(self, unit: _Unit) -> None:
        self._unit = unit

    def claim(self, entries: Sequence[Entry]) -> list[Claim]:
        return at_once(self._unit.claim(entries))

    def keep(self, entry: Entry, result: str) -> None:
        at_once(self._unit.keep(entry, result))

    def release(self, entries: Sequence[Entry]) -> None:
        at_once(self._unit.release(entries))


class _Base:
    def __init__(self, client: object, lease_seconds: float, retention_hours: float, prefix: str) -> None:
        owner = type(self).__name__
        check_number(owner, "lease_seconds", lease_seconds, 0.001, 86_400)
        check_number(owner, "retention_hours", retention_hours, 0.000_001)
        if not isinstance(prefix, str) or not prefix:
            raise InvalidArgument(f"{owner}: prefix has to be a text, not {shown(prefix)}")
        self.client: Any = client
        self.retention_hours = retention_hours
        self.lease_ms = max(int(lease_seconds * 1000), 1)
        self.retention_ms = max(int(retention_hours * 3_600_000), 1)
        self._prefix = prefix

    def name_of(self, entry: Entry) -> str:
        """The name of an entry in Redis."""
        return self._prefix + entry.id

    @contextlib.asynccontextmanager
    async def _unit(self, of: Of) -> AsyncIterator[_Unit]:
        unit = _Unit(self, of)
        try:
            yield unit
        except BaseException:
            with contextlib.suppress(StoreUnavailable):  # then the lease ends by itself
                await unit.release()
            raise
        await unit.finish()


class RedisStore(_Base):
    """Keys in Redis, for plain handlers: leases, not transactions. If a process dies, or Redis is away, after
    the effect and before the note of it, the message is handled once more.

    `lease_seconds` has to be longer than any handler takes: for so long the message of a process that died is
    held back elsewhere. Keys end after `retention_hours`; Redis may evict none of them (`noeviction`).
    """

    def __init__(
        self,
        client: redis.Redis,
        *,
        lease_seconds: float = LEASE_SECONDS,
        retention_hours: float = DEFAULT_RETENTION_HOURS,
        prefix: str = PREFIX,
    ) -> None:
        if not isinstance(client, redis.Redis):
            raise InvalidArgument(f"RedisStore: client has to be a redis.Redis, not {shown(client)}")
        super().__init__(client, lease_seconds, retention_hours, prefix)

    @contextlib.contextmanager
    def unit(self) -> Iterator[_PlainUnit]:
        """Leases: consumed at the end of the block, released if it raises."""
        with plain(self._unit(given)) as unit:
            yield _PlainUnit(unit)

    def purge(self, now_ms: int) -> Literal[0]:
        """Do nothing: Redis ends keys by itself."""
        return 0

    def count(self) -> None:
        """Give None: Redis does not count the keys of one prefix."""


class AsyncRedisStore(_Base):
    """The same for async handlers, with a client of `redis.asyncio`."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        *,
        lease_seconds: float = LEASE_SECONDS,
        retention_hours: float = DEFAULT_RETENTION_HOURS,
        prefix: str = PREFIX,
    ) -> None:
        if not isinstance(client, redis.asyncio.Redis):
            raise InvalidArgument(
                f"AsyncRedisStore: client has to be a redis.asyncio.Redis, not {shown(client)}"
            )
        super().__init__(client, lease_seconds, retention_hours, prefix)

    def async_unit(self) -> AbstractAsyncContextManager[_Unit]:
        """Leases: consumed at the end of the block, released if it raises."""
        return self._unit(awaited)

    async def async_purge(self, now_ms: int) -> Literal[0]:
        """Do nothing: Redis ends keys by itself."""
        return 0

    async def async_count(self) -> None:
        """Give None: Redis does not count the keys of one prefix."""
