"""The moment at which a pop began, by this broker's clock, computed from what the peer's clock says.

A pop whose time was over before it arrived takes no messages: its client waits no longer. A peer whose
clock is behind looks as late as that with every pop, and would never get a message. But such a peer is late
by the same time again and again, while pops that were held up somewhere arrive at once, and are late by
different times.
"""

from __future__ import annotations

from orbitmq.handling.call import Peer

LATE_MS = 500
"""A pop whose time ran out so long ago is not looked at: its client waits no longer."""
SAME_MS = 250
"""Two pops are late by the same time if these differ by so much at most."""


def begin_ms(peer: Peer, born_ms: int, poll_ms: int, now: int) -> int | None:
    """The moment; None if the pop's time is over.

    If two pops of a connection are late by the same time, and more than LATE_MS apart, its clock counts as
    behind by this time from then on.
    """
    behind_ms = now - born_ms
    peer.clock_behind_ms = max(0, min(peer.clock_behind_ms, behind_ms))
    if behind_ms - peer.clock_behind_ms - poll_ms <= LATE_MS:
        return born_ms + peer.clock_behind_ms
    if peer.late is None or abs(behind_ms - peer.late[1]) > SAME_MS:
        peer.late = now, behind_ms
    elif now - peer.late[0] > LATE_MS:
        peer.late, peer.clock_behind_ms = None, behind_ms
        return now
    return None
