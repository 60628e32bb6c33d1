"""Requests that a master refuses while it hears no controller: they change what is in no log.

That all who may be elected hold a message says nothing of locks, resets and tables: the next master may have
given the same lock to somebody else, or never hear of the change.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from orbitmq.broker.role.state import RoleState
from orbitmq.handling.call import Call, Result
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import (
    SwitchTimerEngine,
    UpdateBrokerConfig,
)
from orbitmq.protocol.requests.auth import (
    AuthCreateAcl,
    AuthCreateUser,
    AuthDeleteAcl,
    AuthDeleteUser,
    AuthUpdateAcl,
    AuthUpdateUser,
)
from orbitmq.protocol.requests.group import (
    DeleteSubscriptiongroup,
    DeleteSubscriptionGroupList,
    UpdateAndCreateSubscriptiongroup,
    UpdateAndCreateSubscriptiongroupList,
    UpdateAndGetGroupForbidden,
)
from orbitmq.protocol.requests.lock import LockBatchMq
from orbitmq.protocol.requests.offset import CloneGroupOffset, InvokeBrokerToResetOffset
from orbitmq.protocol.requests.pop import SetMessageRequestMode
from orbitmq.protocol.requests.topic import (
    DeleteTopicInBroker,
    DeleteTopicInBrokerList,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)

REFUSED_WHILE_BLIND = (
    LockBatchMq,
    InvokeBrokerToResetOffset,
    CloneGroupOffset,
    UpdateBrokerConfig,
    SwitchTimerEngine,
    SetMessageRequestMode,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
    DeleteTopicInBroker,
    DeleteTopicInBrokerList,
    UpdateAndCreateSubscriptiongroup,
    UpdateAndCreateSubscriptiongroupList,
    DeleteSubscriptiongroup,
    DeleteSubscriptionGroupList,
    UpdateAndGetGroupForbidden,
    AuthCreateUser,
    AuthUpdateUser,
    AuthDeleteUser,
    AuthCreateAcl,
    AuthUpdateAcl,
    AuthDeleteAcl,
)


def refused_while_blind(since_ms: int | None, what: str) -> Refused:
    """The refusal of what needs a controller that answers; `what` says in the sentence what that is."""
    since = datetime.fromtimestamp((since_ms or 0) / 1000, UTC).isoformat(timespec="seconds")
    return Refused(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"no controller has answered this master since {since}: {what}. Start the controllers, or their "
        "consensus store, again",
    )


def refuse(role: RoleState, call: Call[Any], now: int) -> Result:
    """Handles such a request."""
    what = "locks, resets and changes of options and tables are refused meanwhile"
    raise refused_while_blind(role.blind_since, what)
