"""The queues that are ours: shared out among the group's members, taken over, and given up again."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from orbitmq.client.consumer.consuming import Consumption
from orbitmq.client.consumer.context import ConsumerContext
from orbitmq.client.consumer.ordering import LockedConsumption, QueueLocks
from orbitmq.client.consumer.process_queue import ProcessQueue
from orbitmq.client.consumer.pulling import Limits, QueuePull
from orbitmq.client.core.background import Kept
from orbitmq.client.core.errors import FiltersDiffer, SeekFailed
from orbitmq.client.core.instance import CALLBACK, now_ms
from orbitmq.client.core.options import FIRST_OFFSET, LAST_OFFSET, TIMESTAMP
from orbitmq.client.core.rebalance import share_of
from orbitmq.client.core.routes import TopicRoute
from orbitmq.protocol.bodies.heartbeat import FilterOfMembers, GetConsumerListByGroupResponseBody
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import OrbitError, PeerFailed
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.requests.client import GetConsumerListByGroup
from orbitmq.protocol.requests.offset import GetMaxOffset, SearchOffsetByTimestamp

UNBALANCED_PAUSE_SECONDS = 1.0
HALF_AN_HOUR_MS = 1_800_000


class Assignment:
    """The queues at hand, each with its pull."""

    def __init__(self, session: ConsumerContext, locks: QueueLocks | None) -> None:
        self._session = session
        self._pulls: dict[MessageQueue, QueuePull] = {}
        self._tasks: dict[MessageQueue, Kept] = {}
        self._locks = locks
        self._consumption: Consumption | None = None
        self._suspended: Counter[str] = Counter()
        """Topics whose queues are not taken, for resets are under way, with the number of these."""
        self._turn = asyncio.Lock()  # queues are taken and given up by one task at a time
        self.wake = asyncio.Event()
        """Set to have the queues shared out at once."""

    def feed(self, consumption: Consumption) -> None:
        """Says who works off what is pulled."""
        self._consumption = consumption

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are ours now."""
        return list(self._pulls)

    def held(self, queue: MessageQueue) -> ProcessQueue | None:
        """The process queue that is held of a queue that is ours."""
        pull = self._pulls.get(queue)
        return pull.held if pull is not None else None

    def pull_again(self) -> None:
        """Has every queue look again whether it may be pulled."""
        for pull in self._pulls.values():
            pull.held.room.set()

    # Sharing out.

    async def run(self, first_pass: asyncio.Event) -> None:
        """Shares out again and again until cancelled; `first_pass` is set after the first time."""
        try:
            while True:
                self.wake.clear()
                balanced = await self._pass()
                first_pass.set()
                options = self._session.options
                pause = options.rebalance_interval_ms / 1000 if balanced else UNBALANCED_PAUSE_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self.wake.wait()
        finally:
            first_pass.set()  # a handler may have closed the consumer before its first pass was over

    async def _pass(self) -> bool:
        instance = self._session.instance
        try:
            async with self._turn:
                balanced = await self.rebalance()
        except Exception as error:
            instance.report("rebalance", error)
            return False
        instance.recovered("rebalance")
        return balanced

    async def rebalance(self) -> bool:
        """One pass over all topics; False where something was in the way and it should soon be repeated."""
        balanced = True
        for topic in list(self._session.subscriptions):
            if self._suspended[topic]:
                continue
            try:
                balanced = await self._rebalance_topic(topic) and balanced
            except OrbitError as error:
                self._session.instance.report(sharing_of(topic), error)
                balanced = False
            else:
                self._session.instance.recovered(sharing_of(topic))
        given_up = [queue for queue in self._pulls if queue.topic not in self._session.subscriptions]
        await self.drop(given_up)
        return balanced

    async def _rebalance_topic(self, topic: str) -> bool:
        session = self._session
        route = await session.instance.routes.route(topic)
        if route is None:
            if topic.startswith(RETRY_PREFIX):
                return False  # a broker makes it when it hears of the group
            raise await session.instance.routes.not_found(topic)
        await session.instance.introduce(_addresses(route))
        if session.options.broadcasting:
            mine = set(route.subscribe_queues)
        else:
            members = await self._members_of_group(route)
            clients = members.consumer_id_list or []
            self._compare_filters(topic, members.filters_of_members or [])
            me = session.instance.client_id
            if not clients or me not in clients:
                return False  # the members are unknown: nothing changes in this pass
            mine = share_of(session.options.strategy, route.subscribe_queues, clients, me)
        now = now_ms()
        lost = [
            queue
            for queue, pull in self._pulls.items()
            if queue.topic == topic and (queue not in mine or pull.held.dropped or pull.is_idle(now))
        ]
        await self.drop(lost)
        new = sorted(queue for queue in mine if queue not in self._pulls)
        complete = True
        if new and self._locks is not None:
            ours = await self._locks.lock(new)
            complete = len(ours) == len(new)
            new = [queue for queue in new if queue in ours]
        complete = await self._start_pulls(topic, new) and complete
        if lost or new:
            self._share_limits(topic)
        return complete

    def _compare_filters(self, topic: str, differing: list[FilterOfMembers]) -> None:
        """Says that members read a topic by different filters, once for each change, and that they agree
        again.
        """
        session = self._session
        filters = ", ".join(str(one) for one in differing if one.topic == topic)
        if filters:
            session.instance.report(filters_of(topic), FiltersDiffer(session.group, topic, filters))
        else:
            session.instance.recovered(filters_of(topic))

    async def _members_of_group(self, route: TopicRoute) -> GetConsumerListByGroupResponseBody:
        instance = self._session.instance
        addresses = _addresses(route)
        random.shuffle(addresses)
        error: OrbitError | None = None
        for address in addresses:
            try:
                return (await instance.call(address, GetConsumerListByGroup(self._session.group))).body
            except PeerFailed:
                return GetConsumerListByGroupResponseBody()  # no member is known there, nor are we
            except OrbitError as failed:
                error = failed
        if error is not None:
            raise error
        return GetConsumerListByGroupResponseBody()

    def _share_limits(self, topic: str) -> None:
        pulls = [pull for queue, pull in self._pulls.items() if queue.topic == topic]
        for pull in pulls:
            pull.limits = self._limits(len(pulls))
            pull.held.room.set()

    def _limits(self, queues_of_topic: int) -> Limits:
        options = self._session.options
        count, mib = options.pull_threshold_for_queue, options.pull_threshold_size_for_queue_mib
        if options.pull_threshold_for_topic != -1:
            count = max(1, options.pull_threshold_for_topic // queues_of_topic)
        if options.pull_threshold_size_for_topic_mib != -1:
            mib = max(1, options.pull_threshold_size_for_topic_mib // queues_of_topic)
        return Limits(count, mib << 20, None if options.ordered else options.consume_concurrently_max_span)

    # Taking and giving up.

    async def _start_pulls(self, topic: str, queues: Sequence[MessageQueue]) -> bool:
        """Begins to pull queues; false where it is not known of each where to begin."""
        instance = self._session.instance
        offsets = await asyncio.gather(*map(self._start_offset, queues), return_exceptions=True)
        error = None
        for queue, offset in zip(queues, offsets, strict=True):
            if isinstance(offset, int):
                self._pull(queue, offset)
            elif isinstance(offset, OrbitError | LookupError):
                error = offset
            else:
                raise offset
        taken = [queue for queue, offset in zip(queues, offsets, strict=True) if isinstance(offset, int)]
        self._call_back(self._session.options.on_assigned, taken)
        if error is not None:
            instance.report(offsets_of(topic), error)
        else:
            instance.recovered(offsets_of(topic))
        return error is None

    def _pull(self, queue: MessageQueue, offset: int) -> None:
        session, consumption = self._session, self._consumption
        assert consumption is not None
        held = ProcessQueue(queue, now_ms(), session.offsets.set(queue, offset))
        if isinstance(consumption, LockedConsumption):
            consumption.locked(held, True)
        pull = QueuePull(session, held, offset, self._limits(1), consumption.deliver, self._moved)
        self._pulls[queue] = pull
        consumption.taken(held)
        self._tasks[queue] = session.instance.tasks.keep(
            pull.run, f"pull {queue.topic} {queue.broker_name}:{queue.queue_id}"
        )

    async def _start_offset(self, queue: MessageQueue) -> int:
        session = self._session
        stored = await session.offsets.stored(queue)
        if stored is not None and stored >= 0:
            return stored
        where = session.options.consume_from_where
        if where == FIRST_OFFSET:
            return 0
        retried = queue.topic.startswith(RETRY_PREFIX)
        if where == LAST_OFFSET and retried:
            return 0
        address = session.offsets.address(queue)
        if address is None:
            raise LookupError(f"no address of broker {queue.broker_name} is known")
        if where == TIMESTAMP and not retried:
            since = session.options.consume_timestamp_ms
            if since is None:
                since = session.instance.started_ms - HALF_AN_HOUR_MS
            search = SearchOffsetByTimestamp(
                queue.topic, queue.queue_id, since, broker_name=queue.broker_name
            )
            return (await session.instance.call(address, search)).offset
        end = GetMaxOffset(queue.topic, queue.queue_id, broker_name=queue.broker_name)
        return (await session.instance.call(address, end)).offset

    async def drop(self, queues: Collection[MessageQueue]) -> None:
        """Gives queues up, after committing their offsets."""
        dropped = [pull.held for queue in queues if (pull := self._pulls.get(queue)) is not None]
        if not dropped:
            return
        for held in dropped:
            held.dropped = True
            held.room.set()
            self._tasks[held.queue].cancel()
        consumption = self._consumption
        assert consumption is not None
        await asyncio.gather(*(consumption.dropped(held) for held in dropped))
        await self._session.offsets.commit((held.queue for held in dropped), confirmed=True)
        await asyncio.gather(*(consumption.released(held) for held in dropped))
        # Only now: a consumer that is closed in between still commits the offsets of these.
        for held in dropped:
            del self._pulls[held.queue], self._tasks[held.queue]
            self._session.offsets.forget(held.queue)
        self.report_revoked([held.queue for held in dropped])

    def report_revoked(self, queues: Collection[MessageQueue]) -> None:
        """Calls `on_revoked` with queues that another member has now."""
        self._call_back(self._session.options.on_revoked, queues)

    def _call_back(
        self, listener: Callable[[list[MessageQueue]], object] | None, queues: Collection[MessageQueue]
    ) -> None:
        theirs = sorted(queue for queue in queues if not queue.topic.startswith(RETRY_PREFIX))
        if listener is not None and theirs:
            try:
                listener(theirs)
            except Exception as error:
                self._session.instance.report(CALLBACK, error, lasting=False)

    def _moved(self, pull: QueuePull, offset: int) -> None:
        """The queue does not reach where we are: it is taken again where the broker says."""
        queue = pull.held.queue
        session = self._session

        async def take_again() -> None:
            async with self._turn:
                if self._pulls.get(queue) is pull:
                    session.offsets.set(queue, offset)
                    await self.drop([queue])
            self.wake.set()

        session.instance.tasks.start(take_again(), f"moved offset of {queue}")

    async def commit(self, *, confirmed: bool = False) -> None:
        """Tells the brokers how far each queue is done."""
        await self._session.offsets.commit(self.queues, confirmed=confirmed)

    async def seek(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continues at other offsets, at once. Raises SeekFailed where a broker does not confirm them."""
        for topic in sorted({queue.topic for queue in offsets}):
            await self.reset(topic, dict(offsets), 0, confirmed=True)

    async def reset(
        self, topic: str, offsets: dict[MessageQueue, int], wait_seconds: float, *, confirmed: bool = False
    ) -> None:
        """Continues at other offsets: queues are given up, handlers have a while to end, offsets are set."""
        self._suspended[topic] += 1
        try:
            async with self._turn:
                mine = [queue for queue in self._pulls if queue.topic == topic and queue in offsets]
                if not mine:
                    return
                held = [self._pulls[queue].held for queue in mine]
                await self.drop(mine)
            for one in held:
                one.clear()
            await asyncio.sleep(wait_seconds)
            for queue in mine:
                self._session.offsets.set(queue, offsets[queue])
            await self._session.offsets.commit(mine, confirmed=True)
            for queue in mine if confirmed else ():
                if (stored := await self._session.offsets.stored(queue)) != offsets[queue]:
                    raise SeekFailed(f"{queue} stays at {stored}: its broker did not take {offsets[queue]}")
        finally:
            self._suspended[topic] -= 1
            self.wake.set()

    async def close(self) -> None:
        """Stops pulling; what is held may still be finished and committed."""
        for kept in self._tasks.values():
            kept.cancel()
        await asyncio.gather(*(kept.task for kept in self._tasks.values()), return_exceptions=True)


def sharing_of(topic: str) -> str:
    """Name in `errors` of a failure to share out a topic's queues."""
    return f"rebalance of {topic}"


def filters_of(topic: str) -> str:
    """Name in `errors` of different filters of the group's members."""
    return f"different filters of {topic}"


def offsets_of(topic: str) -> str:
    """Name of the failure to find out where to begin."""
    return f"offsets of {topic}"


def _addresses(route: TopicRoute) -> list[str]:
    return [address for members in route.brokers.values() for address in members.values()]
