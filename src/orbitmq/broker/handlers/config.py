"""The broker's options, asked for and changed (broker behaviour, section 11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.handlers import handlers
from orbitmq.broker.topics import TopicTable
from orbitmq.broker.unsaved import Unsaved
from orbitmq.options.errors import NotAtRunTime, OptionError
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.call import Call, Result
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.declare import Reply, Void
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import BrokerConfigReply, GetBrokerConfig, UpdateBrokerConfig
from orbitmq.protocol.saving import after_saving

MAX_UPDATE_BYTES = 1 << 16


class ConfigSettings(Protocol):
    """What the broker's options say about changing them."""

    @property
    def config_black_list(self) -> str: ...


@dataclass(slots=True)
class ConfigTables:
    """The options, and the topics whose registration one of them shows in."""

    settings: ConfigSettings
    config: BrokerConfig
    topics: TopicTable
    unsaved: Unsaved


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
    if len(body) > MAX_UPDATE_BYTES:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"more than {MAX_UPDATE_BYTES} bytes of options")
    black_list = tables.settings.config_black_list
    try:
        properties = parse_properties(bytes(body), "update")
        changed = tables.config.update(properties, black_list, now)
    except NotAtRunTime as error:
        if set(error.names) & set(black_list.split(";")):
            raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.") from None
        raise Refused(ResponseCode.NO_PERMISSION, str(error)) from None
    except OptionError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
    if "brokerPermission" in changed:
        tables.topics.announce_all(now)
    return after_saving(tables.unsaved, Void(), now, tables.config.NAME)
