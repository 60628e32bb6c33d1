"""Message trace that mqadmin reads, and names of a namespace that Java shares, over either broker."""

from __future__ import annotations

import re

import pytest

from orbitmq import FIRST_OFFSET, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage, Retry
from tests.client.conftest import Cluster
from tests.client.java import Java
from tests.client.naming import fresh, until


@pytest.mark.needs("java", "mvn")
async def test_mqadmin_reads_the_trace_of_a_message(cluster: Cluster) -> None:
    topic, trace_topic, group = fresh("traced"), fresh("trace"), fresh("g")
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        seen.append(message.reconsume_times)
        return Retry(1) if message.reconsume_times == 0 else None

    options = {"trace": True, "trace_topic": trace_topic}
    async with Producer(fresh("p"), cluster.namesrv) as plain:
        await plain.send(Message(trace_topic, b"makes the topic"))
    async with Producer("traced-producer", cluster.namesrv, **options) as producer:  # type: ignore[arg-type]
        sent = await producer.send(Message(topic, b"x", tags="t", keys=["k1", "k2"]))
        batch = await producer.send_batch([Message(topic, b"one"), Message(topic, b"two")])
        assert await producer.send_all(Message(topic, b"bulk", keys=f"bulk-{n}") for n in range(3)) == 3
        consumer = PushConsumer(group, cluster.namesrv, consume_from_where=FIRST_OFFSET, **options)  # type: ignore[arg-type]
        consumer.subscribe(topic, "t", handle)
        async with consumer:
            await until(lambda: seen == [0, 1])
    async with Java(cluster.namesrv) as java:
        told = await java.done(f"queryMsgTraceById -i {sent.message_id} -t {trace_topic}")
        rows = [line.split() for line in told.splitlines() if line and not line.startswith("#")]
        (published,) = [row for row in rows if row[0] == "Pub"]
        assert published[1] == "traced-producer"
        assert published[-1] == "success"
        handled = [row for row in rows if row[0] == "Sub" or group in row]
        assert re.findall("success|failed", " ".join(" ".join(row) for row in handled)), told
        for one in batch:
            told = await java.done(f"queryMsgTraceById -i {one.message_id} -t {trace_topic}")
            assert "traced-producer" in told


@pytest.mark.needs("java", "mvn")
async def test_python_and_java_of_one_namespace_share_names(cluster: Cluster) -> None:
    topic, group, namespace = fresh("shared"), fresh("g"), fresh("ns")
    got: list[tuple[str, bytes]] = []

    async def handle(message: ReceivedMessage) -> Retry | None:
        got.append((message.topic, message.body))
        return Retry(1) if message.reconsume_times == 0 else None

    async with (
        Producer(fresh("p"), cluster.namesrv, namespace=namespace) as producer,
        Java(cluster.namesrv) as java,
    ):
        result = await producer.send(Message(topic, b"from python"))
        assert result.queue.topic == f"{namespace}%{topic}"
        assert {queue.topic for queue in await producer.queues(topic)} == {f"{namespace}%{topic}"}
        assert (await producer.send_batch([Message(topic, b"in a batch")]))[0].queue.topic.startswith(
            namespace
        )
        heard = await java.done(f"@namespaced {namespace} {group} {topic} from-java 3")
        assert sorted(heard.splitlines()) == sorted(
            f"{topic} {body}" for body in ("from python", "in a batch", "from-java")
        )
        options = {"consume_from_where": FIRST_OFFSET, "namespace": namespace}
        async with PushConsumer(fresh("g"), cluster.namesrv, **options) as consumer:  # type: ignore[arg-type]
            consumer.subscribe(topic, "*", handle)
            await until(lambda: len(got) == 6)
            assert {queue.topic for queue in consumer.queues} == {f"{namespace}%{topic}"}
        assert {topic for topic, _ in got} == {topic}, "retried messages too"
        async with PullConsumer(fresh("g"), cluster.namesrv, namespace=namespace) as reader:
            bodies = [
                (message.topic, message.body)
                for queue in await reader.queues(topic)
                for message in await reader.pull(queue, 0)
            ]
        assert sorted(body for _, body in bodies) == [b"from python", b"from-java", b"in a batch"]
        assert {name for name, _ in bodies} == {topic}
