"""Routes for sends, for a task without an event loop."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.client.core.routes import TopicRoute
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import MASTER_ID
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.connecting import Connecting
from orbitmq.spark.sink.errors import WriteFailed


class Routes:
    """Routes of topics, from any of the name servers, looked up once and again on request."""

    def __init__(self, namesrv: Sequence[str], connecting: Connecting) -> None:
        self._namesrv = namesrv
        self._connecting = connecting
        self._known: dict[str, TopicRoute] = {}

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Queues that can be written to. Raises BadOption for an unknown topic, WriteFailed."""
        queues = self.route(topic).publish_queues
        if not queues:
            queues = self.refresh(topic).publish_queues
        if not queues:
            raise WriteFailed(f"topic {topic} has no queue that can be written to now")
        return queues

    def masters(self, topic: str) -> list[str]:
        """Addresses of the topic's brokers. Raises WriteFailed where one of them has no master now."""
        addresses = []
        for name, members in sorted(self.route(topic).brokers.items()):
            if MASTER_ID not in members:
                raise WriteFailed(f"broker {name} of topic {topic} has no master now")
            addresses.append(members[MASTER_ID])
        return addresses

    def masters_if_known(self, topic: str) -> list[str]:
        """The same; none for an unknown topic."""
        try:
            return self.masters(topic)
        except BadOption:
            return []

    def master(self, queue: MessageQueue) -> str:
        """The address to send to. Raises WriteFailed."""
        route = self.route(queue.topic)
        address = route.brokers.get(route.broker_of(queue), {}).get(MASTER_ID)
        if address is None:
            raise WriteFailed(f"broker {route.broker_of(queue)} of topic {queue.topic} has no master now")
        return address

    def route(self, topic: str) -> TopicRoute:
        """The route as it was last heard of. Raises what `refresh` raises."""
        return self._known.get(topic) or self.refresh(topic)

    def refresh(self, topic: str) -> TopicRoute:
        """Looks a topic up now; what was known stays where no name server answers.

        Raises BadOption for a topic nobody knows, WriteFailed.
        """
        failures = []
        for address in self._namesrv:
            try:
                with self._connecting.connect(address) as connection:
                    data = connection.call(GetRouteinfoByTopic(topic)).body
            except BrokerRefused as error:
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    failures.append(f"{address} does not know it")
                    continue
                raise
            except NetError as error:
                failures.append(str(error))
                continue
            route = self._known[topic] = TopicRoute(topic, data)
            return route
        if topic in self._known:
            return self._known[topic]
        if all(failure.endswith("does not know it") for failure in failures):
            raise BadOption(f"topic {topic} does not exist: {'; '.join(failures)}. Create it first")
        raise WriteFailed(f"no route to topic {topic}: {'; '.join(failures)}")
