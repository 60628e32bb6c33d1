"""The choice of frames at the start of a read that may go a fast path on a broker with access control.

Hot: every message passes here where access is controlled. The rules decide once about a user, its
address and the names in a request, which makes a grant; the signature of each frame is checked.

A signature is over the values of all fields but itself, in the order of their names, and over the body. The
names of one letter come in order from their slots, and every other name is put where it belongs among them.

The choice ends before the first frame that is refused, or unusual in any way: that frame takes the general
path, where `Gate.refusal` decides and answers. Interpreted, all frames take it.
"""

from __future__ import annotations

from binascii import b2a_base64
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Protocol

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.send_header import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.signed_fields import (  # type: ignore[import-not-found]
        SignedFields,
        sort_fields,
    )

if TYPE_CHECKING:
    from orbitmq.handling.call import Peer
    from orbitmq.protocol.remoting.signing import SigningKey

_JOINED_BYTES = 1024
"""Shorter bodies are hashed with the fields in one call."""


class Grant:
    """Something that a user may ask for, from an address. Holds until users or rules change."""

    __slots__ = ("key", "user")

    def __init__(self, user: str, key: SigningKey | None) -> None:
        """`key` signs the requests; None if signatures are not checked."""
        self.user = user
        self.key = key


class Grants(Protocol):
    """Rights that have been granted, and the rules that decide about more."""

    fields: dict[int, tuple[bytes, ...]]
    """The header fields that name resources, by the codes of requests that have fast paths."""
    granted: dict[bytes, Grant]
    """By all that a decision depends on."""
    memory: bytearray
    """To work in."""
    once: bool
    """One right signature of a user counts for the rest of its connection, for a while."""

    def grant(self, key: bytes, code: int, user: str, names: list[str], peer: Peer) -> Grant | None:
        """Asks the rules and keeps what they grant; None if they refuse."""

    def is_authenticated(self, user: str, peer: Peer, now: int) -> bool:
        """True if an earlier signature of a user counts for its connection."""


def admitted_bytes(data: bytes, grants: Grants, peer: Peer, now: int) -> int:
    """Number of bytes at the start of `data` that are whole frames of requests that may be served."""
    if not cython.compiled:
        return 0
    read: Span = span_of(data)
    end: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t
    header: SendHeader
    body: Span
    # Of longer names nothing is granted: a sender shall not fill our memory with them.
    key_memory = cython.declare(cython.uchar[1024])
    key: Writer
    host: bytes = peer.host
    known: bytes = b""
    """The key of the grant that the frame before needed: most need the same."""
    grant: Any = None
    fields: dict[int, tuple[bytes, ...]] = grants.fields
    memory: bytearray = grants.memory
    names: tuple[bytes, ...] | None
    while True:
        length = scan_frame(read, end, cython.address(header), cython.address(body))
        if not length:
            break
        names = fields.get(header.code)
        if names is None or header.flag & 1:
            break
        key = writer_over(key_memory, cython.sizeof(key_memory))
        if not _put_key(cython.address(key), cython.address(header), names, host):
            break
        if not is_same(span_written(cython.address(key)), span_of(known)):
            known = bytes_of(span_written(cython.address(key)))
            grant = _grant(grants, known, cython.address(header), names, peer)
            if grant is None or (grants.once and not grants.is_authenticated(grant.user, peer, now)):
                break
        if grant.key is not None and not _is_signed(
            cython.address(header), length - body.size, body, grant.key, memory
        ):
            break
        end += length
    admitted: int = end
    return admitted


@cython.cfunc
def _grant(
    grants: Any, key: bytes, header: cython.pointer[SendHeader], names: tuple[bytes, ...], peer: Any
) -> Any:
    """The grant of a key, for which the rules are asked if it is a new one; None if they refuse. Compiled
    only.
    """
    user: Span
    grant: Any = grants.granted.get(key)
    if grant is not None:
        return grant
    named(header, b"AccessKey", cython.address(user))
    texts = [text_of(_value(header, name)) for name in names]
    return grants.grant(key, header.code, text_of(user), texts, peer)


@cython.cfunc
@cython.inline
def _put_key(
    out: cython.pointer[Writer],
    header: cython.pointer[SendHeader],
    names: tuple[bytes, ...],
    host: bytes,
) -> cython.bint:
    """Writes the key of the grant that a request needs: code, user, the fields that name what it is about,
    and the address of the peer. False if a field is missing or the key too long. Compiled only.
    """
    name: bytes
    user: Span
    value: Span
    if not named(header, b"AccessKey", cython.address(user)):
        return False
    put_u32(out, cython.cast(cython.uint, header.code))
    put_span(out, user)
    for name in names:
        value = _value(header, name)
        if not is_there(value):
            return False
        put_u8(out, 0)  # is in no field: control characters are escaped
        put_span(out, value)
    put_u8(out, 0)
    put_span(out, part_of(span_of(host), 0, len(host) - 4))
    return not out.overflow


@cython.cfunc
@cython.exceptval(check=False)
def _value(header: cython.pointer[SendHeader], name: bytes) -> Span:
    """A field that is written without escapes; none where there is no such field."""
    wanted: Span = span_of(name)
    letter: cython.uchar = byte_of(wanted, 0)
    i: cython.int
    if wanted.size == 1 and 97 <= letter <= 122:
        if header.fields[letter - 97].escaped:
            return no_span()
        return header.fields[letter - 97].span
    for i in range(header.named):
        if is_same(header.names[header.named - 1 - i].span, wanted):
            return header.values[header.named - 1 - i].span
    return no_span()


@cython.cfunc
def _is_signed(
    header: cython.pointer[SendHeader],
    header_bytes: cython.Py_ssize_t,
    body: Span,
    key: Any,
    memory: bytearray,
) -> cython.bint:
    """True if a request's signature is right; see `orbitmq.protocol.remoting.signing`. Compiled only."""
    fields: SignedFields
    place: cython.Py_ssize_t
    if not sort_fields(header, cython.address(fields)) or not is_there(fields.signature):
        return False
    is_joined: cython.bint = body.size < _JOINED_BYTES
    out: Writer = writer_of(memory)
    make_room(memory, cython.address(out), header_bytes + _JOINED_BYTES)  # values are shorter than the header
    for place in range(fields.count):
        if not unescape(fields.values[place].span, fields.values[place].escaped, cython.address(out)):
            return False
    if is_joined:
        put_span(cython.address(out), body)
    if out.overflow:
        return False
    signature = _signature(key, span_written(cython.address(out)), no_span() if is_joined else body)
    is_right: cython.bint = compare_digest(signature, bytes_of(fields.signature))
    return is_right


@cython.cfunc
@cython.inline
def _signature(key: Any, signed: Span, body: Span) -> bytes:
    """The signature of some bytes and, if there is one, of a body behind them. Compiled only."""
    inner = key.inner.copy()
    inner.update(view_of(signed))
    if is_there(body):
        inner.update(view_of(body))
    outer = key.outer.copy()
    outer.update(inner.digest())
    digest: bytes = b2a_base64(outer.digest(), newline=False)
    return digest
