"""A slave's look at its master's tables: at its start, every few seconds, and when the master has news."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from orbitmq.broker.broker import Broker
from orbitmq.broker.ha.following import Following
from orbitmq.broker.master_tables import MasterProgress, MasterTables
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.offset import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from orbitmq.protocol.errors import BrokerRefused, OrbitError, Refused
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo, GetTimerCheckPoint, GetTimerMetrics
from orbitmq.protocol.requests.auth import AuthListAcl, AuthListUser
from orbitmq.protocol.requests.group import GetAllSubscriptiongroupConfig
from orbitmq.protocol.requests.ha import ExchangeBrokerHaInfo
from orbitmq.protocol.requests.offset import GetAllConsumerOffset, GetAllDelayOffset, UpdateConsumerOffset
from orbitmq.protocol.requests.pop import GetAllMessageRequestMode
from orbitmq.protocol.requests.topic import GetAllTopicConfig
from orbitmq.protocol.schema.declare import Reply, Request
from orbitmq.store.timer.check_point import decode_fields

log = logging.getLogger(__name__)

TIMEOUT_MS = 10_000
UNKNOWN_MASTER_SECONDS = 0.5
HELD_CHECK_SECONDS = 0.2
GROUPING_SECONDS = 0.02
"""Changes within this time are taken over in one round."""
REST_SHARE = 4
"""A round is followed by a rest of so many times its own time: large tables may change all the time."""
ReplyT = TypeVar("ReplyT", bound=Reply)


def log_end_of(delay: str) -> int | None:
    """The end of the log of a master that sends it with its positions, as OrbitMQ's do. Raises
    MalformedJson.
    """
    return DelayOffsetSerializeWrapper.from_json(delay).log_end if delay else None


class MetadataSync:
    """Takes over the master's tables until its task ends. `after_step(now)` is called behind each round."""

    def __init__(
        self, broker: Broker, pool: ConnectionPool, now: Callable[[], int], after_step: Callable[[int], None]
    ) -> None:
        self._broker = broker
        self._pool = pool
        self._now = now
        self._after_step = after_step
        self._tables = MasterTables(broker)
        self._said = ""
        self._said_of_users = ""
        self._followed: Following | None = None
        """The connection on which the tables were taken over the last time."""
        self._news = asyncio.Event()

    async def run(self) -> None:
        """One round after another, while this broker follows the master's log. One that has restarted with
        an empty store would have the queues of all topics deleted.
        """
        while True:
            self._news.clear()
            address = self._broker.role.master_address
            if not address or self._verified() is None:
                await self._wait_for_news(UNKNOWN_MASTER_SECONDS)
                continue
            loop_time = asyncio.get_running_loop().time
            began = loop_time()
            try:
                await self.take(address)
                self._said = ""
            except Exception as error:
                self._tables.lost()
                if str(error) != self._said:
                    known = isinstance(error, (OrbitError, OSError))
                    log.warning(
                        "the tables of the master %s cannot be taken over: %s",
                        address,
                        error,
                        exc_info=None if known else error,
                    )
                self._said = str(error)
            rest = max(GROUPING_SECONDS, REST_SHARE * (loop_time() - began))
            await self._pause(rest, self._broker.settings.sync_broker_metadata_period / 1000)

    def look_soon(self) -> None:
        """Begins the next round now, or behind the rest that the last one is due."""
        self._news.set()

    async def _pause(self, rest: float, seconds: float) -> None:
        """Waits until the next round: with news for a rest, else for longer. Meanwhile the log may reach what
        the master has said of itself.
        """
        time, following = asyncio.get_running_loop().time, self._verified()
        rested, until = time() + rest, time() + max(rest, seconds)
        while (left := (rested if self._news.is_set() else until) - time()) > 0:
            try:
                is_applied = self._verified() is not following or self._apply_held()
            except (OrbitError, OSError) as error:
                log.warning("positions of the master cannot be taken over: %s", error)
                is_applied = True
            left = left if is_applied else min(left, HELD_CHECK_SECONDS)
            if self._news.is_set():
                await asyncio.sleep(left)
            else:
                await self._wait_for_news(left)

    async def _wait_for_news(self, seconds: float) -> None:
        """Returns with news, at the latest after a time."""
        # Before Python 3.12, `asyncio.wait_for` may take the end of its task for that of its time.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def _apply_held(self) -> bool:
        """Takes over what was held back, if all of it counts by now."""
        has_offsets = self._tables.apply_held_offsets(self._now())
        return self._tables.apply_held() and has_offsets

    def _verified(self) -> Following | None:
        """The connection to a master that continues where this log ends; None while there is none."""
        following = self._broker.replication.following
        return following if following is not None and following.is_verified else None

    async def take(self, address: str) -> None:
        """Takes over all tables once. Raises OrbitError, OSError; NetError where the connection of the log
        has ended meanwhile, for another process may have answered.
        """
        settings, following = self._broker.settings, self._verified()
        if following is not self._followed:
            self._tables.forget_held()
            self._followed = following
        version = None
        if settings.enable_controller_mode:
            version = (await self._call(address, ExchangeBrokerHaInfo())).table_version
        steps = [
            self._copy_topics,
            self._copy_groups,
            self._copy_positions,
            self._copy_modes,
            self._copy_timer_counts,
        ]
        if settings.authentication_enabled:
            steps.append(self._copy_users)
        failed: OrbitError | None = None
        for step in steps:
            try:
                await step(address)
            except NetError:
                raise
            except OrbitError as error:
                # One table that cannot be read does not keep the others from this slave.
                failed = failed or error
        if failed is not None:
            raise failed
        if version is not None:
            # The master answers changes of its tables once its slaves have reported this.
            role = self._broker.role
            taken = ExchangeBrokerHaInfo(
                broker_id=role.slave_id,
                table_version=version,
                known_epoch=role.epoch,
                may_be_blind=settings.enable_blind_master or None,
            )
            await self._call(address, taken)
        self._after_step(self._now())

    async def _call(self, address: str, request: Request[ReplyT]) -> ReplyT:
        """The master's answer. Raises NetError if this broker has begun to follow another log meanwhile."""
        reply = await self._pool.call(address, request, TIMEOUT_MS)
        if self._verified() is not self._followed:
            raise NetError("the master's log is not followed any more")
        return reply

    async def _copy_topics(self, address: str) -> None:
        asked_at = self._broker.store.max_physical
        topics = await self._call(address, GetAllTopicConfig())
        if topics.body is not None:
            self._tables.topics(topics.body, asked_at, self._now())

    async def _copy_groups(self, address: str) -> None:
        groups = await self._call(address, GetAllSubscriptiongroupConfig())
        if groups.body is not None:
            self._tables.groups(groups.body)

    async def _copy_positions(self, address: str) -> None:
        """Takes over offsets of groups, and how far timers and delay levels are."""
        tables, broker = self._tables, self._broker
        offsets = await self._call(address, GetAllConsumerOffset())
        asked_at = broker.store.max_physical
        timers = None
        if broker.settings.timer_wheel_enable:
            check_point = await self._call(address, GetTimerCheckPoint())
            timers = decode_fields(bytes(check_point.body or b""))
        delay = bytes((await self._call(address, GetAllDelayOffset())).body or b"").decode()
        log_end = log_end_of(delay)
        if log_end is None:
            info = (await self._call(address, GetBrokerRuntimeInfo())).body
            log_end = int((info.table or {}).get("commitLogMaxOffset", 0))
        if offsets.body is not None:
            await self._pass_on_offsets(address, offsets.body)
            tables.offsets(offsets.body, log_end, self._now())
        if not broker.role.works_for_master:
            tables.progress(MasterProgress(timers, delay, asked_at, log_end))

    async def _pass_on_offsets(self, address: str, body: ConsumerOffsetSerializeWrapper) -> None:
        """Commits at the master what groups have committed here while it was away."""
        kept = self._broker.offsets.for_master
        for place, offset in self._tables.ahead_of_master(body).items():
            committed = kept.get(place)
            try:
                await self._call(address, UpdateConsumerOffset(*place, offset, logical=False))
            except BrokerRefused as error:
                log.warning(
                    "the master %s does not take the offset of %s on %s: %s", address, *place[:2], error
                )
            if kept.get(place) == committed:
                kept.pop(place, None)

    async def _copy_modes(self, address: str) -> None:
        modes = await self._call(address, GetAllMessageRequestMode())
        if modes.body is not None:
            self._tables.modes(modes.body)

    async def _copy_timer_counts(self, address: str) -> None:
        if self._broker.settings.timer_wheel_enable:
            metrics = await self._call(address, GetTimerMetrics())
            if metrics.body:
                self._tables.timer_metrics(bytes(metrics.body).decode())

    async def _copy_users(self, address: str) -> None:
        """Takes over users and rules. A master that gives none leaves those that are here."""
        try:
            users = (await self._pool.call(address, AuthListUser(), TIMEOUT_MS)).body
            acls = (await self._pool.call(address, AuthListAcl(), TIMEOUT_MS)).body
            unusable = self._tables.users(
                users.users if users is not None else [], acls.acls if acls is not None else []
            )
            said = ""
            if unusable:
                said = (
                    f"it does not show the secrets of {', '.join(sorted(unusable))}: set "
                    "authSecretsShownTo=superUsers and authenticationEnabled=true there, and "
                    "innerClientAuthenticationCredentials here"
                )
        except (BrokerRefused, Refused) as error:
            said = f"{error}; set innerClientAuthenticationCredentials of a super user of the master"
        if said and said != self._said_of_users:
            log.warning("users of the master %s cannot be taken over: %s", address, said)
        self._said_of_users = said
