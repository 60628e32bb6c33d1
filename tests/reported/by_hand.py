"""Behaviours of brokers that take their time or special options, tried at any broker through our client.

    python -m tests.reported.by_hand NAMESRV METRICS PROXY [CHECK ...]

NAMESRV leads to one broker with `transactionCheckInterval=1000`, `transactionTimeOut=1000`,
`transactionCheckMax=3` and `recallMessageEnable=true`; METRICS is the address (`host:port`) of its Prometheus
page, PROXY that of a gRPC proxy before it. One line for each report is printed: it holds, or it does not, and
what was seen. `lite_events` needs a broker with `enableLmq` and `enableMultiDispatch`. Four need more in the
environment: `rights` a broker with access control and SUPER_USER (`NAME:PASSWORD`), `old_connection` the
address of a CONTROLLER, `stale_route` ROUTES, a free address that PROXY was given as its name server, and
`unreadable_half` STORE, the folder of the running broker. Reports of logs that were cut were tried with a
broker that was stopped, its log overwritten with zeros from a message on, its consume queues removed, and
started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from google.protobuf.timestamp_pb2 import Timestamp

from orbitmq import (
    FIRST_OFFSET,
    Admin,
    LiteConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from orbitmq.admin.brokers import update_broker_config
from orbitmq.admin.users import create_user
from orbitmq.protocol.bodies.ha import SyncStateSet
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.controller import (
    ControllerAlterSyncStateSet,
    ControllerApplyBrokerId,
    ControllerElectMaster,
    ControllerGetNextBrokerId,
    ControllerGetReplicaInfo,
    ControllerRegisterBroker,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat
from orbitmq.protocol.requests.pop import PopMessage
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.proxy.wire import messaging_pb2 as pb
from tests.client.naming import fresh
from tests.kit.client_queues import Seen
from tests.proxy.bare_client import BareClient
from tests.reported.test_clients import new_topic, send

Outcome = tuple[bool, str]
PREPARED = 4
"""The bit of sysFlag of a half message."""


async def immunity(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#8311: immune for 8 s, asked every second, three times at most."""
    topic, asked = await new_topic(namesrv, 1), list[str]()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.message_id)
        return TransactionState.COMMIT

    async with (
        TransactionProducer(fresh("p"), namesrv, check=check) as producer,
        Admin(namesrv) as admin,
    ):
        await producer.queues(topic)
        [broker] = await admin.masters()
        own = {
            "UNIQ_KEY": fresh("ID"),
            "TRAN_MSG": "true",
            "PGROUP": producer.group,
            "CHECK_IMMUNITY_TIME_IN_SECONDS": "8",  # of Java's client: ours has no such option
        }
        properties, now = encode_properties(own).decode(), time.time_ns() // 1_000_000
        half = SendMessageV2(
            producer.group, topic, "TBW102", 4, 0, PREPARED, now, 0, properties, 0, False, None, False,
            None, b"x",
        )  # fmt: skip
        await asyncio.sleep(3)  # the broker has heard of the producer by then
        await admin.call(broker.address, half)
        await asyncio.sleep(25)
    return bool(asked), f"asked {len(asked)} times within 25 s"


