"""Offsets that an operator resets while a consumer runs, against OrbitMQ and Apache."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq import Message, Producer
from orbitmq.admin.admin import Admin
from orbitmq.admin.resets import EARLIEST, LATEST, reset_offset
from tests.client.conftest import Cluster
from tests.client.naming import fresh, until
from tests.client.test_consuming import Seen, consumer


@pytest.mark.parametrize("broadcasting", [False, True], ids=["cluster", "broadcasting"])
async def test_a_running_consumer_goes_where_it_is_sent(
    cluster: Cluster, producer: Producer, broadcasting: bool, tmp_path: Path
) -> None:
    topic, group, seen = fresh("reset"), fresh("g"), Seen()
    for number in range(8):
        await producer.send(Message(topic, str(number)))
    options = {"broadcasting": True, "local_offsets_folder": str(tmp_path)} if broadcasting else {}
    async with consumer(cluster, group, **options) as reader, Admin(cluster.namesrv) as admin:
        reader.subscribe(topic, "*", seen)
        await until(lambda: len(seen.messages) >= 8)
        await reset_offset(admin, group, topic, EARLIEST)
        # A pull that is held may be told only when its time is over.
        await until(lambda: len(seen.messages) >= 16)
        await reset_offset(admin, group, topic, LATEST)
        await producer.send(Message(topic, "new"))
        await until(lambda: "new" in seen.bodies)
    assert len(seen.messages) == 17
