"""etcd as the consensus store, through the messages and stubs of aetcd.

Each key that guards has a fence beside it, a key that is written with every change under the guard. A change
is made on the condition that the fence has the revision of the change before. So etcd refuses a change that
was tried without an answer once the next try has been carried out.

The channel is ours, since aetcd's own client knows neither TLS nor several members. One member is used at a
time; after a failure the next one is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
from aetcd import rpc

from orbitmq.server.controller.consensus import (
    Changes,
    ConsensusError,
    ForeignStore,
    Lease,
    LeaseLost,
    NoMajority,
    StoreRefused,
    StoreUnreachable,
    StoreUntrusted,
    StoreWiped,
    WriteGuard,
    parts,
)
from orbitmq.server.controller.identity import IDENTITY_KEY, PrefixIdentity

log = logging.getLogger(__name__)

MAX_CHANGES = 100
"""Changes of one transaction; etcd takes 128 operations."""
MAX_BYTES = 1 << 20
"""Size of one transaction; etcd takes 1.5 MiB."""
CHANNEL_OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 64 << 20),
]
_FENCE = "!"
"""First character of a fence's key; no other key has it."""
_NO_USER = "user name is empty"
"""An etcd with users says this to those that do not sign in."""
_TLS_MARKS = ("ssl", "tls", "certificate", "handshake")


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """Files for TLS; without `cert_path` this side shows no certificate."""

    ca_path: str
    cert_path: str = ""
    key_path: str = ""

    def credentials(self) -> grpc.ChannelCredentials:
        """Raises StoreUntrusted if a file cannot be read."""
        try:
            ca = Path(self.ca_path).read_bytes()
            cert = Path(self.cert_path).read_bytes() if self.cert_path else None
            key = Path(self.key_path).read_bytes() if self.key_path else None
        except OSError as error:
            raise StoreUntrusted(f"{error.filename}: {error.strerror}") from None
        return grpc.ssl_channel_credentials(ca, key, cert)


