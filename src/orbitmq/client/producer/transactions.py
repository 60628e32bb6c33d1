"""Messages that are published only if something else succeeds, such as a database transaction.

The message is sent first, as a half message that no consumer sees. Then the local transaction runs, and its
outcome is sent to the broker. If the broker hears nothing, it asks: any producer of the group has to be
able to say what became of a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Self, TypeAlias

from orbitmq.client.core.calling import call, is_async
from orbitmq.client.core.checking import check_route, check_within, shown
from orbitmq.client.core.errors import IllegalMessage, InvalidArgument
from orbitmq.client.core.instance import CHECK, now_ms
from orbitmq.client.core.message import Message, NamedEnum, ReceivedMessage, SendResult, SendStatus
from orbitmq.client.core.option_help import documented
from orbitmq.client.core.reading import BodyLimits, read_answer
from orbitmq.client.producer.producer import Producer
from orbitmq.client.sending.queue_choice import QueueSelector
from orbitmq.client.sending.results import single_result
from orbitmq.net.connection import Connection
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused, Malformed, OrbitError
from orbitmq.protocol.names import PRODUCER_GROUP
from orbitmq.protocol.names import TRANSACTION_PREPARED as PREPARED
from orbitmq.protocol.records.ids import parse_offset_message_id
from orbitmq.protocol.records.message import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.transaction import CheckTransactionState, EndTransaction

log = logging.getLogger(__name__)

MAX_QUESTIONS = 2000
"""Questions of brokers that wait to be answered; what comes beyond is dropped, and asked again later."""


class TransactionState(NamedEnum):
    """State of a local transaction."""

    COMMIT = TRANSACTION_COMMIT
    """Publish the message."""
    ROLLBACK = TRANSACTION_ROLLBACK
    """Drop it."""
    UNKNOWN = 0
    """Not known yet: the broker asks later."""


Execute: TypeAlias = Callable[[SendResult], Awaitable[TransactionState] | TransactionState]
"""A local transaction; its argument is the result of the half message, with the `transaction_id`."""
Check: TypeAlias = Callable[[ReceivedMessage], Awaitable[TransactionState] | TransactionState]
"""Returns the state of the local transaction of a message."""


@dataclass(slots=True)
class TransactionResult:
    """Result of a message and its transaction."""

    sent: SendResult
    state: TransactionState
    """The decision."""
    error: Exception | None = None
    """The reason, if the decision could not be sent: the broker asks later, and `check` answers."""

    @property
    def is_confirmed(self) -> bool:
        """True if the broker has confirmed the decision: the message is published, or dropped."""
        return self.state is not TransactionState.UNKNOWN and self.error is None


@documented()
@dataclass(eq=False)
class TransactionProducer(Producer):
    """A producer whose messages may depend on local transactions.

        async with TransactionProducer("shop", check=what_became_of) as producer:
            await producer.send_in_transaction(Message("orders", b"{...}"), pay)

    `pay(sent)` is the local transaction and returns a `TransactionState`; `what_became_of(message)`
    returns its outcome later, for messages of any producer of the group, those of an earlier process too.
    Both are async functions, or plain ones, which then run in a thread. Everything else is as with
    `Producer`.
    """

    _: KW_ONLY
    check: Check
    """Called when a broker asks for the state of a transaction. An exception counts as UNKNOWN."""
    check_concurrency: int = 16
    """Maximum of checks that run at the same time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.check):
            raise InvalidArgument(
                f"{type(self).__name__}: check has to be a function, not {shown(self.check)}"
            )
        check_within(self, "check_concurrency", 1, 1000)
        self._checking = 0

    async def start(self) -> Self:
        """Start the producer: it can send, and brokers can ask it. `async with` does this."""
        await super().start()
        self._checks = asyncio.Semaphore(self.check_concurrency)
        return self

    async def send_in_transaction(
        self,
        message: Message,
        execute: Execute,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: float | None = None,
    ) -> TransactionResult:
        """Send a half message, run `execute`, and publish or drop the message by its result.

        If the half message is stored less safely than asked for (`sent.status`), it is dropped, and `execute`
        does not run. If `execute` raises, the exception is raised here, and the transaction stays undecided,
        because it may have been committed before: `check` decides later. `timeout_ms` is the time for
        sending; the other arguments are those of `send`.

        Raises what `send` raises, before `execute` has run; IllegalMessage for a message with a
        delay or a lite topic.
        """
        sent = await self.send_half(
            message, queue=queue, selector=selector, sharding_key=sharding_key, timeout_ms=timeout_ms
        )
        if sent.status is not SendStatus.SEND_OK:
            return await self.end_transaction(sent, TransactionState.ROLLBACK)
        return await self.end_transaction(
            sent, TransactionState(await call(execute, sent, asynchronous=is_async(execute)))
        )

    async def send_half(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send a half message only. The caller runs the transaction, and then calls `end_transaction`.

        Raises what `send_in_transaction` raises.
        """
        instance, sender, preparation = self._running()
        check_route("send_half", queue, selector, sharding_key, timeout_ms)
        if queue is not None:
            self._check_queue("send_half", message, queue)
        more = {PREPARED: "true", PRODUCER_GROUP: self.group}

        async def send(one: Message) -> SendResult:
            request, unique_id = preparation.single(one, now_ms(), more)
            if one.is_delayed:
                raise IllegalMessage("a message of a transaction cannot be delayed")
            if one.lite_topic is not None:
                raise IllegalMessage("a message of a transaction cannot be of a lite topic")
            request.sys_flag |= TRANSACTION_PREPARED
            # Brokers ask producers they know: none should first have to wait for a heartbeat.
            masters = {instance.routes.master_of(queue) for queue in await sender.queues(one.topic)}
            await instance.introduce([address for address in masters if address is not None])
            size = len(request.body)
            await self._in_flight.enter(size)
            try:
                chosen = await self._route(one, queue, selector, sharding_key)
                chosen, reply = await self._courier.deliver(request, chosen, timeout_ms)
            finally:
                self._in_flight.leave(size)
            return single_result(reply, chosen, unique_id)

        return await self._send_through("send_half", message, send)

    async def end_transaction(self, sent: SendResult, state: TransactionState) -> TransactionResult:
        """Tell the broker to publish or to drop a half message, and wait for its answer.

        For UNKNOWN there is no answer. If the broker cannot be reached or refuses, nothing is raised: the
        result has the `error`, and the broker asks later.
        """
        instance, _, _ = self._running()
        result = TransactionResult(sent, state)
        address = instance.routes.master_of(sent.queue)
        request = EndTransaction(
            producer_group=self.group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=parse_offset_message_id(sent.offset_message_id).physical_offset,
            commit_or_rollback=int(state),
            msg_id=sent.message_id,
            topic=sent.queue.topic,
            from_transaction_check=False,
            transaction_id=sent.transaction_id,
        )
        try:
            if address is None:
                raise ConnectionError(f"no master of {sent.queue.broker_name} is known")
            if state is TransactionState.UNKNOWN:
                await instance.send_oneway(address, request)
            else:
                await instance.call(address, request)
        except (OrbitError, OSError) as error:
            result.error = error
            instance.report(f"end of transaction {sent.transaction_id}", error, lasting=False)
        return result

    # Questions of brokers.

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        others = []
        for command in commands:
            if command.code == CheckTransactionState.CODE:
                self._handle_check(connection, command)
            else:
                others.append(command)
        if others:
            super()._on_requests(connection, others)

    def _handle_check(self, connection: Connection, command: Command) -> None:
        instance = self._instance
        if instance is None or instance.is_closed:
            return
        if self._checking >= MAX_QUESTIONS:
            log.warning("too many transactions to check: %s has to ask again", connection.peer.address)
            return
        self._checking += 1
        task = instance.tasks.start(self._answer(connection, command), "transaction check")
        task.add_done_callback(lambda _: self._checked())

    def _checked(self) -> None:
        self._checking -= 1

    async def _answer(self, connection: Connection, command: Command) -> None:
        instance, _, _ = self._running()
        question = CheckTransactionState.from_command(command)
        limits = BodyLimits(self.max_inflated_body_bytes)
        asked = await read_answer(question.body, MessageQueue(question.topic or "", "", 0), limits=limits)
        if not asked.messages:
            raise Malformed(
                f"a check without a message: {asked.problems[0] if asked.problems else 'no body'}"
            )
        message = asked.messages[0]
        message.topic = message.record.topic
        message.queue = MessageQueue(message.topic, question.broker_name or "", message.record.queue_id)
        group = message.properties.get(PRODUCER_GROUP)
        if group != self.group:
            log.warning("asked about a transaction of group %s, which is not %s", group, self.group)
            return
        state = TransactionState.UNKNOWN
        async with self._checks:
            try:
                state = TransactionState(await call(self.check, message, asynchronous=is_async(self.check)))
            except Exception as error:
                instance.report(f"{CHECK}transaction {question.transaction_id}", error, lasting=False)
        answer = EndTransaction(
            producer_group=self.group,
            tran_state_table_offset=question.tran_state_table_offset,
            commit_log_offset=question.commit_log_offset,
            commit_or_rollback=int(state),
            msg_id=message.message_id,
            topic=message.topic,
            from_transaction_check=True,
            transaction_id=question.transaction_id,
        )
        if state is TransactionState.UNKNOWN:
            connection.send_oneway(answer)
            return
        try:
            await connection.call(answer, self.mq_client_api_timeout_ms)
        except BrokerRefused as refused:
            # Asked twice before the first answer came, mostly.
            log.info("%s needs no answer any more: %s", connection.peer.address, refused)
        except NetError as error:
            log.info("%s was not answered, and will ask again: %s", connection.peer.address, error)
