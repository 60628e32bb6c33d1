"""Dead letters that a consumer of ours leaves, told apart and sent again, on brokers of both kinds."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from orbitmq import FIRST_OFFSET, Admin, Message, PushConsumer, ReceivedMessage
from orbitmq.admin.dead_letters.asked import Asked
from orbitmq.admin.dead_letters.clusters import Clusters
from orbitmq.admin.dead_letters.dead_letter import Cause
from orbitmq.admin.dead_letters.journal import RedriveJournal
from orbitmq.admin.dead_letters.outgoing import Edit
from orbitmq.admin.dead_letters.reading import scan
from orbitmq.admin.dead_letters.redrive import Redrive
from tests.client.conftest import Cluster
from tests.client.naming import fresh, until
from tests.kit.dead_letters import fail


async def test_letters_of_two_causes_are_mended_and_consumed(cluster: Cluster, tmp_path: Path) -> None:
    topic, group = fresh("mend"), fresh("mender")
    long = b"x" * 20_000  # compressed by the producer
    bodies = [b"bad 0", b"good 1", b"good 2", long]
    journal = RedriveJournal(tmp_path / "journal.sqlite3")
    async with Admin(cluster.namesrv) as admin:
        await admin.create_topic(topic, queues=2)
        messages = [Message(topic, body, keys=f"k{number}", tags="t") for number, body in enumerate(bodies)]
        await fail(cluster.namesrv, topic, group, messages)
        clusters = Clusters()
        async for page in scan(admin, group):
            for letter in page.letters:
                clusters.add(letter)
        found = {one.cause: one for one in clusters.listed()}
        assert {cause: one.count for cause, one in found.items()} == {
            Cause(topic, "KeyError", None): 3,
            Cause(topic, "ValueError", None): 1,
        }
        got: Counter[bytes] = Counter()

        async def handle(message: ReceivedMessage) -> None:
            got[bytes(message.body)] += 1
            assert message.properties["orbitmq.replays"] == "1"

        redrive = Redrive(admin, "here", journal)
        async with PushConsumer(group, cluster.namesrv, consume_from_where=FIRST_OFFSET) as reader:
            reader.subscribe(topic, "t", handle)
            async with asyncio.timeout(60):
                while True:  # until the broker knows the new subscription
                    preview = await redrive.preview(group, Asked())
                    if (effect := preview.filters[topic]).known:
                        break
                    await asyncio.sleep(0.05)
            assert (preview.would_send, effect.passes, effect.drops) == (4, 4, 0)
            bad = found[Cause(topic, "ValueError", None)]
            asks = [
                Asked(places=tuple(bad.places), edit=Edit(body=b"mended")),
                Asked(cause=Cause(topic, "KeyError", None), to="retry", rate=1000),
            ]
            for asked in asks:
                run = await redrive.carry_out(await redrive.begin(group, asked, "ann"))
                assert (run.state, list(run.counts)) == ("done", ["sent"]), run
            await until(lambda: got.total() >= 4)
        assert got == Counter([b"mended", b"good 1", b"good 2", long])
        assert (await redrive.preview(group, Asked())).would_send == 0
    journal.close()
