"""The KV configuration, and the name server's own options."""

from __future__ import annotations

from orbitmq.handling.call import Call, Result
from orbitmq.handling.option_updates import parse_update, update_errors_refused
from orbitmq.handling.saving import after_saving
from orbitmq.nameserver.limits import LimitReached
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.nameserver.tables import ConfigTables, handlers
from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.route import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvlistByNamespace,
    GetNamesrvConfig,
    KvConfigReply,
    PutKvConfig,
    UpdateNamesrvConfig,
)
from orbitmq.protocol.schema.declare import Blob, JsonReply, Reply, Void

NEVER_OVER_THE_NETWORK = "configBlackList;configStorePath;kvConfigPath;rocketmqHome"
"""Options that UPDATE_NAMESRV_CONFIG never changes, whatever the black list says: they would move files."""
OPTIONS_FILE = "namesrv.properties"
"""The table of options that were changed while the process runs, as `DirtyTables` names it."""


@handlers(PutKvConfig)
def put_kv_config(tables: ConfigTables, call: Call[PutKvConfig], now: int) -> Result:
    """Sets a value; answered once the file holds it."""
    request = call.request
    try:
        host = call.peer.address.rpartition(":")[0]
        tables.kv.put(request.namespace, request.key, request.value, host)
    except LimitReached as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return after_saving(tables.dirty_tables, Void(), now, tables.kv.NAME)


@handlers(GetKvConfig)
def get_kv_config(tables: ConfigTables, call: Call[GetKvConfig], now: int) -> Reply:
    """One value."""
    request = call.request
    value = tables.kv.get(request.namespace, request.key)
    if value is None:
        raise Refused(
            ResponseCode.QUERY_NOT_FOUND,
            f"No config item, Namespace: {request.namespace} Key: {request.key}",
        )
    return KvConfigReply(value)


@handlers(DeleteKvConfig)
def delete_kv_config(tables: ConfigTables, call: Call[DeleteKvConfig], now: int) -> Result:
    """Removes a value; answered once the file holds it no more."""
    tables.kv.delete(call.request.namespace, call.request.key)
    return after_saving(tables.dirty_tables, Void(), now, tables.kv.NAME)


@handlers(GetKvlistByNamespace)
def get_kvlist_by_namespace(tables: ConfigTables, call: Call[GetKvlistByNamespace], now: int) -> Reply:
    """All values of a namespace."""
    values = tables.kv.namespace(call.request.namespace)
    if values is None:
        raise Refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {call.request.namespace}")
    return JsonReply(KVTable(dict(values)))


@handlers(UpdateNamesrvConfig)
def update_namesrv_config(tables: ConfigTables, call: Call[UpdateNamesrvConfig], now: int) -> Result:
    """Sets options, all of the request or none; answered once the file holds them."""
    body = call.request.body
    if not body:
        return Void()
    black_list = f"{NEVER_OVER_THE_NETWORK};{tables.settings.config_black_list}"
    with update_errors_refused(black_list):
        properties = parse_update(body)
        if NAMESRV_TABLE.apply_update(tables.settings, properties, black_list):
            tables.dirty_tables.mark(OPTIONS_FILE)
    return after_saving(tables.dirty_tables, Void(), now, OPTIONS_FILE)


@handlers(GetNamesrvConfig)
def get_namesrv_config(tables: ConfigTables, call: Call[GetNamesrvConfig], now: int) -> Reply:
    """Every option and its value, a line each."""
    lines = [f"{name}={value}\n" for name, value in NAMESRV_TABLE.as_properties(tables.settings).items()]
    return Blob("".join(lines).encode())
