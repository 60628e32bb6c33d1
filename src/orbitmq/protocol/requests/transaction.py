"""Transactional messages."""

from __future__ import annotations

from orbitmq.protocol.schema.declare import (
    MAX_MESSAGE_BYTES,
    Bytes,
    Long,
    Request,
    RequestQueue,
    Void,
    request,
    wire,
)


@request(37, queue=RequestQueue.TRANSACTION)
class EndTransaction(Request[Void]):
    """Commit or roll back a half message; one-way from most clients."""

    producer_group: str
    tran_state_table_offset: Long
    """Queue offset of the half message in its own topic."""
    commit_log_offset: Long
    commit_or_rollback: int
    """8 commit, 12 roll back, 0 unknown."""
    msg_id: str
    topic: str | None = None
    from_transaction_check: bool | None = None
    transaction_id: str | None = None


@request(39, to="client", max_body=MAX_MESSAGE_BYTES)
class CheckTransactionState(Request[Void]):
    """The broker asks a producer what became of a half message, which is the body. One-way."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = wire("bname", default=None)
    body: Bytes | None = None


@request(323)
class ResumeCheckHalfMessage(Request[Void]):
    """Have a half message checked again from the start."""

    topic: str | None = None
    msg_id: str | None = None
