"""A connection for callers without an event loop: Spark's workers, scripts, probes.

One thread owns it. Requests may be sent ahead of their answers; a peer answers in any order, and whoever
asked keeps the `opaque` that `send` returns to tell the answers apart.
"""

from __future__ import annotations

import socket
import ssl as tls
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

from orbitmq.net.address import parse_address
from orbitmq.net.errors import CallTimeout, Closed, ConnectFailed, ConnectionLost, why_not_connected
from orbitmq.net.replies import read_reply
from orbitmq.net.strangers import UNANSWERED, other_protocol
from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames

if TYPE_CHECKING:
    from orbitmq.protocol.remoting.signing import Credentials
    from orbitmq.protocol.schema.declare import Reply, Request

ReplyT = TypeVar("ReplyT", bound="Reply")


class BlockingConnection:
    """A connection to `address` (`host:port`), open from the start. Raises ConnectFailed, BadAddress.

    After a timeout or an error the connection is closed: what the peer still sends would be taken for the
    answer to something else.
    """

    def __init__(
        self,
        address: str,
        *,
        connect_timeout_ms: int = 3000,
        ssl: tls.SSLContext | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        host, port = parse_address(address)
        self.address = address
        self._credentials = credentials
        self._opaque = 0
        try:
            connected = socket.create_connection((host, port), timeout=connect_timeout_ms / 1000)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if ssl is not None:
                connected = ssl.wrap_socket(connected, server_hostname=host)
        except TimeoutError:
            raise ConnectFailed(address, f"no answer within {connect_timeout_ms} ms") from None
        except OSError as error:
            raise ConnectFailed(address, why_not_connected(error, is_tls=ssl is not None)) from None
        self._socket: socket.socket | None = connected
        self._reader = connected.makefile("rb")
        self._closed_by_peer = "closed by peer" if ssl is not None else UNANSWERED

    @property
    def is_closed(self) -> bool:
        """True once it can no longer be used."""
        return self._socket is None

    def send(self, request: Request[Any]) -> int:
        """Sends a request and returns at once; the answer will carry the returned `opaque`."""
        if self._socket is None:
            raise Closed(f"the connection to {self.address} is closed")
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        command = request.to_command(self._opaque)
        if self._credentials is not None:
            self._credentials.sign(command)
        try:
            self._socket.sendall(encode_command(command))
        except OSError as error:
            self.close()
            raise ConnectionLost(self.address, error.strerror or str(error)) from None
        return self._opaque

    def receive(self, timeout_ms: float) -> Command:
        """The next answer, whichever request it belongs to; what the peer asks of us is passed over.

        Raises CallTimeout, ConnectionLost, MalformedFrame; the connection is closed then.
        """
        if self._socket is None:
            raise Closed(f"the connection to {self.address} is closed")
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            while True:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                command = self._read_frame()
                if command.is_response:
                    return command
        except TimeoutError:
            self.close()
            raise CallTimeout(self.address, "the requests under way", timeout_ms) from None
        except OSError as error:
            self.close()
            raise ConnectionLost(self.address, error.strerror or str(error)) from None
        except (ConnectionLost, MalformedFrame):
            self.close()
            raise

    def call(self, request: Request[ReplyT], timeout_ms: float = 3000) -> ReplyT:
        """One request and its typed reply; nothing else may be under way.

        Raises BrokerRefused (with the protocol's code) for an answer that is an error, MalformedReply,
        and what `send` and `receive` raise.
        """
        opaque = self.send(request)
        while True:
            answer = self.receive(timeout_ms)
            if answer.opaque == opaque:
                return read_reply(request, answer, self.address)

    def _read_frame(self) -> Command:
        word = self._read(4)
        length = int.from_bytes(word, "big")
        if not 4 <= length <= MAX_FRAME_BYTES - 4:
            spoken = other_protocol(word)
            if spoken:
                raise ConnectionLost(self.address, spoken)
            raise MalformedFrame(f"frame length {length} is outside 4..{MAX_FRAME_BYTES - 4} bytes")
        commands, _ = decode_frames(word + self._read(length), MAX_FRAME_BYTES)
        return commands[0]

    def _read(self, size_bytes: int) -> bytes:
        data = self._reader.read(size_bytes)
        if len(data) < size_bytes:
            raise ConnectionLost(self.address, self._closed_by_peer)
        self._closed_by_peer = "closed by peer"
        return data

    def close(self) -> None:
        """Ends the connection; closing twice does nothing."""
        connected, self._socket = self._socket, None
        if connected is not None:
            self._reader.close()
            connected.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
