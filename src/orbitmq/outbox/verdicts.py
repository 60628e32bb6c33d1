"""The meaning of a failed send for its row, and the pauses of topics that cannot be sent to."""

from __future__ import annotations

from enum import Enum

from orbitmq.client.core.errors import ClientError, InvalidArgument, NoMasterNow, SendFailed
from orbitmq.client.sending.attempts import BrokerUnknown
from orbitmq.client.sending.delivery import OUTAGE_CODES
from orbitmq.net.errors import NetError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.names import IllegalName

AWAY_CODES = OUTAGE_CODES | {ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_ERROR}
FIRST_PAUSE_MS = 100


class Verdict(Enum):
    """The meaning of a failed send."""

    AWAY = "away"
    """No answer, or a broker takes nothing now: time mends it."""
    LATER = "later"
    """Refused as things are; an operator may change that: the topic, a right."""
    NEVER = "never"
    """No broker will take this message."""
    UNKNOWN = "unknown"
    """An error that has nothing to do with brokers, such as one of middleware."""


def verdict_of(error: BaseException) -> Verdict:
    """The meaning of the error of one message's send."""
    if isinstance(error, SendFailed):
        verdicts = {verdict_of(failure) for _, failure in error.failures}
        return next((one for one in (Verdict.AWAY, Verdict.LATER) if one in verdicts), Verdict.AWAY)
    if isinstance(error, NetError | BrokerUnknown | NoMasterNow):
        return Verdict.AWAY
    if isinstance(error, BrokerRefused):
        if error.code in AWAY_CODES:
            return Verdict.AWAY
        return Verdict.LATER if error.retriable else Verdict.NEVER
    if isinstance(error, InvalidArgument | IllegalName):
        return Verdict.NEVER
    return Verdict.LATER if isinstance(error, ClientError) else Verdict.UNKNOWN


class Pauses:
    """Pauses of topics whose sends failed: twice as long after each failure, up to the longest.

    Times are of one clock, in ms. `chance` (0 to 1) shortens a pause by up to half, so that relays do not
    come back all at once.
    """

    def __init__(self, longest_ms: int) -> None:
        self._longest_ms = longest_ms
        self._of: dict[str, tuple[float, float]] = {}
        """Topic -> length of its pause, and its end."""

    def failed(self, topic: str, now_ms: float, chance: float, *, some_sent: bool) -> None:
        """A send failed; with `some_sent`, others of the topic did not, and its pause is the shortest."""
        before = 0.0 if some_sent else self._of.get(topic, (0.0, 0.0))[0]
        length = min(max(before * 2, FIRST_PAUSE_MS), self._longest_ms)
        self._of[topic] = length, now_ms + length * (1 - chance / 2)

    def sent(self, topic: str) -> None:
        """All sends to the topic went well."""
        self._of.pop(topic, None)

    def waiting(self, now_ms: float) -> set[str]:
        """Topics that have a pause now."""
        return {topic for topic, (_, end_ms) in self._of.items() if end_ms > now_ms}

    def left_ms(self, now_ms: float) -> float | None:
        """Time until the first pause ends; None without one."""
        return min((end_ms - now_ms for _, end_ms in self._of.values() if end_ms > now_ms), default=None)