async def late_ends(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#10199: 300 commits, some after the first check; the broker writes their ends late."""
    topic, came = await new_topic(namesrv, 4), Counter[bytes]()

    async def check(message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    async def count(message: ReceivedMessage) -> None:
        came[message.body] += 1

    async with TransactionProducer(fresh("p"), namesrv, check=check) as producer:
        await producer.queues(topic)
        await asyncio.sleep(3)

        async def one(number: int) -> None:
            await asyncio.sleep(number * 0.05)
            sent = await producer.send_half(Message(topic, b"%d" % number))
            await asyncio.sleep(random.uniform(0, 2.5))
            await producer.end_transaction(sent, TransactionState.COMMIT)

        await asyncio.gather(*map(one, range(300)))
        await asyncio.sleep(15)
    consumer = PushConsumer(fresh("g"), namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic, "*", count)
    async with consumer:
        await asyncio.sleep(25)
    repeated = sum(times > 1 for times in came.values())
    return len(came) == 300 and not repeated, f"{len(came)} published, {repeated} of them more than once"


def _damage(at: int) -> None:
    """Makes a record unreadable under the broker, which maps the file."""
    with Path(os.environ["STORE"], "commitlog", "0" * 20).open("r+b") as file:
        file.seek(at + 4)
        file.write(bytes(4))


async def unreadable_half(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#9500: the first of six half messages is no record any more."""
    topic, asked = await new_topic(namesrv, 1), Counter[bytes]()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked[message.body] += 1
        return TransactionState.COMMIT

    async with TransactionProducer(fresh("p"), namesrv, check=check) as producer:
        await producer.queues(topic)
        await asyncio.sleep(3)
        sent = [await producer.send_half(Message(topic, b"%d" % number)) for number in range(6)]
        assert sent[0].offset_message_id is not None
        _damage(int(sent[0].offset_message_id[-16:], 16))
        await asyncio.sleep(60)
    return len(asked) == 5, f"{len(asked)} of the five others were asked about within 60 s"


async def recalls(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#10019: the gauge of waiting messages, after all 20 were recalled."""
    topic = await new_topic(namesrv, 1)

    def waiting() -> float:
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        rows = re.findall(rf'^rocketmq_timing_messages{{[^}}]*topic="{topic}"[^}}]*}} (\S+)', text, re.M)
        return sum(map(float, rows))

    async with Producer(fresh("p"), namesrv) as producer:
        sent = [await producer.send(Message(topic, b"x", delay_ms=20_000)) for _ in range(20)]
        await asyncio.sleep(8)
        before = await asyncio.to_thread(waiting)
        for one in sent:
            assert one.recall_handle is not None
            await producer.recall(one.recall_handle)
    await asyncio.sleep(30)
    after = await asyncio.to_thread(waiting)
    return after == 0, f"{before:g} before the recalls, {after:g} when all were due"


async def attempts(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#10827: of two ordered pops at once, each is repeated with its attempt id."""
    empty = 0
    async with Admin(namesrv) as admin:
        [broker] = await admin.masters()
        for _ in range(20):
            topic, group = await new_topic(namesrv, 1), fresh("g")
            await send(namesrv, topic, b"1", b"2", b"3")

            async def pop(attempt: str, topic: str = topic, group: str = group) -> bool:
                now = time.time_ns() // 1_000_000
                request = PopMessage(
                    group, topic, 0, 1, 60_000, 0, now, 0, "TAG", "*", order=True, attempt_id=attempt
                )
                return bool((await admin.call(broker.address, request)).body)

            first = await asyncio.gather(pop("a"), pop("b"))
            winner = "a" if first[0] else "b"
            again = await asyncio.gather(pop(winner), pop("c"))
            empty += not again[0]
    return not empty, f"{empty} of 20 repetitions got nothing"


async def revival(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#10667: for half a minute no copy of a popped message can be stored."""
    topic, group, size = await new_topic(namesrv, 1), fresh("g"), 5000
    await send(namesrv, topic, bytes(size))
    async with Admin(namesrv) as admin:
        [broker] = await admin.masters()

        async def pop() -> bool:
            now = time.time_ns() // 1_000_000
            request = PopMessage(group, topic, -1, 32, 10_000, 0, now, 0, "TAG", "*")
            return bool((await admin.call(broker.address, request)).body)

        async def take(most: int) -> None:
            await update_broker_config(admin, broker.address, {"maxMessageSize": str(most)})

        usual = int((await admin.broker_config(broker.address))["maxMessageSize"])
        assert await pop()
        await take(size // 2)  # the records of POP itself are shorter
        await asyncio.sleep(30)
        early = await pop()
        await take(usual)
        assert not early, "a copy was stored"
        for second in range(180):
            if await pop():
                return True, f"it came {second} s after copies could be stored again"
            await asyncio.sleep(1)
    return False, "it did not come within 3 minutes"


async def lite_events(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#11191: two lite topics with five messages each, acknowledged one by one, 100 times."""
    parent, group, came = await new_topic_of(namesrv, "LITE"), fresh("g"), Counter[str]()
    async with Admin(namesrv) as admin:
        await admin.create_group(group, attributes={"lite.bind.topic": parent})

    async def count(message: ReceivedMessage) -> None:
        came[message.lite_topic or ""] += 1

    stalled, rounds = 0, 100
    async with (
        Producer(fresh("p"), namesrv) as producer,
        LiteConsumer(group, namesrv, topic=parent, handler=count) as consumer,
    ):
        for _ in range(rounds):
            names = fresh("one"), fresh("two")
            await consumer.subscribe(*names)

            async def fill(name: str) -> None:
                for _ in range(5):
                    await producer.send(Message(parent, b"x"), lite_topic=name)
                    await asyncio.sleep(random.uniform(0, 0.01))

            await asyncio.gather(*map(fill, names))
            for _ in range(200):
                if all(came[name] >= 5 for name in names):
                    break
                await asyncio.sleep(0.05)
            stalled += any(came[name] < 5 for name in names)
            await consumer.unsubscribe(*names)
    return not stalled, f"in {stalled} of {rounds} rounds not all had come after 10 s"


async def stray(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """A member with another filter that has come and gone."""
    topic, group, seen = await new_topic(namesrv, 2), fresh("g"), Seen()

    async def good(count: int) -> None:
        async with Producer(fresh("p"), namesrv) as producer:
            for _ in range(count):
                await producer.send(Message(topic, b"x", tags="good"))

    consumer = PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic, "good", seen)
    async with consumer:
        await good(2)
        await asyncio.sleep(3)
        other = PushConsumer(group, namesrv)
        other.subscribe(topic, "other", Seen())
        async with other:
            await asyncio.sleep(3)
        await asyncio.sleep(3)
        before = len(seen)
        await good(10)
        await asyncio.sleep(10)
    return len(seen) == before + 10, f"{len(seen) - before} of 10 messages came"


async def new_topic_of(namesrv: str, kind: str) -> str:
    """A topic of this type with one queue, and a group of the same name."""
    name = fresh(kind)
    async with Admin(namesrv) as admin:
        await admin.create_topic(name, queues=1, attributes={"message.type": kind})
        await admin.create_group(name)
    return name


async def delayed_half(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#10260: a half message with a time of delivery."""
    topic, client = await new_topic_of(namesrv, "TRANSACTION"), BareClient(proxy)
    later = Timestamp()
    later.FromSeconds(int(time.time()) + 60)
    await client.settle_in(client.producing(topic))
    request = pb.SendMessageRequest()
    message = request.messages.add(body=b"x")
    message.topic.name = topic
    message.system_properties.message_id = fresh("ID")
    message.system_properties.message_type = pb.TRANSACTION
    message.system_properties.delivery_timestamp.CopyFrom(later)
    status = (await client.call("SendMessage", request)).status
    await client.close()
    return status.code != pb.OK, f"{pb.Code.Name(status.code)} {status.message}"


async def receipts(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#11049: three messages in one send."""
    topic, client = await new_topic_of(namesrv, "NORMAL"), BareClient(proxy)
    await client.settle_in(client.producing(topic))
    count = len((await client.send(topic, b"a", b"b", b"c", message_type=pb.NORMAL)).entries)
    await client.close()
    return count == 3, f"{count} receipts"


async def new_handle(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#9583: acknowledged by the handle of a changed invisible time, and not seen again."""
    name, client = await new_topic_of(namesrv, "NORMAL"), BareClient(proxy)
    await client.settle_in(client.consuming(name, name))
    await client.send(name, b"once", message_type=pb.NORMAL)
    (got,) = await client.receive(name, name)
    request = pb.ChangeInvisibleDurationRequest(receipt_handle=got.system_properties.receipt_handle)
    request.group.name = request.topic.name = name
    request.message_id = got.system_properties.message_id
    request.invisible_duration.FromMilliseconds(10_000)
    changed = await client.call("ChangeInvisibleDuration", request)
    code = (await client.acknowledge(name, name, changed.receipt_handle)).status.code
    again = [one for _ in range(5) for one in await client.receive(name, name)]
    await client.close()
    return code == pb.OK and not again, f"{pb.Code.Name(code)}, then {len(again)} messages within 25 s"


async def rights(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#11182: a record by its offset, asked for by a user without any right."""
    root = dict(zip(("access_key", "secret_key"), os.environ["SUPER_USER"].split(":"), strict=True))
    nobody = {"access_key": fresh("nobody"), "secret_key": "nobodypassword"}
    topic = fresh("t")
    async with Admin(namesrv, **root) as admin:
        await admin.create_topic(topic, queues=1)
        [broker] = await admin.masters()
        await create_user(admin, broker.address, *nobody.values())
    async with Producer(fresh("p"), namesrv, **root) as producer:
        sent = await producer.send(Message(topic, b"secret"))
    async with Admin(namesrv, **nobody) as admin:
        try:
            record = await admin.view_message(sent.offset_message_id)
        except BrokerRefused as error:
            return True, str(error)
    return False, f"the body {record.body!r} was shown"


async def old_connection(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#11045: a master's first connection ends after its heartbeats came over a second one."""
    controller, name = os.environ["CONTROLLER"], fresh("b")
    async with Admin(namesrv) as second:
        async with Admin(namesrv) as first:
            for number in (1, 2):
                await second.call(controller, ControllerGetNextBrokerId("c", name))
                await second.call(controller, ControllerApplyBrokerId("c", name, number, f"{number};1"))
                await second.call(
                    controller, ControllerRegisterBroker("c", name, number, f"127.0.0.1:{number}")
                )

            async def beat(connection: Admin, number: int) -> None:
                heartbeat = BrokerHeartbeat("c", f"127.0.0.1:{number}", name, number, 1, 0, 0, 10_000, number)
                await connection.call(controller, heartbeat)

            await beat(first, 1)
            await beat(second, 2)
            elected = await second.call(controller, ControllerElectMaster("c", name, 1, False))
            assert elected.master_broker_id == 1
            assert elected.sync_state_set_epoch is not None
            both = SyncStateSet({1, 2}, elected.sync_state_set_epoch)
            await second.call(
                controller, ControllerAlterSyncStateSet(name, 1, elected.master_epoch, body=both)
            )
            await beat(second, 1)
        for _ in range(10):
            await beat(second, 1)
            await beat(second, 2)
            await asyncio.sleep(1)
        now = await second.call(controller, ControllerGetReplicaInfo(name))
    seen = f"before: broker 1 in epoch {elected.master_epoch}; after: broker {now.master_broker_id}"
    return now.master_epoch == elected.master_epoch, f"{seen} in epoch {now.master_epoch}"


async def stale_route(namesrv: str, metrics: str, proxy: str) -> Outcome:
    """apache/rocketmq#10768: a route names a queue of a broker that is gone before those of another."""
    topic, client, is_stale = await new_topic_of(namesrv, "NORMAL"), BareClient(proxy), False
    gone = b'{"brokerName":"gone","perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1},'

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(EOFError, OSError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                if is_stale:
                    frame = frame.replace(b'"queueDatas":[', b'"queueDatas":[' + gone)
                writer.write(len(frame).to_bytes(4) + frame)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(*namesrv.split(":"))
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(pump(reader, requests), pump(answers, writer))

    async with await asyncio.start_server(connected, *os.environ["ROUTES"].split(":")):
        async with asyncio.timeout(120):
            await client.channel.channel_ready()  # start the proxy now, if it does not yet run
        is_stale = True
        request = pb.QueryRouteRequest()
        request.topic.name = topic
        request.endpoints.scheme = pb.IPv4
        request.endpoints.addresses.add(host=client.host, port=int(client.port))
        answer = await client.call("QueryRoute", request)
        await client.close()
    shown = {one.broker.name for one in answer.message_queues}
    status = f"{pb.Code.Name(answer.status.code)} {answer.status.message}"
    return bool(shown), f"{status}, queues of {sorted(shown)}"


CHECKS: tuple[Callable[[str, str, str], Awaitable[Outcome]], ...] = (
    *(immunity, late_ends, unreadable_half, recalls, attempts, revival, lite_events, stray),
    *(delayed_half, receipts, new_handle, rights),
    *(old_connection, stale_route),
)


async def main(namesrv: str, metrics: str, proxy: str, *names: str) -> None:
    for check in CHECKS:
        if names and check.__name__ not in names:
            continue
        try:
            holds, seen = await check(namesrv, metrics, proxy)
        except Exception as error:
            holds, seen = False, f"{type(error).__name__}: {error}"
        print(f"{'holds' if holds else 'FAILS'}  {(check.__doc__ or '').strip()} {seen}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
