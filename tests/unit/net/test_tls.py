"""The server's side of TLS, byte by byte, on a transport that only writes down."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.net.connection import Connection
from orbitmq.net.tls import FirstByte
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.remoting.frame import FrameSplitter, encode_command
from tests.certificates import Authority, Pair

pytestmark = pytest.mark.needs("openssl")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Authority(tmp_path_factory.mktemp("authority")).issue("server")


class Paper(asyncio.Transport):
    """A transport that writes down what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.protocol: Any = None
        self.closed = False
        self.aborted = False

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def write(self, data: Any) -> None:
        assert not self.closed, "written to after the end"
        self.written += bytes(data)

    def take(self) -> bytes:
        written, self.written = self.written, b""
        return written

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("10.0.0.9", 4000), "sockname": ("10.0.0.1", 10911)}.get(name, default)


class Server:
    """A connection of a port that takes TLS; it answers every request with its own body."""

    def __init__(self, pair: Pair, *, takes_plain: bool = True) -> None:
        self.takes_plain = takes_plain
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.cert, pair.key)
        self.got: list[bytes] = []
        self.reads = 0
        self.connection = Connection(self._answer, on_frames=self._offered)
        self.offered: list[bytes] = []
        self.takes = 0
        """Of what it is offered to handle as frames."""
        self.paper = Paper()
        self.paper.protocol = FirstByte(self.connection, self)
        self.paper.protocol.connection_made(self.paper)
        self.later: Callable[[], None] | None = None
        self.makes_it_later = False

    def obtain(self, then: Callable[[ssl.SSLContext | None], None]) -> None:
        if self.makes_it_later:
            self.later = lambda: then(self._context)
        else:
            then(self._context)

    def _answer(self, connection: Connection, commands: list[Command]) -> None:
        self.reads += 1
        for command in commands:
            self.got.append(bytes(command.body or b""))
            connection.send(Command(0, command.opaque, FLAG_RESPONSE, None, command.body))

    def _offered(self, connection: Connection, data: bytes) -> int:
        self.offered.append(data)
        return min(self.takes, len(data))

    def feed(self, data: bytes) -> None:
        if data:
            self.paper.protocol.data_received(data)


class Client:
    """The other end, which checks nothing."""

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self._in, self._out)
        self._splitter = FrameSplitter()

    def shake_hands(self, server: Server, step: int = 1 << 20) -> None:
        while True:
            try:
                self.object.do_handshake()
                break
            except ssl.SSLWantReadError:
                pass
            data = self.take()
            for start in range(0, len(data), step):
                server.feed(data[start : start + step])
            self._in.write(server.paper.take())
        server.feed(self.take())
        self._in.write(server.paper.take())

    def take(self) -> bytes:
        return self._out.read()

    def say(self, *bodies: bytes) -> bytes:
        for number, body in enumerate(bodies):
            self.object.write(encode_command(Command(10, number, body=body)))
        return self.take()

    def hear(self, data: bytes) -> list[bytes]:
        self._in.write(data)
        heard = b""
        try:
            while piece := self.object.read(1 << 20):
                heard += piece
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return [bytes(command.body or b"") for command in self._splitter.feed(heard)]


async def test_what_comes_in_one_read_is_handled_in_one_turn(pair: Pair) -> None:
    server, client = Server(pair), Client()
    client.shake_hands(server)
    bodies = [b"a" * 20_000, b"b", b"c" * 50_000]
    server.feed(client.say(*bodies))
    assert server.got == bodies
    assert server.reads == 1
    assert client.hear(server.paper.take()) == bodies


async def test_what_was_decrypted_may_be_handled_as_frames(pair: Pair) -> None:
    server, client = Server(pair), Client()
    client.shake_hands(server)
    frames = [encode_command(Command(10, number, body=bytes(20_000))) for number in range(3)]
    server.takes = len(frames[0])
    said = client.say(*[bytes(20_000)] * 3)
    server.feed(said)
    assert server.offered == [b"".join(frames), b"".join(frames[1:]), frames[2]]
    assert server.reads == 0


@pytest.mark.parametrize("step", [1, 7, 100])
async def test_bytes_may_come_in_any_pieces(pair: Pair, step: int) -> None:
    server, client = Server(pair), Client()
    client.shake_hands(server, step)
    said = client.say(b"x" * 300)
    for start in range(0, len(said), step):
        server.feed(said[start : start + step])
    assert client.hear(server.paper.take()) == [b"x" * 300]


async def test_the_certificate_may_come_later(pair: Pair) -> None:
    server, client = Server(pair), Client()
    server.makes_it_later = True
    with pytest.raises(ssl.SSLWantReadError):
        client.object.do_handshake()
    server.feed(client.take())
    assert server.paper.written == b""
    assert server.later is not None
    server.later()
    client._in.write(server.paper.take())
    client.shake_hands(server)
    server.feed(client.say(b"x"))
    assert client.hear(server.paper.take()) == [b"x"]


async def test_a_peer_that_says_something_and_goodbye_at_once_is_answered(pair: Pair) -> None:
    server, client = Server(pair), Client()
    client.shake_hands(server)
    last = client.say(b"the last")
    with pytest.raises(ssl.SSLWantReadError):
        client.object.unwrap()
    server.feed(last + client.take())
    assert client.hear(server.paper.take()) == [b"the last"]
    assert server.paper.closed
    assert not server.paper.aborted
    # Nothing goes wrong where something more is written.
    server.connection.send(Command(0, 1, FLAG_RESPONSE))
    server.connection.flush()


async def test_what_was_written_too_early_leaves_behind_the_handshake(pair: Pair) -> None:
    server, client = Server(pair), Client()
    with pytest.raises(ssl.SSLWantReadError):
        client.object.do_handshake()
    server.feed(client.take())
    server.connection.send(Command(0, 7, FLAG_RESPONSE, None, b"early"))
    server.connection.flush()
    client._in.write(server.paper.take())
    client.object.do_handshake()
    server.feed(client.take())
    assert client.hear(server.paper.take()) == [b"early"]


async def test_a_plain_connection_is_on_its_transport_from_the_first_byte(pair: Pair) -> None:
    server = Server(pair)
    server.feed(encode_command(Command(10, 1, body=b"plain")))
    assert server.got == [b"plain"]
    assert server.paper.protocol is server.connection
    server.connection.send(Command(0, 7, FLAG_RESPONSE, None, b"answer"))
    server.connection.flush()
    *_, answer = FrameSplitter().feed(server.paper.take())
    assert answer.body == b"answer"


async def test_nothing_of_a_plain_request_is_looked_at_where_only_tls_is_taken(pair: Pair) -> None:
    server = Server(pair, takes_plain=False)
    server.feed(encode_command(Command(10, 1, body=b"plain")))
    assert server.got == []
    assert server.paper.aborted


async def test_a_tampered_record_ends_the_connection(pair: Pair, tmp_path: Path) -> None:
    server, client = Server(pair), Client()
    client.shake_hands(server)
    said = bytearray(client.say(b"x" * 100))
    said[-1] ^= 1
    server.connection.send(Command(0, 1, FLAG_RESPONSE))
    server.feed(bytes(said))
    assert server.got == []
    assert server.paper.closed
    with pytest.raises(ssl.SSLError, match=r"ALERT|alert"):
        client.hear(server.paper.take())
