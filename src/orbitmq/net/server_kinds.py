"""The kind of server that answers at an address: a name server, a broker or a controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, MalformedReply
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.controller import ControllerGetMetadataInfo
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.protocol.schema.declare import Request

NAME_SERVER, BROKER, CONTROLLER = "a name server", "a broker", "a controller"
_ASKED: tuple[tuple[str, type[Request[Any]]], ...] = (
    (NAME_SERVER, GetBrokerClusterInfo),
    (BROKER, GetBrokerRuntimeInfo),
    (CONTROLLER, ControllerGetMetadataInfo),
)
"""A request that servers of one kind alone serve, or refuse for another reason than not to know it."""


NOT_FOR_IT = frozenset({ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.NO_PERMISSION})
"""Answers to a request for a server of another kind."""


class WrongServer(NetError):
    """Another kind of server answers than the one that was meant."""

    def __init__(self, address: str, found: str, wanted: str) -> None:
        super().__init__(f"{address} is the port of {found}, and {wanted} is meant: {_WHERE[wanted]}")
        self.address = address
        self.found = found


_WHERE = {
    NAME_SERVER: "name servers listen on 9876 by default (--namesrv, NAMESRV_ADDR)",
    BROKER: "brokers listen on 10911 by default",
    CONTROLLER: "controllers listen on 19876 by default (--controller)",
}


_SERVED_BY = {"namesrv": NAME_SERVER, "broker": BROKER, "controller": CONTROLLER}


async def wrong_server(
    pool: ConnectionPool, address: str, request: Request[Any], timeout_ms: float
) -> WrongServer | None:
    """The error of a request that a server does not know because it is one of another kind; else None."""
    meant = [kind for name, kind in _SERVED_BY.items() if name in request.SERVED_BY]
    found = await kind_of_server(pool, address, timeout_ms, likely=meant)
    return (
        WrongServer(address, found, meant[0]) if found is not None and meant and found not in meant else None
    )


async def kind_of_server(
    pool: ConnectionPool, address: str, timeout_ms: float, likely: Sequence[str] = ()
) -> str | None:
    """The kind of the server at an address; None if it is none of these, or does not answer.

    One that serves as several kinds is of the first of those in `likely`.
    """
    for kind, asked in sorted(_ASKED, key=lambda row: row[0] not in likely):
        try:
            await pool.call(address, asked(), timeout_ms)
        except BrokerRefused as error:
            # Name servers have no users: a broker with access control refuses before it looks at the code.
            if error.code in NOT_FOR_IT and (kind == NAME_SERVER or error.code != ResponseCode.NO_PERMISSION):
                continue
        except MalformedReply:
            continue
        except NetError:
            return None
        return kind
    return None
