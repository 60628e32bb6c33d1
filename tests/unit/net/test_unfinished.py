from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.net.unfinished import COUNTED_BYTES, Unfinished


@dataclass(eq=False)
class Peer:
    last_heard: float
    cuts: list[str] = field(default_factory=list)

    def cut(self, reason: str) -> None:
        self.cuts.append(reason)


def test_the_beginning_of_a_frame_is_not_counted() -> None:
    unfinished = Unfinished()
    assert not unfinished.note(Peer(0), COUNTED_BYTES - 1)
    assert unfinished.held_bytes == 0


def test_a_connection_counts_with_what_it_holds_now() -> None:
    unfinished, peer = Unfinished(), Peer(0)
    assert unfinished.note(peer, COUNTED_BYTES)
    assert unfinished.note(peer, 3 * COUNTED_BYTES)
    assert unfinished.held_bytes == 3 * COUNTED_BYTES
    assert not unfinished.note(peer, 0)
    assert unfinished.held_bytes == 0
    assert not peer.cuts


def test_beyond_the_limit_the_connections_that_were_silent_for_longest_are_cut() -> None:
    unfinished = Unfinished(most_bytes=3 * COUNTED_BYTES)
    oldest, older, newest = Peer(1), Peer(2), Peer(3)
    for peer in (newest, oldest, older):
        assert unfinished.note(peer, COUNTED_BYTES)
    assert unfinished.note(newest, 2 * COUNTED_BYTES)
    assert [len(peer.cuts) for peer in (oldest, older, newest)] == [1, 0, 0]
    assert unfinished.held_bytes == 3 * COUNTED_BYTES


def test_a_connection_that_alone_exceeds_the_limit_is_cut_itself() -> None:
    unfinished, peer = Unfinished(most_bytes=COUNTED_BYTES), Peer(1)
    assert not unfinished.note(peer, 2 * COUNTED_BYTES)
    assert len(peer.cuts) == 1
    assert unfinished.held_bytes == 0
