"""The end of transactions, as producers decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from orbitmq.broker.auth.permissions import PUB, UPDATE
from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.role.state import RoleState
from orbitmq.broker.transaction.options import TransactionOptions
from orbitmq.broker.transaction.records import Half, resumed
from orbitmq.broker.transaction.transactions import Decision, Transactions
from orbitmq.broker.transaction.window import HalfState
from orbitmq.handling.call import Call, Durable, Outcome, Peer, Result, Wait, Warm
from orbitmq.handling.warming import once_warm
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import HALF_TOPIC, TRANSACTION_PREPARED
from orbitmq.protocol.records.ids import MalformedId, parse_offset_message_id
from orbitmq.protocol.records.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import find_property
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.send import SendMessage, SendMessageV2
from orbitmq.protocol.requests.transaction import EndTransaction, ResumeCheckHalfMessage
from orbitmq.protocol.schema.declare import Void
from orbitmq.store import MessageStore, PutStatus

COLD_LOOKUPS = 3
"""Number of times that a request waits for the disk: for a half message, its open copy's unit, that copy."""
NOT_FOUND = "Find prepared transaction message failed"
UNDECIDED = 0
_HALF = f"\x02{TRANSACTION_PREPARED}\x01true\x02"
_PROPERTIES_OF = {SendMessage.CODE: "properties", SendMessageV2.CODE: "i"}
"""The field in which a send has its properties, by code."""


@dataclass(slots=True)
class TransactionTables:
    """Tables that a decision looks at and changes."""

    identity: BrokerIdentity
    settings: TransactionOptions
    transactions: Transactions
    store: MessageStore
    record_access: RecordAccess
    promise: Promise
    role: RoleState


@handlers(EndTransaction)
def end_transaction(tables: TransactionTables, call: Call[EndTransaction], now: int) -> Result:
    """Commits or rolls back one half message."""
    return _end_one(tables, call.request, call.command, call.peer, COLD_LOOKUPS, now)


def end_many(
    tables: TransactionTables, commands: Sequence[Command], peer: Peer, now: int
) -> list[Result | Exception | bytes]:
    """Ends the transactions that one peer decided about together: one op record for all."""
    requests: list[EndTransaction | Exception] = []
    for command in commands:
        try:
            requests.append(EndTransaction.from_command(command))
        except Exception as error:
            requests.append(error)
    return [*_end(tables, requests, commands, peer, COLD_LOOKUPS, now)]


def decisions_first(commands: list[Command]) -> list[Command]:
    """Requests of one read, decisions before the half messages that came right before them.

    Producers that decide and send on in turn are then answered by one append for all decisions and one for
    all half messages. It changes nothing for clients: none is shown a half message, and no decision can be
    about one that has no answer yet.
    """
    arranged: list[Command] = []
    halves: list[Command] = []
    for command in commands:
        if command.code == EndTransaction.CODE:
            arranged.append(command)
        elif _is_half(command):
            halves.append(command)
        else:
            arranged += halves
            halves.clear()
            arranged.append(command)
    return arranged + halves


def _is_half(command: Command) -> bool:
    name = _PROPERTIES_OF.get(command.code)
    return name is not None and _HALF in f"\x02{(command.ext or {}).get(name, '')}\x02"


def _end_one(
    tables: TransactionTables,
    request: EndTransaction,
    command: Command,
    peer: Peer,
    cold_reads: int,
    now: int,
) -> Result:
    (result,) = _end(tables, [request], [command], peer, cold_reads, now)
    if isinstance(result, Exception):
        raise result
    return result


def _end(
    tables: TransactionTables,
    requests: Sequence[EndTransaction | Exception],
    commands: Sequence[Command],
    peer: Peer,
    cold_reads: int,
    now: int,
) -> list[Result | Exception]:
    results: list[Result | Exception] = []
    decisions: list[Decision] = []
    places: dict[int, int] = {}
    named: set[int] = set()
    for request, command in zip(requests, commands, strict=True):
        if isinstance(request, Exception):
            results.append(request)
            continue
        decides = cold_reads and request.commit_or_rollback != UNDECIDED
        cold = tables.transactions.cold(request.commit_log_offset) if decides else None
        if cold is not None:
            end = partial(_end_one, tables, request, command, peer, cold_reads - 1)
            results.append(once_warm(Warm(*cold), end, now))
            continue
        try:
            half = _decided(tables, request, command, peer, now)
            if half is not None and half.offset in named:
                raise _has_ended(half)
        except Exception as error:
            results.append(error)
            continue
        if half is None:
            results.append(None if request.commit_or_rollback == UNDECIDED else Void())
            continue
        named.add(half.offset)
        places[len(results)] = len(decisions)
        decisions.append(Decision(half, request.commit_or_rollback == TRANSACTION_COMMIT))
        results.append(None)
    if decisions:
        tables.transactions.end_all(decisions, now)
    for place, number in places.items():
        results[place] = _result(tables, decisions[number], commands[place].is_oneway, now)
    return results


