"""The KV configuration, and the name server's own options."""

from __future__ import annotations

from orbitmq.nameserver.options import NAMESRV_OPTIONS, NEVER_OVER_THE_NETWORK
from orbitmq.nameserver.tables import ConfigTables, handles
from orbitmq.nameserver.unsaved import after_saving
from orbitmq.options import OptionError
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.call import Call, Result
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.declare import Blob, Reply, Void
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.route import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvlistByNamespace,
    GetNamesrvConfig,
    KvConfigReply,
    KvListReply,
    PutKvConfig,
    UpdateNamesrvConfig,
)

OPTIONS_FILE = "namesrv.properties"
"""The table of options that were changed while the process runs, as `Unsaved` names it."""


@handles(PutKvConfig)
def put_kv_config(tables: ConfigTables, call: Call[PutKvConfig], now: int) -> Result:
    """Sets a value; answered once the file holds it."""
    request = call.request
    tables.kv.put(request.namespace, request.key, request.value)
    return after_saving(tables.unsaved, tables.kv.NAME, Void(), now)


@handles(GetKvConfig)
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


@handles(DeleteKvConfig)
def delete_kv_config(tables: ConfigTables, call: Call[DeleteKvConfig], now: int) -> Result:
    """Removes a value; answered once the file holds it no more."""
    tables.kv.delete(call.request.namespace, call.request.key)
    return after_saving(tables.unsaved, tables.kv.NAME, Void(), now)


@handles(GetKvlistByNamespace)
def get_kvlist_by_namespace(tables: ConfigTables, call: Call[GetKvlistByNamespace], now: int) -> Reply:
    """All values of a namespace."""
    values = tables.kv.namespace(call.request.namespace)
    if values is None:
        raise Refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {call.request.namespace}")
    return KvListReply(KVTable(dict(values)))


@handles(UpdateNamesrvConfig)
def update_namesrv_config(tables: ConfigTables, call: Call[UpdateNamesrvConfig], now: int) -> Result:
    """Sets options, all of the request or none; answered once the file holds them."""
    body = call.request.body
    if not body:
        return Void()
    settings = tables.settings
    try:
        properties = parse_properties(bytes(body), "update")
        forbidden = {*NEVER_OVER_THE_NETWORK.split(";"), *settings.config_black_list.split(";")}
        if not forbidden.isdisjoint(properties):
            raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        if NAMESRV_OPTIONS.apply_update(settings, properties):
            tables.unsaved.mark(OPTIONS_FILE)
    except OptionError as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return after_saving(tables.unsaved, OPTIONS_FILE, Void(), now)


@handles(GetNamesrvConfig)
def get_namesrv_config(tables: ConfigTables, call: Call[GetNamesrvConfig], now: int) -> Reply:
    """Every option and its value, a line each."""
    lines = [f"{name}={value}\n" for name, value in NAMESRV_OPTIONS.as_properties(tables.settings).items()]
    return Blob("".join(lines).encode())
