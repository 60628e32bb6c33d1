"""Answers to requests for logical queues: rules, carried out here and at other brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.static_topic.options import StaticTopicOptions
from orbitmq.broker.static_topic.rules import RULES, Rest, Rule, Work
from orbitmq.handling.call import BoundHandler, Call, DataAt, OtherBroker, Outcome, Result, Signal, Wait
from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem, TopicQueueMappingDetail
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError, Refused
from orbitmq.protocol.requests.pull import PullReply
from orbitmq.protocol.schema.declare import Reply, Request
from orbitmq.store import MessageStore

REST_MS = 200
"""Wait before the answer to a pull that may be held, and for which there is nothing at an earlier broker."""

Heard: TypeAlias = "Reply | Refused | None"
"""The last answer that a rule is given; None before the first."""


@dataclass(slots=True)
class StaticTables:
    """Tables that requests for logical queues look at."""

    identity: BrokerIdentity
    settings: StaticTopicOptions
    topics: TopicTable
    store: MessageStore


class Serving:
    """Handlers of requests that name a queue. For queues of ordinary topics they are those of `physical`."""

    def __init__(self, tables: StaticTables, physical: dict[int, BoundHandler]) -> None:
        self._tables = tables
        self._physical = dict(physical)

    def handlers(self) -> dict[int, BoundHandler]:
        """The handlers by request code."""
        return {kind.CODE: partial(self._handle, rule) for kind, rule in RULES.items()}

    def _handle(self, rule: Rule, call: Call[Any], now: int) -> Result:
        request, static = call.request, self._tables.topics.static
        mapping = static.by_topic.get(request.topic)
        if mapping is None:
            return self._physical[request.CODE](call, now)
        if request.logical is False:
            return self._ask_here(request, request.queue_id, call, now)
        work = rule(static.items_led(mapping, request.queue_id), request)
        result = self._go_on(work, None, call, now)
        if isinstance(result, Wait) and isinstance(result.on[0], DataAt):
            return self._until_moved(result, mapping, request.queue_id)
        return result

    def _until_moved(self, wait: Wait, mapping: TopicQueueMappingDetail, global_id: int) -> Wait:
        """Ends a wait for messages when the mapping changes: they may be stored elsewhere from now on."""
        static, topic = self._tables.topics.static, mapping.topic

        def then(outcome: Outcome, later: int) -> Result:
            current = static.by_topic.get(topic)
            if current is mapping or current is None:
                return _whole(wait.then(outcome, later))
            static.items_led(current, global_id)
            return _whole(wait.then(Outcome(timed_out=True), later))

        return replace(wait, on=(*wait.on, static.change_of(topic)), any_of=True, then=then)

    def _go_on(self, work: Work, heard: Heard, call: Call[Any], now: int) -> Result:
        """Gives a rule the last answer, and asks what it asks next."""
        try:
            step = work.throw(heard) if isinstance(heard, Refused) else work.send(heard)
        except StopIteration as done:
            reply: Reply = done.value
            return reply

        def go_on(heard: Heard, later: int) -> Result:
            return self._go_on(work, heard, call, later)

        if isinstance(step, Rest):
            return Wait((Signal(),), now + REST_MS, lambda outcome, later: go_on(None, later))
        return _then(lambda at: self._ask(step.item, step.request, call, at), go_on, now)

    def _ask(self, item: LogicQueueMappingItem, request: Request[Any], call: Call[Any], now: int) -> Result:
        if item.bname == self._tables.identity.name:
            return self._ask_here(request, item.queue_id, call, now)
        question = OtherBroker(item.bname, request)
        heard = partial(_reply_of, question)
        return Wait((question,), now + self._tables.settings.forward_timeout, heard)

    def _ask_here(self, request: Request[Any], queue_id: int, call: Call[Any], now: int) -> Result:
        """Asks a physical queue of this broker. A pull hears of all that is stored, messages that are not
        shown yet as well: who reads on at the next stretch would pass over them.
        """

        def ask(at: int) -> Result:
            return self._physical[request.CODE](Call(request, call.command, call.peer), at)

        def with_end(heard: Heard, later: int) -> Result:
            if isinstance(heard, Refused):
                raise heard
            if isinstance(heard, PullReply):
                end = self._tables.store.queue_end(call.request.topic, queue_id)
                heard.max_offset = max(heard.max_offset, end)
            return heard

        return _then(ask, with_end, now)


def _reply_of(question: OtherBroker, outcome: Outcome, now: int) -> Reply:
    """The reply of another broker. Raises Refused."""
    error = outcome.error
    if isinstance(error, BrokerRefused):
        raise Refused(error.code, error.remark or "")
    if error is not None or outcome.timed_out:
        why = f"in time: {error}" if isinstance(error, OrbitError) else "in time"
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"the broker {question.name}, which holds earlier messages of this queue, did not answer {why}",
        )
    reply: Reply = outcome.value
    reply.extra = None  # its fields as they came, which rules change
    return reply


def _then(ask: Callable[[int], Result], go_on: Callable[[Heard, int], Result], now: int) -> Result:
    """The result of `go_on` with the answer that `ask` comes to, at once or after waiting."""
    try:
        result = ask(now)
    except Refused as refused:
        return go_on(refused, now)
    if isinstance(result, Wait):
        then = result.then
        return replace(
            result, then=lambda outcome, later: _then(lambda at: _whole(then(outcome, at)), go_on, later)
        )
    return go_on(result, now)


def _whole(result: Result | bytes) -> Result:
    assert not isinstance(result, bytes), "only fast paths make frames, and they take no static topics"
    return result
