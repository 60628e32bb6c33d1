"""Rules of a consumer's subscriptions, checked when a program subscribes."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, TypeVar

from orbitmq.client.consumer.context import Subscription
from orbitmq.client.core.calling import is_async
from orbitmq.client.core.checking import check_number, shown
from orbitmq.client.core.errors import CannotIterate, InvalidArgument
from orbitmq.client.core.handlers import BatchHandler, ConsumerHandler, Handler
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.options import ConsumerOptions
from orbitmq.client.core.serializer import Serializer
from orbitmq.client.core.subscription import Wanted, subscription

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


class SubscribesFunctions:
    """The decorator of consumers that call functions."""

    def subscribe(self, *given: Any, **named: Any) -> Any:
        """Has a function handle the messages of a topic."""
        raise NotImplementedError

    def on(
        self,
        topic: str,
        tags: Wanted = "*",
        *,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        max_wait_ms: float = 0,
        manual_ack: bool = False,
        serializer: Serializer[Any] | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """A decorator that subscribes: the function handles messages of `topic`, as with `subscribe`.

        @consumer.on("orders", tags="new || changed")
        async def bill(message: ReceivedMessage) -> None: ...
        """

        def subscribed(handler: HandlerT) -> HandlerT:
            self.subscribe(
                topic,
                tags,
                handler,
                timeout_ms=timeout_ms,
                max_messages=max_messages,
                max_wait_ms=max_wait_ms,
                manual_ack=manual_ack,
                serializer=serializer,
            )
            return handler

        return subscribed


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `PushConsumer.subscribe`."""

    topic: str
    tags: Wanted
    handler: Handler | BatchHandler | None
    timeout_ms: float | None
    max_messages: int | None
    max_wait_ms: float
    manual_ack: bool
    serializer: Serializer[Any] | None

    def check(self, options: ConsumerOptions, subscribed: Container[str]) -> None:
        """Raises InvalidArgument and CannotIterate for what a consumer with these options cannot do;
        `subscribed` are the topics that it has subscribed to before.
        """
        owner = f"{type(options).__name__}.subscribe"
        self._check_types(owner)
        self._check_handler(owner, options)
        if wrap(options.namespace, self.topic) in subscribed:
            raise InvalidArgument(
                f"{owner}: {self.topic} is subscribed to already: "
                "unsubscribe it first to change tags or handler"
            )
        self._check_batches(owner, options)
        if self.manual_ack and (self.handler is None or options.in_order):
            raise InvalidArgument(f"{owner}: manual_ack is for handlers, and not for ordered consumers")

    def _check_types(self, owner: str) -> None:
        if not isinstance(self.topic, str):
            raise InvalidArgument(f"{owner}: topic has to be a text, not {shown(self.topic)}")
        if self.handler is not None and not callable(self.handler):
            raise InvalidArgument(f"{owner}: handler has to be a function, not {shown(self.handler)}")
        if callable(self.tags):
            raise InvalidArgument(
                f"{owner}: tags has to be a text, several or Sql, not {shown(self.tags)}: "
                "is handler= missing?"
            )

    def _check_handler(self, owner: str, options: ConsumerOptions) -> None:
        if self.timeout_ms is not None:
            check_number(owner, "timeout_ms", self.timeout_ms, 1)
            if self.handler is None or not is_async(self.handler):
                raise InvalidArgument(f"{owner}: timeout_ms is for async handlers only")
        if options.in_order and self.handler is None:
            raise CannotIterate("an ordered consumer needs a handler for each topic")

    def _check_batches(self, owner: str, options: ConsumerOptions) -> None:
        check_number(owner, "max_wait_ms", self.max_wait_ms, 0, 60_000)
        if self.max_messages is None:
            if self.max_wait_ms:
                raise InvalidArgument(f"{owner}: max_wait_ms goes with max_messages")
            return
        check_number(owner, "max_messages", self.max_messages, 1, options.pull_threshold_for_queue)
        if not isinstance(self.max_messages, int):
            raise InvalidArgument(f"{owner}: max_messages has to be an int, not {shown(self.max_messages)}")
        if self.handler is None:
            raise InvalidArgument(f"{owner}: max_messages is for handlers")
        for name in ("max_in_flight_per_key", "ordered_by_key"):
            if getattr(options, name):
                raise InvalidArgument(f"{owner}: {name} is for handlers of single messages")

    def subscription(self, topic: str, group: str, now: int) -> Subscription:
        """The subscription of a group to a topic, whose name includes the namespace.

        Raises InvalidArgument for a handler that does not fit.
        """
        handler = self.handler
        if isinstance(handler, ConsumerHandler):
            handler = handler.for_group(group, batch=self.max_messages is not None)
        return Subscription(
            subscription(topic, self.tags, now),
            handler,
            handler is not None and is_async(handler),
            self.timeout_ms,
            self.max_messages,
            self.max_wait_ms,
            self.serializer,
            self.manual_ack,
        )