def _decided(
    tables: TransactionTables, request: EndTransaction, command: Command, peer: Peer, now: int
) -> Half | None:
    """The open half message that the request decides about; None where nothing is left to do."""
    if tables.role.is_slave:
        # Also of a broker that becomes master: it does not know yet which half messages are open.
        raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, "a slave ends no transactions: ask the master")
    if request.commit_or_rollback not in (UNDECIDED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"commitOrRollback field wrong: {request.commit_or_rollback} is not 8 (commit), "
            "12 (roll back) or 0 (unknown)",
        )
    if request.commit_or_rollback == UNDECIDED:
        return None
    named = tables.transactions.named(request.commit_log_offset)
    if named is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
    tables.record_access.check_topic(command, peer, named.topic, PUB)
    if named.offset < tables.transactions.held_to:
        raise Refused(
            ResponseCode.SLAVE_NOT_AVAILABLE,
            "a slave may have moved this transaction to another broker while this one was away",
        )
    _refuse_if_too_late(tables, request, named, now)
    _check(request, named)
    live = tables.transactions.live(named)
    if live is not None:
        if _is_commit(request) and tables.transactions.is_of_deleted(named.topic, named.physical_offset):
            tables.transactions.drop([live], now)
            raise _of_deleted(named.topic, named.unique_id)
        return live
    wanted = HalfState.COMMITTED if _is_commit(request) else HalfState.ROLLED_BACK
    if tables.transactions.window[named.offset] is wanted:
        if not _is_commit(request) and tables.transactions.owes(named.offset, now):
            raise Refused(ResponseCode.SYSTEM_ERROR, "rolled back, but that cannot be stored now")
        return None
    raise _has_ended(named)


def _is_commit(request: EndTransaction) -> bool:
    return request.commit_or_rollback == TRANSACTION_COMMIT


def _refuse_if_too_late(tables: TransactionTables, request: EndTransaction, half: Half, now: int) -> None:
    """Past a half message's immunity time only the answer to a check decides about it."""
    if request.from_transaction_check:
        return
    timeout = tables.settings.transaction_time_out
    immunity = half.immunity_ms(timeout)
    if immunity is not None and half.age_ms(now) > max(immunity, timeout):
        raise Refused(
            ResponseCode.ILLEGAL_OPERATION,
            f"the half message {half.unique_id} is older than its CHECK_IMMUNITY_TIME_IN_SECONDS: "
            "only the answer to a check decides about it now",
        )


def _check(request: EndTransaction, half: Half) -> None:
    """That the request means this half message, and comes from its group."""
    if half.group != request.producer_group:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if half.offset != request.tran_state_table_offset:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
    if request.transaction_id and request.transaction_id != half.unique_id:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"The transaction id wrong: {request.transaction_id}, the half message has {half.unique_id}",
        )


def _of_deleted(topic: str, unique_id: str) -> Refused:
    return Refused(
        ResponseCode.TOPIC_NOT_EXIST,
        f"the topic {topic} was deleted after the half message {unique_id} had come: it is dropped",
    )


def _has_ended(half: Half) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, f"the transaction {half.unique_id} has ended already")


def _result(tables: TransactionTables, decision: Decision, is_oneway: bool, now: int) -> Result | Exception:
    if decision.status is not PutStatus.PUT_OK:
        return Refused(ResponseCode.SYSTEM_ERROR, f"{decision.status.name}: the transaction stays open")
    if is_oneway or not tables.promise.waits:
        return Void()

    def flushed(outcome: Outcome, later: int) -> Result:
        if outcome.timed_out:
            late = tables.promise.late_code(decision.end_offset)
            raise Refused(late, "decided, but not in time on the disk, or at replicas, as it has to be")
        return Void()

    deadline = now + tables.promise.timeout_ms()
    return Wait((Durable(decision.end_offset),), deadline, flushed)


@handlers(ResumeCheckHalfMessage)
def resume_check_half_message(
    tables: TransactionTables, call: Call[ResumeCheckHalfMessage], now: int
) -> Result:
    """Takes up a half message again that was given up, or starts the count of its checks over."""
    try:
        physical_offset = parse_offset_message_id(call.request.msg_id or "").physical_offset
    except MalformedId as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return _resume_at(tables, call, physical_offset, COLD_LOOKUPS, now)


def _resume_at(
    tables: TransactionTables,
    call: Call[ResumeCheckHalfMessage],
    physical_offset: int,
    cold_reads: int,
    now: int,
) -> Result:
    cold = tables.transactions.cold(physical_offset) if cold_reads else None
    if cold is not None:
        look = partial(_resume_at, tables, call, physical_offset, cold_reads - 1)
        return once_warm(Warm(*cold), look, now)
    half = tables.transactions.half_at(physical_offset)
    if half is not None:
        tables.record_access.check_topic(call.command, call.peer, half.topic, UPDATE)
        live = tables.transactions.live(half)
        if live is None:
            raise _has_ended(half)
        if tables.transactions.is_of_deleted(half.topic, half.physical_offset):
            tables.transactions.drop([live], now)
            raise _of_deleted(half.topic, half.unique_id)
        restarted = tables.transactions.restart(live, now)
        status = restarted.status
    else:
        status = _resume(tables, call, physical_offset, now)
    if status is not PutStatus.PUT_OK:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"Put message back to {HALF_TOPIC} failed: {status.name}")
    return Void()


def _resume(
    tables: TransactionTables, call: Call[ResumeCheckHalfMessage], physical_offset: int, now: int
) -> PutStatus:
    record = tables.store.record_at(physical_offset) if physical_offset >= 0 else None
    try:
        discarded = None if record is None else decode_record(record)
    except BadRecord:
        discarded = None
    message = None if discarded is None else resumed(discarded, tables.identity.host)
    if discarded is None or message is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
    topic, group = (
        (find_property(discarded.properties, name) or b"").decode("utf-8", "replace")
        for name in (b"REAL_TOPIC", b"PGROUP")
    )
    tables.record_access.check_topic(call.command, call.peer, topic, UPDATE)
    if tables.transactions.is_of_deleted(topic, physical_offset):
        raise _of_deleted(topic, discarded.unique_id or "")
    return tables.transactions.resume(message, group, topic, now).status
