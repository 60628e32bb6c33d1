"""Requests of a broker to its controllers: the one that leads is asked, and found where it is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.controller import ControllerGetMetadataInfo
from orbitmq.protocol.requests.ha import BrokerHeartbeat
from orbitmq.protocol.schema.declare import Reply, Request, Void

ReplyT = TypeVar("ReplyT", bound=Reply)


class NoController(OrbitError):
    """None of the controllers leads, or none can be reached."""


class ControllerClient:
    """Asks the controller that leads. Times are in ms."""

    def __init__(self, addresses: Sequence[str], pool: ConnectionPool, timeout_ms: float) -> None:
        self._addresses = list(addresses)
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._leader: str | None = None

    async def call(self, request: Request[ReplyT]) -> ReplyT:
        """One question to the leader. Raises NoController, NetError, BrokerRefused."""
        leader = self._leader or await self._find()
        try:
            return await self._pool.call(leader, request, self._timeout_ms)
        except NetError:
            self._leader = None
            raise
        except BrokerRefused as refused:
            if refused.code != ResponseCode.CONTROLLER_NOT_LEADER:
                raise
            self._leader = None
            leader = await self._find()
            return await self._pool.call(leader, request, self._timeout_ms)

    async def beat(self, heartbeat: BrokerHeartbeat) -> Void:
        """Tells all controllers that the broker lives; gives the leader's answer. Raises what `call` does.

        Each controller keeps its own list of the living, and may lead the next moment.
        """
        leader = self._leader or await self._find()
        others = [address for address in self._addresses if address != leader]
        answer, *_ = await asyncio.gather(
            self.call(heartbeat),
            *(self._pool.send_oneway(address, heartbeat, self._timeout_ms) for address in others),
            return_exceptions=True,
        )
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    async def _find(self) -> str:
        reasons: list[str] = []
        for address in self._addresses:
            try:
                reply = await self._pool.call(address, ControllerGetMetadataInfo(), self._timeout_ms)
            except OrbitError as error:
                reasons.append(str(error))
                continue
            if reply.controller_leader_address:
                self._leader = reply.controller_leader_address
                return self._leader
            reasons.append(f"{address} knows of no leader")
        raise NoController("; ".join(reasons))
