"""The end of a listening server."""

from __future__ import annotations

import asyncio
import contextlib


async def stop_accepting(server: asyncio.AbstractServer) -> None:
    """Closes a server's sockets. Every connection that it has accepted has its protocol by then, and the
    coroutine that serves it has begun: one that is cancelled before would never close its connection.

    asyncio accepts in one turn of the loop and makes the transport in the next. A server that is closed in
    between leaves the accepted socket behind, open and without an owner, until it is collected: its peer
    waits for that long. So the server first stops to accept, and closes once the transports are there.
    """
    loop = asyncio.get_running_loop()
    # Loops that watch no file descriptors have no such gap.
    with contextlib.suppress(NotImplementedError):
        for listening in getattr(server, "sockets", ()):
            loop.remove_reader(listening)
    await asyncio.sleep(0)  # the transports of accepted connections
    server.close()
    await asyncio.sleep(0)  # their protocols' connection_made
    await asyncio.sleep(0)  # the first steps of the coroutines that it starts
