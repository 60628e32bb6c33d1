"""Waits of handlers, ended as a server would."""

from __future__ import annotations

from orbitmq.handling.call import OffLoop, Outcome, Wait


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