class EtcdStore:
    """The keys below `prefix` in the etcd cluster of `endpoints`, `host:port`, for controllers of `group`."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        prefix: str,
        group: str,
        timeout_ms: int,
        tls: EtcdTls | None = None,
    ) -> None:
        self._endpoints = list(endpoints)
        self._prefix = f"{prefix}/"
        self._timeout = timeout_ms / 1000
        self._tls = tls
        self._channel: Any = None
        self._cluster_id = 0
        self._identity = PrefixIdentity(
            group,
            store="etcd",
            prefix=self._prefix,
            key=f"key {self._prefix}{IDENTITY_KEY}",
            if_new=f"the keys below {self._prefix} in etcd are new: restart this controller",
        )

    async def open(self) -> None:
        """Checks the store; the first controller writes to whom the prefix belongs."""
        response = await self._call("KV", "Range", self._range(IDENTITY_KEY))
        if not response.kvs:
            if self._identity.text:
                raise StoreWiped(
                    f"etcd at {self._names} has lost what controllers wrote below {self._prefix}: restore "
                    "its backup; or, to begin anew, stop all brokers of the groups, remove brokerIdentity "
                    "from their folders, and restart the controllers"
                )
            await self._call("KV", "Txn", self._create(IDENTITY_KEY, self._identity.new_text(), 0))
            response = await self._call("KV", "Range", self._range(IDENTITY_KEY))
        self._identity.check(response.kvs[0].value.decode())

    async def read(self, prefix: str = "") -> dict[str, str]:
        """All keys below a prefix with their texts."""
        start = (self._prefix + prefix).encode()
        request = rpc.RangeRequest(key=start, range_end=_end(start))
        response = await self._call("KV", "Range", request)
        texts = {one.key.decode().removeprefix(self._prefix): one.value.decode() for one in response.kvs}
        return {key: text for key, text in texts.items() if not key.startswith(_FENCE)}

    async def grant(self, seconds: int) -> Lease:
        response = await self._call("Lease", "LeaseGrant", rpc.LeaseGrantRequest(TTL=seconds, ID=0))
        # etcd counts from a later moment than the caller, so the whole of it may be relied on.
        return Lease(int(response.ID), seconds * 1000)

    async def renew(self, lease: int) -> None:
        async def renew(stub: Any) -> Any:
            stream = stub.LeaseKeepAlive(iter([rpc.LeaseKeepAliveRequest(ID=lease)]), timeout=self._timeout)
            try:
                return await stream.read()
            finally:
                stream.cancel()

        response = await self._run("Lease", renew)
        if response is grpc.aio.EOF:
            raise NoMajority(f"etcd at {self._names} did not renew a lease")
        self._check_cluster(response)
        if response.TTL <= 0:
            raise LeaseLost("etcd does not know this controller's lease any more")

    async def revoke(self, lease: int) -> None:
        await self._call("Lease", "LeaseRevoke", rpc.LeaseRevokeRequest(ID=lease))

    async def put(self, key: str, text: str, lease: int) -> None:
        await self._call("KV", "Put", self._put(key, text, lease))

    async def create(self, key: str, text: str, lease: int) -> WriteGuard | None:
        """Writes a key that goes with its lease; None if it is there already."""
        response = await self._call("KV", "Txn", self._create(key, text, lease, _FENCE + key))
        if response.succeeded:
            return WriteGuard(key, lease, response.header.revision)
        # It is this lease's where an answer was lost, and this is the second try.
        return self._held(response, WriteGuard(key, lease, 0))

    async def commit(self, changes: Changes, guard: WriteGuard) -> WriteGuard | None:
        """All changes or none of up to MAX_CHANGES; more of them go one part after another."""
        for part in parts(changes, MAX_CHANGES, MAX_BYTES):
            held = await self._commit(part, guard)
            if held is None:
                return None
            guard = held
        return guard

    async def _commit(self, part: Changes, guard: WriteGuard) -> WriteGuard | None:
        fence = _FENCE + guard.key
        operations = [*(self._operation(key, text) for key, text in part.items()), self._operation(fence, "")]
        while True:
            request = rpc.TxnRequest(
                compare=[
                    self._compare(guard.key, "LEASE", lease=guard.lease),
                    self._compare(fence, "MOD", mod_revision=guard.revision),
                ],
                success=operations,
                failure=self._look_at(guard.key),
            )
            response = await self._call("KV", "Txn", request)
            if response.succeeded:
                return replace(guard, revision=response.header.revision)
            held = self._held(response, guard)
            if held is None:
                return None
            guard = held  # an earlier try was carried out late

    def _held(self, response: Any, guard: WriteGuard) -> WriteGuard | None:
        """The guard as etcd holds it; None if its key is gone, or not of its lease."""
        found, fences = (one.response_range.kvs for one in response.responses)
        if not found or not fences or found[0].lease != guard.lease:
            return None
        return replace(guard, revision=fences[0].mod_revision)

    def _operation(self, key: str, text: str | None) -> Any:
        if text is None:
            return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=self._key(key)))
        return rpc.RequestOp(request_put=self._put(key, text, 0))

    async def watch(self, prefix: str) -> AsyncGenerator[None]:
        """One item as soon as the watch holds, and one after every change below a prefix."""
        start = (self._prefix + prefix).encode()
        channel = self._open_channel()
        stream = rpc.WatchStub(channel).Watch()
        try:
            create = rpc.WatchCreateRequest(key=start, range_end=_end(start))
            await stream.write(rpc.WatchRequest(create_request=create))
            while True:
                response = await stream.read()
                if response is grpc.aio.EOF or response.canceled:
                    raise NoMajority(f"etcd at {self._names} ended a watch")
                self._check_cluster(response)
                yield None
        except rpc.AioRpcError as error:
            await self._next_member(channel)
            raise self._explain(error) from None
        except asyncio.CancelledError:
            if self._left(channel):
                raise self._closed() from None
            raise
        finally:
            stream.cancel()

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    @property
    def _names(self) -> str:
        return ", ".join(self._endpoints)

    def _key(self, key: str) -> bytes:
        return (self._prefix + key).encode()

    def _range(self, key: str) -> Any:
        return rpc.RangeRequest(key=self._key(key))

    def _put(self, key: str, text: str, lease: int) -> Any:
        return rpc.PutRequest(key=self._key(key), value=text.encode(), lease=lease)

    def _create(self, key: str, text: str, lease: int, fence: str = "") -> Any:
        operations = [rpc.RequestOp(request_put=self._put(key, text, lease))]
        return rpc.TxnRequest(
            compare=[self._compare(key, "CREATE", create_revision=0)],
            success=[*operations, self._operation(fence, "")] if fence else operations,
            failure=self._look_at(key),
        )

    def _compare(self, key: str, target: str, **value: int) -> Any:
        return rpc.Compare(
            result=rpc.Compare.EQUAL,
            target=rpc.Compare.CompareTarget.Value(target),
            key=self._key(key),
            **value,
        )

    def _look_at(self, key: str) -> list[Any]:
        return [rpc.RequestOp(request_range=self._range(one)) for one in (key, _FENCE + key)]

    def _open_channel(self) -> Any:
        if self._channel is None:
            target = self._endpoints[0]
            self._channel = (
                rpc.insecure_channel(target, options=CHANNEL_OPTIONS)
                if self._tls is None
                else rpc.secure_channel(target, self._tls.credentials(), options=CHANNEL_OPTIONS)
            )
        return self._channel

    async def _call(self, service: str, method: str, request: Any) -> Any:
        async def call(stub: Any) -> Any:
            return await getattr(stub, method)(request, timeout=self._timeout)

        response = await self._run(service, call)
        self._check_cluster(response)
        return response

    async def _run(self, service: str, call: Any) -> Any:
        """Tries one member after another, each once. Every request here may be made twice."""
        errors: list[ConsensusError] = []
        for _ in self._endpoints:
            channel = self._open_channel()
            try:
                return await call(getattr(rpc, f"{service}Stub")(channel))
            except rpc.AioRpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    raise LeaseLost("etcd does not know this controller's lease any more") from None
                errors.append(self._explain(error))
                await self._next_member(channel)
            except asyncio.CancelledError:
                if not self._left(channel):
                    raise
                errors.append(self._closed())
        # The error of a member that answers says more than that of one that does not.
        raise next((one for one in errors if not isinstance(one, StoreUnreachable)), errors[0])

    async def _next_member(self, channel: Any) -> None:
        if self._channel is channel:
            self._channel = None
            self._endpoints.append(self._endpoints.pop(0))
            await channel.close()

    def _left(self, channel: Any) -> bool:
        """True if a call was cancelled since its channel was closed for the next member, and not its task."""
        task = asyncio.current_task()
        return self._channel is not channel and task is not None and not task.cancelling()

    def _closed(self) -> StoreUnreachable:
        return StoreUnreachable(f"the connection to etcd at {self._names} was closed")

    def _check_cluster(self, response: Any) -> None:
        cluster_id = response.header.cluster_id
        if self._cluster_id and cluster_id != self._cluster_id:
            raise ForeignStore(
                f"etcd at {self._names}: its members are of two clusters, {self._cluster_id:x} and "
                f"{cluster_id:x}"
            )
        self._cluster_id = cluster_id

    def _explain(self, error: Any) -> ConsensusError:
        code, details = error.code(), (error.details() or "").strip()
        where = f"etcd at {self._names}"
        status = grpc.StatusCode
        if code in (status.UNAUTHENTICATED, status.PERMISSION_DENIED) or _NO_USER in details:
            return StoreRefused(
                f"{where} does not allow it: {details}; controllers sign in by certificate: storeCertPath"
            )
        if code == status.UNAVAILABLE and "etcdserver" not in details:
            if self._tls is not None and any(mark in details.lower() for mark in _TLS_MARKS):
                return StoreUntrusted(
                    f"{where}: no TLS connection; check storeCaPath and storeCertPath: {details}"
                )
            return StoreUnreachable(f"{where} cannot be reached: {details}")
        if code in (status.UNAVAILABLE, status.DEADLINE_EXCEEDED):
            return NoMajority(f"{where} has no majority, or is too slow: {details}")
        return ConsensusError(f"{where}: {code.name}: {details}")


def _end(start: bytes) -> bytes:
    """The end of the range of all keys that begin with `start`."""
    return start[:-1] + bytes((start[-1] + 1,))
