"""A consumer's rates on each topic over the last minute, for operators who ask it."""

from __future__ import annotations

from collections import deque

from orbitmq.protocol.bodies.running import ConsumeStatus

SLOT_MS = 10_000
SLOTS = 6


class TopicStats:
    """Sums of one topic: plain numbers, added to where things happen."""

    __slots__ = ("_past", "consume_failed", "consume_ms", "consume_ok", "pull_ms", "pulled", "pulls")

    def __init__(self) -> None:
        self.pulls = 0
        self.pulled = 0
        self.pull_ms = 0.0
        self.consume_ok = 0
        self.consume_failed = 0
        self.consume_ms = 0.0
        self._past: deque[tuple[int, tuple[float, ...]]] = deque(maxlen=SLOTS + 1)

    def _sums(self) -> tuple[float, ...]:
        return (
            self.pulls,
            self.pulled,
            self.pull_ms,
            self.consume_ok,
            self.consume_failed,
            self.consume_ms,
        )

    def remember(self, now_ms: int) -> None:
        """Called every SLOT_MS: what the rates are measured against."""
        self._past.append((now_ms, self._sums()))

    def status(self, now_ms: int) -> ConsumeStatus:
        """Rates per second and times in ms, over the last minute or what there is of it."""
        then_ms, then = self._past[0] if self._past else (now_ms - SLOT_MS, (0.0,) * 6)
        seconds = max(now_ms - then_ms, 1) / 1000
        pulls, pulled, pull_ms, good, failed, consume_ms = (
            now - before for now, before in zip(self._sums(), then, strict=True)
        )
        handled = good + failed
        return ConsumeStatus(
            pull_rt=pull_ms / pulls if pulls else 0.0,
            pull_tps=pulled / seconds,
            consume_rt=consume_ms / handled if handled else 0.0,
            consume_ok_tps=good / seconds,
            consume_failed_tps=failed / seconds,
            consume_failed_msgs=self.consume_failed,
        )
