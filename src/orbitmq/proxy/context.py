"""The caller of a request, as the metadata of its call names it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

from orbitmq.protocol.remoting.command import LANGUAGE_CODES
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.wire import messaging_pb2 as pb

MAX_CLIENT_ID_CHARACTERS = 255
"""Longer ids of clients are refused: each is kept while its client is connected."""

_LANGUAGES = {**{name: name for name in LANGUAGE_CODES}, "DOT_NET": "DOTNET", "GOLANG": "GO"}


@dataclass(frozen=True, slots=True)
class Caller:
    """One client: what it says of itself, and where it is."""

    client_id: str
    language: str
    """A name of the remoting protocol, such as JAVA."""
    version: str
    host: str
    """Address and port, `host:port`."""
    deadline_ms: float | None
    """Time (ms) that the call has left; None without a limit."""
    date_time: str = ""
    authorization: str = ""

    @property
    def knows_polling_time(self) -> bool:
        """False for clients before 5.0.3, which do not know the code ILLEGAL_POLLING_TIME."""
        numbers = [int(part) for part in self.version.split(".")[:3] if part.isdigit()]
        return not numbers or numbers >= [5, 0, 3]


Answer: TypeAlias = Callable[[Any, Caller], Awaitable[Any]]
"""Answers a call of one caller."""


def without_caller(answer: Callable[[Any], Awaitable[Any]]) -> Answer:
    """An answer that is the same for every caller."""
    return lambda request, caller: answer(request)


def read_caller(
    metadata: Iterable[tuple[str, str | bytes]], host: str, seconds_left: float | None, unnamed: str = ""
) -> Caller:
    """The caller of a call, with the id `unnamed` if it has none. Raises ProxyRefused for no id at all."""
    values = {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in metadata
    }
    client_id = values.get("x-mq-client-id") or unnamed
    if not client_id:
        raise ProxyRefused(pb.CLIENT_ID_REQUIRED, "the call has no header x-mq-client-id")
    if len(client_id) > MAX_CLIENT_ID_CHARACTERS:
        raise ProxyRefused(
            pb.CLIENT_ID_REQUIRED, f"the client id is longer than {MAX_CLIENT_ID_CHARACTERS} characters"
        )
    return Caller(
        client_id,
        _LANGUAGES.get(values.get("x-mq-language", ""), "OTHER"),
        values.get("x-mq-client-version", ""),
        host,
        None if seconds_left is None else seconds_left * 1000,
        values.get("x-mq-date-time", ""),
        values.get("authorization", ""),
    )


def host_of(peer: str) -> str:
    """`host:port` of gRPC's name of a peer, such as `ipv4:127.0.0.1:40000` or `ipv6:%5B::1%5D:40000`."""
    _, _, address = unquote(peer).partition(":")
    return address or peer
