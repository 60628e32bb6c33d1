"""Topics and brokers as this client knows them, kept fresh in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from orbitmq.client.core.errors import NoMasterNow, TopicNotFound
from orbitmq.client.core.routes import Addresses, TopicRoute
from orbitmq.net.name_servers import NameServers
from orbitmq.net.near_names import near_topics
from orbitmq.net.shared import result_of
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import MASTER_ID
from orbitmq.protocol.errors import BrokerRefused, MalformedReply

MOST_NEAR = 100
"""Unknown topics for which names like theirs are kept: who asks again does not fetch all names again."""


class RouteTable:
    """Routes by topic. Callers that ask for one that is being looked up wait for the same answer.

    `on_change(topic)` is called when a known topic's route has become another one.
    """

    def __init__(self, names: NameServers, on_change: Callable[[str], None]) -> None:
        self._names = names
        self._on_change = on_change
        self._routes: dict[str, TopicRoute] = {}
        self._templates: dict[str, TopicRoute] = {}
        self._looking: dict[str, asyncio.Task[TopicRoute | None]] = {}
        self._members: dict[str, Addresses] = {}
        self._near: dict[str, list[str]] = {}

    def known(self, topic: str) -> TopicRoute | None:
        """The route as it was last heard of."""
        return self._routes.get(topic)

    async def route(self, topic: str) -> TopicRoute | None:
        """The route, looked up if need be; None where no name server knows the topic.

        Raises NoNameServer, BrokerRefused, MalformedReply, Closed.
        """
        return self._routes.get(topic) or await self.refresh(topic)

    def known_to_publish(self, topic: str) -> TopicRoute | None:
        """The route that `route_to_publish` would give without a look-up; None where it needs one."""
        route = self._routes.get(topic) or self._templates.get(topic)
        return route if route is not None and route.publish_queues else None

    async def route_to_publish(self, topic: str, template: str, queue_nums: int) -> TopicRoute:
        """The route, or for a topic that does not exist yet one after `template`.

        Raises TopicNotFound, NoMasterNow, NoNameServer, BrokerRefused, MalformedReply, Closed.
        """
        route = self._routes.get(topic) or self._templates.get(topic)
        if route is None:
            route = await self.refresh(topic)
        if route is None:
            model = await self.route(template)
            if model is None:
                raise await self.not_found(
                    topic, "the name servers do not know it, and no broker would create it"
                )
            route = self._templates[topic] = model.template_for(topic, queue_nums)
        if not route.publish_queues:
            self._templates.pop(topic, None)
            route = (await self.refresh(topic) or route) if topic in self._routes else route
            if not route.publish_queues:
                if route.lacks_master:
                    raise NoMasterNow(topic)
                raise TopicNotFound(topic, "it has no queue that can be written to now")
        return route

    async def not_found(self, topic: str, why: str = "the name servers do not know it") -> TopicNotFound:
        """The error for an unknown topic, with the names of topics that are like it."""
        near = self._near.get(topic)
        if near is None:
            near = await near_topics(self._names, topic)
            if len(self._near) < MOST_NEAR:
                self._near[topic] = near
        return TopicNotFound(topic, why, near)

    def is_template(self, topic: str) -> bool:
        """True if sends to the topic go by the model, because it was not known when last looked up."""
        return topic in self._templates

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Looks a topic up now. Raises NoNameServer, BrokerRefused, MalformedReply, Closed."""
        task = self._looking.get(topic)
        if task is None:
            task = asyncio.create_task(self._look_up(topic), name=f"route of {topic}")
            self._looking[topic] = task
            task.add_done_callback(lambda done: self._looked_up(topic, done))
        return await result_of(task, "the client is closed")

    def _looked_up(self, topic: str, task: asyncio.Task[TopicRoute | None]) -> None:
        self._looking.pop(topic, None)
        if not task.cancelled():
            task.exception()  # every waiter has it

    async def _look_up(self, topic: str) -> TopicRoute | None:
        data = await self._names.route(topic)
        if data is None:
            # Known routes stay: a name server that has just started does not know its brokers yet.
            return self._routes.get(topic)
        route = TopicRoute(topic, data)
        self._templates.pop(topic, None)
        if self._routes.get(topic) != route:
            self._routes[topic] = route
            self._index_members()
            self._on_change(topic)
        return self._routes[topic]

    async def refresh_all(self) -> None:
        """Looks every topic up again that is known, or stands under the model.

        Raises NoNameServer, Closed; BrokerRefused and MalformedReply, once the others have been looked up.
        """
        refused = None
        for topic in [*self._routes, *self._templates]:
            try:
                await self.refresh(topic)
            except (BrokerRefused, MalformedReply) as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def _index_members(self) -> None:
        self._members = {
            name: members
            for route in self._routes.values()
            for name, members in route.brokers.items()
            if members
        }

    def members(self, broker_name: str) -> Addresses:
        """The addresses of a broker group by broker id; empty if it is not known."""
        return self._members.get(broker_name, {})

    def master(self, broker_name: str) -> str | None:
        """The address to send to."""
        return self.members(broker_name).get(MASTER_ID)

    def broker_of(self, queue: MessageQueue) -> str:
        """The broker that has a queue: its own, or that which leads a logical one."""
        route = self._routes.get(queue.topic)
        return queue.broker_name if route is None else route.broker_of(queue)

    def members_of(self, queue: MessageQueue) -> Addresses:
        """The addresses of a queue's broker group by broker id; empty if it is not known."""
        return self.members(self.broker_of(queue))

    def master_of(self, queue: MessageQueue) -> str | None:
        """The address to send to, for a queue."""
        return self.members_of(queue).get(MASTER_ID)

    def addresses(self, *, slaves: bool) -> list[str]:
        """Every broker known, masters only or slaves too."""
        return [
            address
            for members in self._members.values()
            for broker_id, address in members.items()
            if slaves or broker_id == MASTER_ID
        ]

    async def close(self) -> None:
        """Ends the look-ups under way."""
        for task in list(self._looking.values()):
            task.cancel()
