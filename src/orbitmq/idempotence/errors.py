"""Errors of idempotent handlers.

IdempotenceError
├── InvalidKey           no key, one that is empty or too long, or its function failed: a dead letter at once
├── KeyConflict          a known key came with another body: a dead letter at once
├── StoreUnavailable     the database or Redis cannot be reached: the message is held back
├── TableMissing         the table of the store does not exist yet
├── TransactionEnded     the handler ended the transaction that is the store's to end: nothing was committed
└── LeaseLost            a lease in Redis ended before the handler did: perhaps there were two effects
"""

from __future__ import annotations

from orbitmq.client import ClientError, PermanentFailure


class IdempotenceError(ClientError):
    """Something kept a message from being handled exactly once; the text says what to do."""


class InvalidKey(IdempotenceError, PermanentFailure):
    """The message has no key that could be stored: it becomes a dead letter at once."""


class KeyConflict(IdempotenceError, PermanentFailure):
    """A key that is known came again with another body: the message becomes a dead letter at once."""

    def __init__(
        self, key: str, message_id: str, fingerprint: str, other_message_id: str, other_fingerprint: str
    ) -> None:
        super().__init__(
            f"key {key!r} was used by message {other_message_id} with a body of SHA-256 {other_fingerprint}, "
            f"and comes now with message {message_id} and a body of SHA-256 {fingerprint}: give each intent "
            "a key of its own, or pass fingerprint= if parts of a body may differ"
        )
        self.key = key
        self.message_id = message_id
        """The message that was refused."""
        self.fingerprint = fingerprint
        """The digest of its body."""
        self.other_message_id = other_message_id
        """The message that was handled under this key."""
        self.other_fingerprint = other_fingerprint


class StoreUnavailable(IdempotenceError):
    """The store cannot be reached: the message is held back in the consumer, and uses up no attempt."""


class TableMissing(IdempotenceError):
    """The table of a store does not exist: the message is held back until it does."""


class TransactionEnded(IdempotenceError):
    """A handler committed or rolled back the transaction that the store ends; it was rolled back."""


class LeaseLost(IdempotenceError):
    """A lease ended before its handler did, and another process may have handled the message as well."""
