"""The relay of an outbox with OrbitMQ and with Apache's broker."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from sqlalchemy import create_engine

from orbitmq import Message, Producer
from orbitmq.outbox import ROW_ID, Outbox, Relay, counts
from tests.client.conftest import Cluster
from tests.client.naming import fresh
from tests.kit.outbox import rows, stored, until_in_database


async def test_messages_of_an_outbox_arrive_in_order_and_what_is_refused_is_parked(
    cluster: Cluster, producer: Producer, tmp_path: Path
) -> None:
    topic = fresh("outbox")
    await producer.send(Message(topic, b"makes the topic"))
    engine = create_engine(f"sqlite:///{tmp_path / 'test.db'}")
    outbox = Outbox()
    with engine.begin() as connection:
        outbox.create_tables(connection)
        messages = [Message(topic, b"%d" % n, sharding_key=f"key {n % 5}", tags="t") for n in range(60)]
        messages.insert(30, Message(topic, b"later", delay_level=1, sharding_key="key 0"))
        messages.insert(31, Message(topic, b"never", delay_ms=365 * 86_400_000, sharding_key="key 0"))
        ids = outbox.add_all(connection, messages)
    async with Relay(outbox, engine, producer):
        await until_in_database(engine, lambda connection: not counts(outbox, connection).pending)
    found = rows(outbox, engine)
    engine.dispose()
    [refused] = [row for row in found if row.state == "parked"]
    assert (refused.payload, "MESSAGE_ILLEGAL" in refused.reason) == (b"never", True)
    arrived = await stored(cluster.namesrv, topic, 62)
    order: dict[str | None, list[bytes]] = defaultdict(list)
    for message in arrived:
        order[message.sharding_key].append(message.body)
    order["key 0"].remove(b"later")
    assert {key: bodies for key, bodies in order.items() if key} == {
        f"key {key}": [b"%d" % n for n in range(60) if n % 5 == key] for key in range(5)
    }
    assert {message.properties.get(ROW_ID) for message in arrived} == {*ids, None} - {refused.id}
