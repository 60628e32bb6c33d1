"""TLS and plain connections on one port, told apart by their first byte.

A plain connection is a `Connection` on its transport from the first byte on, as on a port without TLS. One
that begins with a ClientHello gets a `TlsChannel` between the two, which does with `ssl.SSLObject` what
asyncio does for ports that know nothing but TLS: asyncio itself cannot start TLS behind bytes that have been
read already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from typing import Any, Protocol, cast

log = logging.getLogger(__name__)

CLIENT_HELLO = 0x16
"""The first byte of every TLS connection; of a plain one it would be a frame of 352 MiB or more."""
RECORD_BYTES = 16 << 10
ENCRYPT_BYTES = 256 << 10
"""Encrypted at a time: what one write hands to the transport."""


class Contexts(Protocol):
    """The source of TLS contexts, and whether plain connections are accepted."""

    @property
    def takes_plain(self) -> bool: ...

    def obtain(self, then: Callable[[ssl.SSLContext | None], None]) -> None:
        """Calls `then` on the loop, at once or later, with the context for a new connection.

        None: there is none to be had, as was logged.
        """


class Carried(Protocol):
    """A protocol of a connection that continues over another transport, the encrypted one."""

    @property
    def address(self) -> str:
        """The peer's, `host:port`."""

    @property
    def is_closed(self) -> bool: ...

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, error: Exception | None) -> None: ...

    def change_transport(self, transport: asyncio.Transport) -> None:
        """Continues over another transport for the same peer."""

    def close(self, reason: str) -> None:
        """Ends the connection behind what waits to be sent."""

    def abort(self, reason: str) -> None:
        """Ends the connection at once."""


class FirstByte(asyncio.Protocol):
    """The first protocol of a connection on a port with TLS: the first byte selects TLS or plain."""

    def __init__(self, connection: Carried, contexts: Contexts) -> None:
        self._connection = connection
        self._contexts = contexts
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        connection, transport = self._connection, self._transport
        if data[0] == CLIENT_HELLO:
            transport.pause_reading()
            self._contexts.obtain(lambda context: self._start_tls(context, data))
        elif self._contexts.takes_plain:
            transport.set_protocol(cast("asyncio.Protocol", connection))
            connection.data_received(data)
        else:
            log.warning("closing %s: only TLS is taken here", connection.address)
            connection.abort("only TLS is taken")

    def _start_tls(self, context: ssl.SSLContext | None, data: bytes) -> None:
        connection, transport = self._connection, self._transport
        if connection.is_closed or transport.is_closing():
            return
        if context is None:
            connection.abort("no TLS to be had")
            return
        channel = TlsChannel(context, transport, connection)
        transport.set_protocol(channel)
        transport.resume_reading()
        channel.data_received(data)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)


class TlsChannel(asyncio.Transport, asyncio.Protocol):
    """The server's side of TLS: the protocol of a transport, and the transport of a connection."""

    def __init__(self, context: ssl.SSLContext, transport: asyncio.Transport, connection: Carried) -> None:
        super().__init__()
        self._transport = transport
        self._connection = connection
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = False
        self._is_broken = False
        self._early: list[bytes] = []
        """Written before the handshake was over."""
        connection.change_transport(self)

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        """Decrypts what came, and hands it on in one piece: what came together is handled together."""
        self._incoming.write(data)
        try:
            if not self._is_open and not self._shake_hands():
                return
            received, said_goodbye = self._decrypt()
        except ssl.SSLError as error:
            self._fail((error.reason or str(error)).replace("_", " ").lower())
            return
        self._send_out()
        if received:
            self._connection.data_received(received)
        if said_goodbye:
            self.close()

    def _fail(self, reason: str) -> None:
        log.warning("closing %s: TLS failed: %s", self._connection.address, reason)
        self._is_broken = True
        self._send_out()  # the alert that gives the peer the reason
        if self._transport.get_write_buffer_size():
            self._connection.abort(f"TLS failed: {reason}")  # one that does not read is not waited for
        else:
            self._connection.close(f"TLS failed: {reason}")

    def _shake_hands(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self._send_out()
            return False
        self._is_open = True
        early, self._early = self._early, []
        for piece in early:
            self.write(piece)
        return True

    def _decrypt(self) -> tuple[bytes, bool]:
        """The decrypted bytes, and true if the peer has ended the stream."""
        pieces = []
        said_goodbye = False
        try:
            # To ask once more than there is something takes as long as to decrypt a small record.
            while self._incoming.pending or self._object.pending():
                piece = self._object.read(RECORD_BYTES)
                if not piece:
                    said_goodbye = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            said_goodbye = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), said_goodbye

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def eof_received(self) -> bool | None:
        return self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)

    # Called by the connection.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypts and sends; `data` may change afterwards."""
        if self._is_broken or self._transport.is_closing():
            return
        if not self._is_open:
            self._early.append(bytes(data))
            return
        with memoryview(data) as view:
            for start in range(0, len(view), ENCRYPT_BYTES):
                with view[start : start + ENCRYPT_BYTES] as piece:
                    done = 0
                    while done < len(piece):
                        done += self._object.write(piece[done:])
                self._send_out()

    def _send_out(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def close(self) -> None:
        """Says goodbye, and closes once that has left."""
        if self._is_open and not self._is_broken and not self._transport.is_closing():
            with contextlib.suppress(ssl.SSLError):  # the peer's own goodbye is not waited for
                self._object.unwrap()
            self._send_out()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._object if name == "ssl_object" else self._transport.get_extra_info(name, default)
