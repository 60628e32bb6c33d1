"""Waits of handlers, ended as a server would."""

from __future__ import annotations

from typing import Any

from orbitmq.handling.call import OffLoop, Outcome, Pause, Wait


def met(wait: Wait) -> Outcome:
    """The outcome of a wait for which everything has come: work beside the loop is done here."""
    outcome = Outcome(timed_out=False)
    for condition in wait.on:
        if isinstance(condition, OffLoop):
            try:
                while True:
                    next(condition.work)
            except StopIteration as done:
                outcome.value = done.value
            except Exception as error:
                outcome.error = error
    return outcome


def turns_of(result: Any, now: int = 0) -> tuple[int, Any]:
    """Number of times at which others have their turn before a reply, and the reply."""
    turns = 0
    while isinstance(result, Wait):
        turns += isinstance(result.on[0], Pause)
        result = result.then(met(result), now)
    return turns, result
