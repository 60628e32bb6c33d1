"""Controller mode: the epochs of the log, and the controller's notices."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.epochs import Epochs
from orbitmq.broker.role.options import ControllerModeOptions
from orbitmq.broker.role.role import RoleRequests
from orbitmq.broker.role.state import RoleState
from orbitmq.handling.call import Call
from orbitmq.protocol.bodies.ha import EpochEntry, EpochEntryCache
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.ha import GetBrokerEpochCache, NotifyBrokerRoleChanged
from orbitmq.protocol.schema.declare import JsonReply, Reply, Void
from orbitmq.store import MessageStore


@dataclass(slots=True)
class ControllerModeTables:
    """Tables that requests about controller mode look at and change."""

    identity: BrokerIdentity
    settings: ControllerModeOptions
    epochs: Epochs
    role: RoleState
    role_requests: RoleRequests
    store: MessageStore


def _need_controller_mode(settings: ControllerModeOptions) -> None:
    if not settings.enable_controller_mode:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "this broker has a fixed role: enableControllerMode is not set"
        )


@handlers(GetBrokerEpochCache)
def get_broker_epoch_cache(tables: ControllerModeTables, call: Call[GetBrokerEpochCache], now: int) -> Reply:
    """The epochs of this broker's log, each with its end."""
    _need_controller_mode(tables.settings)
    entries, end = tables.epochs.entries, tables.store.max_physical
    ends = [entry.start for entry in entries[1:]] + [end]
    identity = tables.identity
    return JsonReply(
        body=EpochEntryCache(
            identity.cluster,
            identity.name,
            identity.broker_id,
            [EpochEntry(*entry, upto) for entry, upto in zip(entries, ends, strict=False)],
            end,
        )
    )


@handlers(NotifyBrokerRoleChanged)
def notify_broker_role_changed(
    tables: ControllerModeTables, call: Call[NotifyBrokerRoleChanged], now: int
) -> Reply:
    """Has the controller asked for the role. Anybody may send a notice: it gives no role, and ends only that
    of a master that hears no controller.
    """
    _need_controller_mode(tables.settings)
    tables.role.note_epoch(call.request.master_epoch)
    tables.role_requests.has_news = True
    return Void()
