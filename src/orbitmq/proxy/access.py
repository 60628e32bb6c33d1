"""Access control of the proxy: signatures of clients, and their rights by the users and rules of brokers.

A call is signed with HMAC-SHA1 over its time, as Apache's clients do. The brokers see the proxy's own user;
so the proxy asks the rules of the caller's user for what the caller wants to do.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from orbitmq.broker.auth.handlers import policies_of
from orbitmq.broker.auth.policies import (
    Access,
    Action,
    Decision,
    Rules,
    UserStatus,
    UserType,
    by_name,
    group_access,
    topic_access,
)
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.auth import Acl, UserInfo
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.auth import AuthGetAcl, AuthGetUser
from orbitmq.proxy.cached import Cached
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.wire import messaging_pb2 as pb

_PUB, _SUB = frozenset({Action.PUB}), frozenset({Action.SUB})
_EITHER = _PUB | _SUB
_TIME_FORMAT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class KnownUser:
    """A user of the brokers, with its rules."""

    info: UserInfo
    rules: Rules

    @property
    def is_super(self) -> bool:
        """True for a user who may do everything."""
        return by_name(UserType, self.info.user_type) is UserType.SUPER


class AccessControl:
    """Checks calls where `authenticationEnabled` is set; else it lets all of them pass."""

    def __init__(self, cluster: Cluster, settings: ProxySettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._users = Cached(
            self._look_up,
            settings.user_cache_refresh_seconds,
            settings.user_cache_max_num,
        )

    async def check(self, request: Any, caller: Caller) -> None:
        """Raises ProxyRefused (UNAUTHORIZED) for a call without a valid signature, or without the right."""
        if not self._settings.authentication_enabled:
            return
        user = await self._authenticated(caller)
        if not self._settings.authorization_enabled or user.is_super:
            return
        source = ipaddress.ip_address(caller.host.rpartition(":")[0].strip("[]"))
        for wanted in accesses(request):
            if user.rules.decide(wanted, source) is not Decision.ALLOW:
                raise ProxyRefused(
                    pb.UNAUTHORIZED, f"User:{user.info.username} has no permission to access {wanted}"
                )

    async def check_operator(self, caller: Caller) -> None:
        """Raises ProxyRefused (UNAUTHORIZED) for a call that no super user has signed."""
        if not self._settings.authentication_enabled:
            return
        user = await self._authenticated(caller)
        if not user.is_super:
            raise ProxyRefused(pb.UNAUTHORIZED, f"User:{user.info.username} is no super user")

    async def _authenticated(self, caller: Caller) -> KnownUser:
        given = read_authorization(caller.authorization)
        if given is None:
            raise ProxyRefused(pb.UNAUTHORIZED, "the call is not signed: give access key and secret key")
        name, signature = given
        self._check_age(caller.date_time)
        user = await self._users.get(name)
        if by_name(UserStatus, user.info.user_status) is UserStatus.DISABLE:
            raise ProxyRefused(pb.UNAUTHORIZED, f"User:{name} is disabled")
        secret = (user.info.password or "").encode()
        wanted = hmac.digest(secret, caller.date_time.encode(), "sha1").hex()
        if not secret or not hmac.compare_digest(wanted, signature.lower()):
            raise ProxyRefused(pb.UNAUTHORIZED, "the signature of the call is wrong")
        return user

    def _check_age(self, date_time: str) -> None:
        """A signature covers the time alone, so one that was overheard is of use for a while only."""
        limit_s = self._settings.signature_max_age_seconds
        if not limit_s:
            return
        try:
            signed = datetime.strptime(date_time, _TIME_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            raise ProxyRefused(pb.UNAUTHORIZED, "the header x-mq-date-time is no time") from None
        if abs((datetime.now(UTC) - signed).total_seconds()) > limit_s:
            raise ProxyRefused(
                pb.UNAUTHORIZED, f"the call was signed more than {limit_s} s ago, or in the future"
            )

    async def _look_up(self, name: str) -> KnownUser:
        failure: Exception | None = None
        for address in (await self._cluster.masters()).values():
            try:
                info = (await self._cluster.call(address, AuthGetUser(name))).body
                if info is None:
                    continue
                acl = (await self._cluster.call(address, AuthGetAcl(f"User:{name}"))).body
            except (NetError, BrokerRefused) as error:
                failure = error
                continue
            policies = policies_of([acl]).get(name, []) if acl is not None else []
            return KnownUser(info, Rules(Acl(policies=policies)))
        if failure is not None:
            raise failure
        raise ProxyRefused(pb.UNAUTHORIZED, f"User:{name} not found")


def read_authorization(text: str) -> tuple[str, str] | None:
    """The access key and the signature of an `authorization` header; None without both."""
    parts = {
        name.strip(): value.strip()
        for name, _, value in (item.partition("=") for item in text.partition(" ")[2].split(","))
    }
    key, signature = parts.get("Credential", "").partition("/")[0], parts.get("Signature", "")
    return (key, signature) if key and signature else None


def accesses(request: Any) -> Iterator[Access]:
    """The rights that a call needs."""
    match request:
        case pb.SendMessageRequest():
            for topic in {message.topic.name for message in request.messages}:
                yield topic_access(topic, _PUB)
        case pb.RecallMessageRequest() | pb.EndTransactionRequest():
            yield topic_access(request.topic.name, _PUB)
        case pb.QueryRouteRequest():
            yield topic_access(request.topic.name, _EITHER)
        case pb.ReceiveMessageRequest() | pb.PullMessageRequest():
            yield group_access(request.group.name, _SUB)
            yield topic_access(request.message_queue.topic.name, _SUB)
        case (
            pb.SyncLiteSubscriptionRequest()
            | pb.AckMessageRequest()
            | pb.ForwardMessageToDeadLetterQueueRequest()
            | pb.QueryAssignmentRequest()
            | pb.ChangeInvisibleDurationRequest()
        ):
            yield group_access(request.group.name, _SUB)
            yield topic_access(request.topic.name, _SUB)
        case pb.UpdateOffsetRequest() | pb.GetOffsetRequest():
            yield group_access(request.group.name, _SUB)
            yield topic_access(request.message_queue.topic.name, _SUB)
        case pb.QueryOffsetRequest():
            yield topic_access(request.message_queue.topic.name, _SUB)
        case pb.HeartbeatRequest() | pb.NotifyClientTerminationRequest():
            if request.HasField("group") and request.group.name:
                yield group_access(request.group.name, _SUB)
        case pb.TelemetryCommand():
            yield from _of_settings(request.settings)


def _of_settings(settings: pb.Settings) -> Iterator[Access]:
    for topic in settings.publishing.topics:
        yield topic_access(topic.name, _PUB)
    if settings.WhichOneof("pub_sub") == "subscription":
        yield group_access(settings.subscription.group.name, _SUB)
        for entry in settings.subscription.subscriptions:
            yield topic_access(entry.topic.name, _SUB)
