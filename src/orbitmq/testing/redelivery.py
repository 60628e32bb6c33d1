"""A broker's topics whose messages all come three times: out of order, and several at a time.

RocketMQ delivers at least once; tests see mostly once. In this mode each message is copied twice to other
queues of its topic, as a broker or a rebalance would deliver it again: same body, keys, tags and id.
"""

from __future__ import annotations

import random
import threading

from orbitmq.client import MessageQueue, ReceivedMessage
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import AUTO_CREATE_TOPIC, KEYS, RESERVED_PROPERTIES, SHARDING_KEY, TAGS, UNIQ_KEY
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.sync import PullConsumer
from orbitmq.testing.local_broker import Isolated, LocalBroker

COPY = "orbitmqRedelivery"
"""The property by which a copy is known: it is not copied again."""
COPIES = 2
KEPT = (UNIQ_KEY, KEYS, TAGS, SHARDING_KEY)
GROUP = "orbitmq-redelivery"
IDLE_SECONDS = 0.02
QUEUES = 4


class Redelivering(Isolated):
    """One test's part of a broker, whose topics deliver every message three times.

    `seed` decides the order. The topics are read by a thread, from when `topic` makes them until `stop`.
    """

    def __init__(self, shared: LocalBroker, *, seed: int = 1) -> None:
        super().__init__(shared)
        self._random = random.Random(seed)
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self.errors: list[Exception] = []
        """Failures of the thread, which end the redelivery of their topic."""

    def topic(self, name: str = "topic", queues: int = QUEUES) -> str:
        """An empty topic that no other test has, each message of which comes three times."""
        known = set(self._topics)
        own = super().topic(name, queues)
        if own not in known:
            thread = threading.Thread(target=self._redeliver, args=(own,), name=f"redelivery of {own}")
            thread.start()
            self._threads.append(thread)
        return own

    def stop(self) -> None:
        """End the redelivery. Raises the first failure of it."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _redeliver(self, topic: str) -> None:
        try:
            with PullConsumer(GROUP, self.namesrv) as consumer, BlockingConnection(self.broker) as broker:
                offsets: dict[MessageQueue, int] = dict.fromkeys(consumer.queues(topic), 0)
                while not self._stopped.is_set():
                    found: list[ReceivedMessage] = []
                    for queue, offset in offsets.items():
                        pulled = consumer.pull(queue, offset)
                        offsets[queue] = pulled.next_offset
                        found += [message for message in pulled if COPY not in message.properties]
                    self._send_copies(broker, topic, found, len(offsets))
                    if not found:
                        self._stopped.wait(IDLE_SECONDS)
        except OrbitError as error:
            self.errors.append(error)

    def _send_copies(
        self, broker: BlockingConnection, topic: str, found: list[ReceivedMessage], queues: int
    ) -> None:
        copies = found * COPIES
        self._random.shuffle(copies)
        for message in copies:
            properties = {
                name: value
                for name, value in message.properties.items()
                if name in KEPT or name not in RESERVED_PROPERTIES
            }
            properties[COPY] = "1"
            broker.call(
                SendMessageV2(
                    GROUP,
                    topic,
                    AUTO_CREATE_TOPIC,
                    queues,
                    self._random.randrange(queues),
                    0,
                    message.born_timestamp_ms,
                    message.flag,
                    encode_properties(properties).decode(),
                    0,
                    False,
                    None,
                    False,
                    None,
                    bytes(message.body),
                )
            )
