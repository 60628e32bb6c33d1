"""Reasons why messages were given up, as properties of dead letters: for people, `orbitmq job dlq`, consoles.

Only a client knows what its handler raised, and a broker that is asked to give a message up copies the record
as it is. So a client sends the dead letter itself, by way of the retry topic.
"""

from __future__ import annotations

from orbitmq.client.core.handlers import Retry

EXCEPTION = "exception"
"""The class of what the handler raised, with its module unless that is Python's or OrbitMQ's."""
EXCEPTION_TEXT = "exceptionText"
EXCEPTION_CONSUMER = "exceptionConsumer"
"""The client id of the consumer that gave the message up."""
EXCEPTION_ATTEMPT = "exceptionAttempt"
"""The number of the last delivery; the first is 1."""
MAX_TEXT_CHARACTERS = 500


def reason_of(retry: Retry, client_id: str, attempt: int) -> dict[str, str]:
    """The properties that say why a message was given up."""
    error = retry.__cause__ or retry
    reason = {
        EXCEPTION: class_of(error),
        EXCEPTION_CONSUMER: _plain(client_id),
        EXCEPTION_ATTEMPT: str(attempt),
    }
    if text := _plain(str(error)):
        reason[EXCEPTION_TEXT] = text
    return reason


def class_of(error: BaseException) -> str:
    """A class as a person and a table name it."""
    kind = type(error)
    if kind.__module__ == "builtins" or kind.__module__.startswith("orbitmq."):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _plain(text: str) -> str:
    """Text that a property can hold: printable, on one line, of bounded length."""
    line = " ".join(
        "".join(one if one.isprintable() else " " for one in text[: 4 * MAX_TEXT_CHARACTERS]).split()
    )
    return line if len(line) <= MAX_TEXT_CHARACTERS else line[: MAX_TEXT_CHARACTERS - 3] + "..."
