"""Producers and consumers for programs without an event loop: the classes of `orbitmq`, waiting for you.

    from orbitmq.sync import Message, Producer

    with Producer("orders") as producer:
        producer.send(Message("orders", b"{...}"))

One thread in the background runs one event loop for all of them; every method here has its namesake do the
work there and waits for it: both faces have the same arguments, results and exceptions. They may be used from
any thread. Handlers of a consumer run on the loop when they are async, else in threads.

After a fork the child has no such thread: what was made before the fork raises NotRunning there. Make
producers and consumers in the process that uses them.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from orbitmq import admin, client
from orbitmq.client import shared
from orbitmq.client.blocking import SyncWrapper, constructor_of, get_background, later, on_loop, waiting
from orbitmq.client.consumer.group_member import GroupMember
from orbitmq.client.consumer.subscribing import SubscribesFunctions
from orbitmq.client.core.option_help import documented
from orbitmq.client.running import START_TIMEOUT_MS, Stopping, check_clients, run_until, signals
from orbitmq.client.sending.queue_choice import QueueSelector
from orbitmq.client.shared import *  # noqa: F403
from orbitmq.client.shared import (
    Message,
    MessageQueue,
    ReceivedMessage,
    SendResult,
    SendStatus,
    TransactionResult,
    TransactionState,
)

__all__ = [
    "Admin",
    "Delivery",
    "LiteConsumer",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "TransactionProducer",
    "run",
]
__all__ += shared.__all__

WatchedT = TypeVar(
    "WatchedT", client.Producer, client.TransactionProducer, client.PushConsumer, client.LiteConsumer
)
ProducerT = TypeVar("ProducerT", client.Producer, client.TransactionProducer)


class Delivery:
    """A submitted message, for threads: `result()` waits until it is known what became of it."""

    def __init__(self, core: client.Delivery) -> None:
        self._core = core
        self._done: concurrent.futures.Future[SendResult] = concurrent.futures.Future()
        core.when_done(self._complete)

    def _complete(self, outcome: SendResult | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self._done.set_exception(outcome)
        else:
            self._done.set_result(outcome)

    @property
    def message(self) -> Message:
        """The message that was submitted."""
        return self._core.message

    def done(self) -> bool:
        """True if the fate of the message is known."""
        return self._done.done()

    def result(self, timeout_seconds: float | None = None) -> SendResult:
        """The message's place. Raises the reason of a failure; TimeoutError while that is unknown."""
        self._core.watch()
        return self._done.result(timeout_seconds)


class _Watched(SyncWrapper[WatchedT]):
    """The state of a client, for probes."""

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._core.client_id

    @property
    def healthy(self) -> bool:
        """True if it runs and nothing fails at present: for probes."""
        return self._core.healthy

    @property
    def errors(self) -> dict[str, Exception]:
        """Failures at present, by subject."""
        return dict(self._core.errors)


class _Sending(_Watched[ProducerT]):
    """The methods of all producers."""

    queues = waiting(client.Producer.queues)
    send = waiting(client.Producer.send)
    flush = waiting(client.Producer.flush)
    request = waiting(client.Producer.request)
    send_oneway = waiting(client.Producer.send_oneway)
    send_batch = waiting(client.Producer.send_batch)
    send_all = waiting(client.Producer.send_all)
    recall = waiting(client.Producer.recall)
    close = waiting(client.Producer.close)

    def submit(
        self, message: Message, *, queue: MessageQueue | None = None, sharding_key: str | None = None
    ) -> Delivery:
        """Takes one message to be sent soon; see `orbitmq.Producer.submit`."""
        return self._run(_submitted(self._core, message, queue, sharding_key))


@documented(client.Producer)
class Producer(_Sending[client.Producer]):
    """`orbitmq.Producer`, waiting for every answer. Several threads may share one."""

    @constructor_of(client.Producer)
    def __init__(self) -> None: ...


@documented(client.TransactionProducer)
class TransactionProducer(_Sending[client.TransactionProducer]):
    """`orbitmq.TransactionProducer`, waiting for every answer. Local transactions run in the caller's thread,
    so that a database connection may belong to it; `check` runs in other threads.
    """

    @constructor_of(client.TransactionProducer)
    def __init__(self) -> None: ...

    send_half = waiting(client.TransactionProducer.send_half)
    end_transaction = waiting(client.TransactionProducer.end_transaction)

    def send_in_transaction(
        self,
        message: Message,
        execute: Callable[[SendResult], TransactionState],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: float | None = None,
    ) -> TransactionResult:
        """Sends a half message, runs `execute`, a plain function, in this thread, and has the message
        published or dropped; see `orbitmq.TransactionProducer.send_in_transaction`.
        """
        sent = self.send_half(
            message, queue=queue, selector=selector, sharding_key=sharding_key, timeout_ms=timeout_ms
        )
        state = TransactionState.ROLLBACK
        if sent.status is SendStatus.SEND_OK:
            state = TransactionState(execute(sent))
        return self.end_transaction(sent, state)


ConsumerT = TypeVar("ConsumerT", client.PushConsumer, client.LiteConsumer)


