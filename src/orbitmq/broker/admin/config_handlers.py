"""The broker's options, asked for and changed."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.admin.options import AdminOptions
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.role import (
    ASYNC_MASTER,
    CHANGE_TIMEOUT_MS,
    SLAVE,
    SYNC_MASTER,
    Role,
    RoleChange,
    RoleRequests,
)
from orbitmq.broker.role.state import RoleState
from orbitmq.handling.call import Call, Outcome, Result, Wait
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.handling.option_updates import parse_update, update_errors_refused
from orbitmq.handling.saving import after_saving
from orbitmq.options.errors import InvalidValue, RefusedValue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import BrokerConfigReply, GetBrokerConfig, UpdateBrokerConfig
from orbitmq.protocol.schema.declare import Reply, Void

ROLES = (ASYNC_MASTER, SYNC_MASTER, SLAVE)


@dataclass(slots=True)
class ConfigTables:
    """The options, and the topics whose registration one of them shows in."""

    settings: AdminOptions
    config: BrokerConfig
    topics: TopicTable
    dirty_tables: DirtyTables
    role: RoleState
    role_requests: RoleRequests


@handlers(GetBrokerConfig)
def get_broker_config(tables: ConfigTables, call: Call[GetBrokerConfig], now: int) -> Reply:
    """Every option as a line, sorted by name."""
    text = "".join(f"{name}={value}\n" for name, value in tables.config.properties().items())
    return BrokerConfigReply(version=tables.config.version.to_json_text(), body=text.encode())


@handlers(UpdateBrokerConfig)
def update_broker_config(tables: ConfigTables, call: Call[UpdateBrokerConfig], now: int) -> Result:
    """Changes options: all that the request names, or none, and none where one has no such name."""
    body = call.request.body
    if body is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, "string2Properties error")
    black_list = tables.settings.config_black_list
    with update_errors_refused(black_list):
        properties = parse_update(body)
        change = _role_change(tables, properties)
        if change is not None:
            return _after_change(tables, change, now)
        changed = tables.config.update(properties, black_list, now)
    if "brokerPermission" in changed:
        tables.topics.announce_all(now)
    return after_saving(tables.dirty_tables, Void(), now, tables.config.NAME)


def _role_change(tables: ConfigTables, properties: dict[str, str]) -> RoleChange | None:
    """The change of role that an update asks for; None where it asks for none.

    Raises RefusedValue for a role without its id, and for other options beside it.
    """
    wanted = properties.get("brokerRole")
    if wanted not in ROLES or "brokerRole" in tables.settings.config_black_list.split(";"):
        return None  # none, or one that the table refuses
    if (wanted == SLAVE) is (tables.role.current is Role.SLAVE) and not tables.role.is_fenced:
        return None  # between the two kinds of masters
    others = sorted(properties.keys() - {"brokerRole", "brokerId"})
    if others:
        raise RefusedValue("brokerRole", wanted, f"change {others[0]} by an update of its own", "update")
    text = properties.get("brokerId", "0" if wanted != SLAVE else str(tables.role.slave_id))
    if not (text.isdigit() and text.isascii()):
        raise InvalidValue("brokerId", text, "a number", "update")
    role = Role.SLAVE if wanted == SLAVE else Role.MASTER
    change = RoleChange(role, int(text), wanted == SYNC_MASTER, hands_over=True)
    change.check()
    return change


def _after_change(tables: ConfigTables, change: RoleChange, now: int) -> Wait:
    requested = tables.role_requests.ask(change)

    def changed(outcome: Outcome, later: int) -> Result:
        if outcome.timed_out:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the change of role has not ended after {CHANGE_TIMEOUT_MS} ms: the broker's log says more",
            )
        if requested.error is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the role was not changed: {requested.error}")
        return after_saving(tables.dirty_tables, Void(), later, tables.config.NAME)

    return Wait((requested.done,), now + CHANGE_TIMEOUT_MS, changed)
