"""Bounds of a call's bytes: every length and depth is checked before a codec allocates anything for it."""

from __future__ import annotations

from orbitmq.client.delays import DelayError

MAX_DEPTH = 8
MAX_NAME = 64
MAX_VARINT = 10
CALL = 1
PROTOCOL, VERSION = 0x82, 1
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class MalformedCall(DelayError):
    """Bytes that are no call in thrift's compact protocol; the text says at which byte, and why."""


class Walk:
    """Goes through a call's bytes once. Raises MalformedCall."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def head(self) -> tuple[str, int]:
        """The name of the method, and the number of the call."""
        if self._byte() != PROTOCOL:
            self._refuse("it is not thrift's compact protocol")
        kind = self._byte()
        if kind & 0x1F != VERSION or kind >> 5 != CALL:
            self._refuse("it is no call")
        number = self._varint()
        if number >= 1 << 32:
            self._refuse("the number of the call has more than 32 bits")
        length = self._length()
        if length > MAX_NAME:
            self._refuse(f"the name of a method has {MAX_NAME} bytes at most")
        name = self._data[self._at : self._at + length]
        self._at += length
        return name.decode("ascii", "replace"), number

    def arguments(self) -> None:
        self._struct(MAX_DEPTH)
        if self._at != len(self._data):
            self._refuse("there is more behind the arguments")

    def _refuse(self, reason: str) -> None:
        raise MalformedCall(f"byte {self._at}: {reason}")

    def _byte(self) -> int:
        if self._at >= len(self._data):
            self._refuse("it ends too early")
        self._at += 1
        return self._data[self._at - 1]

    def _skip(self, count: int) -> None:
        if count > len(self._data) - self._at:
            self._refuse(f"{count} bytes are announced, and {len(self._data) - self._at} are there")
        self._at += count

    def _varint(self) -> int:
        found = 0
        for place in range(MAX_VARINT):
            byte = self._byte()
            found |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if found >= 1 << 64:
                    break
                return found
        raise MalformedCall(f"byte {self._at}: a number has more than 64 bits")

    def _length(self) -> int:
        """A length, or a number of elements, each of which takes a byte at least."""
        found = self._varint()
        if found > len(self._data) - self._at:
            self._refuse(f"{found} are announced, and {len(self._data) - self._at} bytes are there")
        return found

    def _struct(self, depth: int) -> None:
        if not depth:
            self._refuse(f"structs are nested more than {MAX_DEPTH} deep")
        while head := self._byte():
            kind = head & 0x0F
            if not head >> 4:
                self._varint()  # the number of the field
            if kind not in (TRUE, FALSE):  # these are in the head
                self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> None:
        if kind in (TRUE, FALSE, BYTE):
            self._byte()
        elif kind in (I16, I32, I64):
            self._varint()
        elif kind == DOUBLE:
            self._skip(8)
        elif kind == BINARY:
            self._skip(self._length())
        elif kind == LIST:
            head = self._byte()
            # The codec reads elements by the interface, not by what their head says.
            if head & 0x0F != STRUCT:
                self._refuse("the interface has lists of structs alone")
            for _ in range(self._length() if head >> 4 == 15 else head >> 4):
                self._struct(depth - 1)
        elif kind == MAP:
            self._map(depth)
        elif kind == STRUCT:
            self._struct(depth - 1)
        else:
            self._refuse(f"type {kind} is not in the interface")

    def _map(self, depth: int) -> None:
        if size := self._length():
            kinds = self._byte()
            if kinds >> 4 != BINARY or kinds & 0x0F != BINARY:
                self._refuse("the interface has maps of texts alone")
            for _ in range(size):
                self._value(BINARY, depth)
                self._value(BINARY, depth)