class _Consuming(_Watched[ConsumerT]):
    """The methods of all members of consumer groups."""

    hurry = on_loop(GroupMember.hurry)
    drain = waiting(GroupMember.drain)
    wait_closed = waiting(GroupMember.wait_closed)
    close = waiting(GroupMember.close)


@documented(client.PushConsumer)
class PushConsumer(_Consuming[client.PushConsumer], SubscribesFunctions):
    """`orbitmq.PushConsumer`; messages without a handler come by `for message in consumer`."""

    @constructor_of(client.PushConsumer)
    def __init__(self) -> None: ...

    subscribe = on_loop(client.PushConsumer.subscribe)
    unsubscribe = on_loop(client.PushConsumer.unsubscribe)
    pause = on_loop(client.PushConsumer.pause)
    resume = on_loop(client.PushConsumer.resume)

    @property
    def is_paused(self) -> bool:
        """True if nothing more is pulled."""
        return self._core.is_paused

    seek = waiting(client.PushConsumer.seek)
    ack = waiting(client.PushConsumer.ack)
    retry = waiting(client.PushConsumer.retry)
    reply = waiting(client.PushConsumer.reply)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now, sorted, without those of retry topics."""
        return self._core.queues

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Messages of topics that have no handler; each is done when the next one is asked for."""
        messages: AsyncIterator[ReceivedMessage] = self._run(later(self._core.__aiter__))
        while True:
            message = self._run(_next(messages))
            if message is None:
                return
            yield message


@documented(client.LiteConsumer)
class LiteConsumer(_Consuming[client.LiteConsumer]):
    """`orbitmq.LiteConsumer`, waiting for every answer."""

    @constructor_of(client.LiteConsumer)
    def __init__(self) -> None: ...

    subscribe = waiting(client.LiteConsumer.subscribe)
    unsubscribe = waiting(client.LiteConsumer.unsubscribe)

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics that it subscribes to now."""
        return self._core.lite_topics


async def _submitted(
    core: client.Producer, message: Message, queue: MessageQueue | None, sharding_key: str | None
) -> Delivery:
    return Delivery(await core.submit(message, queue=queue, sharding_key=sharding_key))


async def _next(messages: AsyncIterator[ReceivedMessage]) -> ReceivedMessage | None:
    """The next message, None when there are no more."""
    return await anext(messages, None)


def run(
    *clients: Producer | PushConsumer | LiteConsumer,
    timeout_ms: float | None = None,
    health: str | None = None,
    start_timeout_ms: float = START_TIMEOUT_MS,
) -> int:
    """Starts consumers, and producers that their handlers need, and runs them until they are to stop.

    See `orbitmq.run`. Has to be called in the main thread.
    """
    check_clients(clients, (Producer, _Consuming))
    background = get_background()
    for one in clients:
        one._background = background
    stopping = Stopping()
    with signals(lambda: background.start(later(stopping.signalled))):
        cores = [one._core for one in clients]
        return background.run(run_until(stopping, cores, timeout_ms, health, start_timeout_ms))


@documented(client.PullConsumer)
class PullConsumer(SyncWrapper[client.PullConsumer]):
    """`orbitmq.PullConsumer`, waiting for every answer."""

    @constructor_of(client.PullConsumer)
    def __init__(self) -> None: ...

    queues = waiting(client.PullConsumer.queues)
    pull = waiting(client.PullConsumer.pull)
    min_offset = waiting(client.PullConsumer.min_offset)
    max_offset = waiting(client.PullConsumer.max_offset)
    offset_at = waiting(client.PullConsumer.offset_at)
    committed = waiting(client.PullConsumer.committed)
    commit = waiting(client.PullConsumer.commit)
    close = waiting(client.PullConsumer.close)


class Admin(SyncWrapper[admin.Admin]):
    """`orbitmq.Admin`, waiting for every answer."""

    @constructor_of(admin.Admin)
    def __init__(self) -> None: ...

    create_topic = waiting(admin.Admin.create_topic)
    delete_topic = waiting(admin.Admin.delete_topic)
    topics = waiting(admin.Admin.topics)
    topic_route = waiting(admin.Admin.topic_route)
    topic_status = waiting(admin.Admin.topic_status)
    set_topic_perm = waiting(admin.Admin.set_topic_perm)
    create_group = waiting(admin.Admin.create_group)
    delete_group = waiting(admin.Admin.delete_group)
    group_connections = waiting(admin.Admin.group_connections)
    broker_status = waiting(admin.Admin.broker_status)
    groups = waiting(admin.Admin.groups)
    group_progress = waiting(admin.Admin.group_progress)
    reset_offsets = waiting(admin.Admin.reset_offsets)
    set_offset = waiting(admin.Admin.set_offset)
    view_message = waiting(admin.Admin.view_message)
    message_at = waiting(admin.Admin.message_at)
    query_messages = waiting(admin.Admin.query_messages)
    cluster_list = waiting(admin.Admin.cluster_list)
    broker_config = waiting(admin.Admin.broker_config)
    set_broker_config = waiting(admin.Admin.set_broker_config)
    close = waiting(admin.Admin.close)
