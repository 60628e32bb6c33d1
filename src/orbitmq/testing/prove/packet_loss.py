"""Packets that get lost on their way to a socket, by a filter in the kernel. Linux only; needs no rights.

TCP hides a lost packet: it is sent again after a time-out that doubles each time, and what came behind it
waits. So the loss happens below TCP: a filter at the socket that drops each packet by chance, data and
acknowledgements alike.
"""

from __future__ import annotations

import ctypes
import socket
import struct

_ATTACH_FILTER, _DETACH_FILTER = 26, 27
"""Socket options of Linux that `socket` does not name."""
_LOAD_WORD, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x35, 0x06
_RANDOM = 0xFFFFF038
"""The address at which a filter reads a random number of 32 bits."""
_WHOLE = 0xFFFFFFFF


def lose_packets(arriving: socket.socket, share: float) -> None:
    """Drops that share of the packets that arrive at a connected socket from now on; 0 drops none. A socket
    that is closed by now stays as it is.
    """
    if arriving.fileno() < 0:
        return
    if not share:
        arriving.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
        return
    steps = (
        (_LOAD_WORD, 0, 0, _RANDOM),
        (_JUMP_IF_AT_LEAST, 0, 1, min(_WHOLE, int(share * (1 << 32)))),
        (_RETURN, 0, 0, _WHOLE),
        (_RETURN, 0, 0, 0),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    arriving.setsockopt(
        socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(steps), ctypes.addressof(program))
    )
