"""Operations of one well-behaved client, one after the other, and what each costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.watched import Watched
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.offset import GetMaxOffset, UpdateConsumerOffset
from orbitmq.protocol.requests.pull import MAY_BE_HELD, SUBSCRIPTION_IN_REQUEST, PullMessage
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from orbitmq.protocol.schema.declare import Request

PATIENCE_MS = 120_000
FILLED, PLAIN, WAKING = "ScaleFilled", "ScalePlain", "ScaleWaking"
GROUP = "ScaleProbe"
OPERATIONS = ("send", "pull", "heartbeat", "commit", "wake")


def now_ms() -> int:
    """Wall clock."""
    return time.time_ns() // 1_000_000


def send_request(topic: str, queue_id: int = 0, body: bytes = b"x" * 128) -> SendMessageV2:
    """One message; the topic is made on the way, with up to 8 queues."""
    return SendMessageV2("ScaleProducer", topic, "TBW102", 8, queue_id, 0, now_ms(), 0, "", body=body)


def batch_request(topic: str, queue_id: int, body: bytes, count: int) -> SendBatchMessage:
    """`count` messages in one request."""
    whole = encode_batch([(0, body, b"")] * count)
    return SendBatchMessage(
        *("ScaleProducer", topic, "TBW102", 8, queue_id, 0, now_ms(), 0, ""), batch=True, body=whole
    )


def pull_request(
    topic: str, queue_id: int, queue_offset: int, *, group: str = GROUP, hold_ms: int = 0, count: int = 32
) -> PullMessage:
    """A pull with its subscription, held for up to `hold_ms` where there is nothing."""
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        max_msg_nums=count,
        sys_flag=SUBSCRIPTION_IN_REQUEST | (MAY_BE_HELD if hold_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )


def topic_request(topic: str, queues: int) -> UpdateAndCreateTopic:
    """A topic of `queues` queues."""
    return UpdateAndCreateTopic(topic, "TBW102", queues, queues, 6, "SINGLE_TAG", False)


def heartbeat_request(client_id: str, group: str, topic: str) -> Heartbeat:
    """A client that produces, and consumes `topic` in `group`."""
    consumer = ConsumerData(group, subscription_data_set=[SubscriptionData(topic, "*", sub_version=1)])
    return Heartbeat(HeartbeatData(client_id, [ProducerData("ScaleProducer")], [consumer]))


def ahead(connection: BlockingConnection, requests: Iterable[Request[Any]], most: int = 256) -> None:
    """Sends requests with up to `most` under way. Raises what the first refused one says."""
    waiting: dict[int, Request[Any]] = {}

    def take() -> None:
        answer = connection.receive(PATIENCE_MS)
        request = waiting.pop(answer.opaque, None)
        if request is not None and answer.code not in (0, *request.accepts):
            raise RuntimeError(f"{type(request).__name__}: {answer.code} {answer.remark}")

    for request in requests:
        waiting[connection.send(request)] = request
        if len(waiting) >= most:
            take()
    while waiting:
        take()


class Probe:
    """The well-behaved client, on two connections."""

    def __init__(self, broker: Watched) -> None:
        self._broker = broker
        self.connection = BlockingConnection(broker.broker)
        self._other = BlockingConnection(broker.broker)
        self._waking_offset = 0

    def prepare(self) -> None:
        """Makes the topics that the operations need."""
        ahead(self.connection, [topic_request(topic, 1) for topic in (FILLED, PLAIN, WAKING)])
        ahead(self.connection, [send_request(FILLED) for _ in range(1000)])
        self.call(send_request(WAKING))
        self._waking_offset = self.max_offset(WAKING)
        for operation in self._operations().values():
            for _ in range(20):
                operation()

    def call(self, request: Request[Any]) -> Any:
        """One request and its reply."""
        return self.connection.call(request, PATIENCE_MS)

    def max_offset(self, topic: str, queue_id: int = 0) -> int:
        """End of a queue."""
        offset: int = self.call(GetMaxOffset(topic, queue_id)).offset
        return offset

    def _operations(self) -> dict[str, Callable[[], object]]:
        return {
            "send": lambda: self.call(send_request(PLAIN)),
            "pull": lambda: self.call(pull_request(FILLED, 0, 100)),
            "heartbeat": lambda: self.call(heartbeat_request("probe", GROUP, PLAIN)),
            "commit": lambda: self.call(UpdateConsumerOffset(GROUP, PLAIN, 0, 7)),
            "wake": self._wake,
        }

    def _wake(self) -> None:
        """A message comes into a queue that somebody waits at, and is handed to him."""
        self._other.send(pull_request(WAKING, 0, self._waking_offset, hold_ms=15_000))
        self.call(send_request(WAKING))
        self._other.receive(PATIENCE_MS)
        self._waking_offset += 1

    def measure(self, count: int) -> dict[str, float]:
        """Each operation `count` times: `NAME_us`, the median, `NAME_p99_us`, the broker's `NAME_cpu_us`."""
        figures: dict[str, float] = {}
        idle = self.idle_share(1.0)
        for name, operation in self._operations().items():
            figures |= self.cost(name, operation, count, idle)
        return figures | {"idle_ms_per_s": idle * 1000}

    def idle_share(self, seconds: float) -> float:
        """CPU time that the broker uses while nobody asks anything, per second."""
        before, began = self._broker.cpu_ns(), time.perf_counter()
        time.sleep(seconds)
        return (self._broker.cpu_ns() - before) / 1e9 / (time.perf_counter() - began)

    def cost(self, name: str, operation: Callable[[], object], count: int, idle: float) -> dict[str, float]:
        """Cost of one operation; `idle` is taken off the broker's CPU time."""
        took = []
        cpu, began = self._broker.cpu_ns(), time.perf_counter()
        for _ in range(count):
            before = time.perf_counter()
            operation()
            took.append(time.perf_counter() - before)
        elapsed = time.perf_counter() - began
        used = (self._broker.cpu_ns() - cpu) / 1e9 - idle * elapsed
        took.sort()
        return {
            f"{name}_us": took[count // 2] * 1e6,
            f"{name}_p99_us": took[count * 99 // 100] * 1e6,
            f"{name}_cpu_us": used / count * 1e6,
        }

    def close(self) -> None:
        """Closes both connections."""
        self.connection.close()
        self._other.close()
