"""The rule of when a message is given up, and of its pause before each retry: one object for all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orbitmq.client.core.checking import check_number, shown
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.outgoing_cy import MAX_DELAY_LEVEL


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """The rule of when a consumer gives a message up, and of the pause before it comes again.

        policy = DeadLetterPolicy(max_attempts=5, delay_levels=(3, 5, 9), dead_letter_on=(ValueError,))
        PushConsumer("billing", dead_letter_policy=policy)

    A message that is given up goes to the dead-letter queue of the group (`%DLQ%billing`), with the reason in
    its properties. Raises InvalidArgument.
    """

    max_attempts: int = 17
    """Deliveries in all, the first one included; the last one that fails makes the message a dead letter."""
    delay_levels: tuple[int, ...] = ()
    """Waits before the second delivery, the third, and so on, as delay levels (1 to 18: 1s 5s 10s 30s 1m ...
    2h); the last one is for all that follow. Empty: the broker's, from 10 s on, and for a consumer with
    `ordered=True` `suspend_current_queue_time_ms`."""
    dead_letter_on: tuple[type[BaseException], ...] = ()
    """Exceptions of a handler after which a retry is in vain: the message is given up at once."""
    when_exhausted: Literal["dead_letter", "stay"] = "dead_letter"
    """Fate of a message whose last attempt has failed. With "stay", for ordered consumers, it becomes no dead
    letter: it stays at the head of its queue or key, and `on_error` gets a MessageStays. It is repeated after
    the last of the waits until the handler succeeds, or gives it up (Retry(-1), PermanentFailure)."""

    def __post_init__(self) -> None:
        check_number("DeadLetterPolicy", "max_attempts", self.max_attempts, 1, 2**31 - 1)
        if not isinstance(self.delay_levels, tuple) or any(
            type(level) is not int or not 1 <= level <= MAX_DELAY_LEVEL for level in self.delay_levels
        ):
            raise InvalidArgument(
                f"DeadLetterPolicy: delay_levels has to be a tuple of 1 to {MAX_DELAY_LEVEL}, "
                f"not {shown(self.delay_levels)}"
            )
        if not isinstance(self.dead_letter_on, tuple) or any(
            not isinstance(kind, type) or not issubclass(kind, BaseException) for kind in self.dead_letter_on
        ):
            raise InvalidArgument(
                "DeadLetterPolicy: dead_letter_on has to be a tuple of exception classes, "
                f"not {shown(self.dead_letter_on)}"
            )

        if self.when_exhausted not in ("dead_letter", "stay"):
            raise InvalidArgument(
                'DeadLetterPolicy: when_exhausted has to be "dead_letter" or "stay", '
                f"not {shown(self.when_exhausted)}"
            )

    def gives_up_on(self, error: BaseException | None) -> bool:
        """True if a retry after this exception is in vain."""
        return isinstance(error, self.dead_letter_on)

    def delay_level(self, attempt: int) -> int:
        """The delay level after delivery number `attempt`, the first being 1; 0 leaves it to the broker."""
        levels = self.delay_levels
        return levels[min(attempt, len(levels)) - 1] if levels else 0
