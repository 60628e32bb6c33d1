import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orbitmq import FIRST_OFFSET, Admin, PushConsumer, ReceivedMessage
from orbitmq.admin.dead_letters.asked import Asked, BadRequest
from orbitmq.admin.dead_letters.clusters import Clusters
from orbitmq.admin.dead_letters.dead_letter import Cause, DeadLetter, Place
from orbitmq.admin.dead_letters.journal import DONE, Entry, JournalUnusable, RedriveJournal
from orbitmq.admin.dead_letters.outgoing import Edit
from orbitmq.admin.dead_letters.reading import letters_at, scan
from orbitmq.admin.dead_letters.redrive import Redrive
from orbitmq.admin.messages import messages_by_key, messages_from
from orbitmq.client import IllegalMessage
from orbitmq.protocol.bodies.route import ClusterInfo
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, TopicNotExist
from orbitmq.protocol.requests.route import GetBrokerClusterInfo, GetRouteinfoByTopic
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.protocol.schema.declare import Request
from orbitmq.testing import LocalBroker
from tests.kit.dead_letters import origin, plant

pytestmark = pytest.mark.usefixtures("broker")


async def read(admin: Admin, group: str) -> list[DeadLetter]:
    return [letter async for page in scan(admin, group) for letter in page.letters]


async def sent(admin: Admin, topic: str, number: int) -> Counter[str]:
    """Keys of the messages of a topic with that many."""
    [status] = (await admin.topic_status(topic)).items()
    queue, offsets = status
    found: Counter[str] = Counter()
    for offset in range(offsets.max_offset):
        found.update((await admin.message_at(queue, offset)).keys)
    assert found.total() == number
    return found


async def test_letters_are_told_apart_by_topic_and_exception_or_shape(
    admin: Admin, broker: LocalBroker
) -> None:
    await plant(broker.namesrv, "g1", 40, origin("a", exception="ValueError", exceptionText="no price"))
    await plant(broker.namesrv, "g1", 3, origin("a"), b'{"x": 1, "y": 2}')
    await plant(broker.namesrv, "g1", 2, {}, b"\xff")
    clusters = Clusters()
    pages = [page async for page in scan(admin, "g1")]
    assert (pages[-1].scanned, pages[-1].total) == (45, 45)
    for page in pages:
        for letter in page.letters:
            clusters.add(letter)
    assert [(one.cause, one.count, one.reason) for one in clusters.listed()] == [
        (Cause("a", "ValueError", None), 40, "no price"),
        (Cause("a", None, "{x, y}"), 3, ""),
        (Cause(None, None, "binary"), 2, ""),
    ]
    [binary] = [one for one in clusters.listed() if one.cause.topic is None]
    found = await letters_at(admin, "g1", [*binary.places, Place("broker-a", 0, 999)])
    assert [one.message.body for one in found.values()] == [b"\xff", b"\xff"]
    with pytest.raises(TopicNotExist):
        await read(admin, "nobody")


async def test_all_letters_of_a_cause_are_sent_again_once(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal
) -> None:
    broker.create_topic("once", 1)
    await plant(broker.namesrv, "g2", 150, origin("once", exception="A", colour="red", TAGS="t"))
    await plant(broker.namesrv, "g2", 5, origin("once", exception="B"), start=150)
    redrive = Redrive(admin, "here", journal)
    asked = Asked(cause=Cause("once", "A", None), rate=5000)
    preview = await redrive.preview("g2", asked)
    assert (preview.selected, preview.would_send, preview.topics) == (150, 150, {"once": 150})
    assert [(one.topic, one.known) for one in preview.filters.values()] == [("once", False)]
    run = await redrive.carry_out(await redrive.begin("g2", asked, "ann"))
    assert (run.state, run.counts, run.user) == ("done", {"sent": 150}, "ann")
    assert await sent(admin, "once", 150) == Counter(f"l-{number}" for number in range(150))
    [one] = await messages_by_key(admin, "once", "l-7")
    properties = one.property_map()
    assert (properties["colour"], one.tags, properties["orbitmq.replays"]) == ("red", "t", "1")
    letter = (await letters_at(admin, "g2", [Place("broker-a", 0, 7)])).popitem()[1]
    assert properties["orbitmq.redriven"] == letter.message.offset_id
    assert "RETRY_TOPIC" not in properties

    second = await redrive.carry_out(await redrive.begin("g2", asked, "bob"))
    assert second.counts == {"skipped": 150}
    [first, *_] = await journal.do(journal.entries, second.id, None, 1)
    assert first.note == f"run {run.id} has sent it"
    again = Asked(places=(Place("broker-a", 0, 7),), again=True)
    assert (await redrive.carry_out(await redrive.begin("g2", again, "bob"))).counts == {"sent": 1}


async def test_letters_without_a_way_back_and_those_that_came_too_often_stay(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal
) -> None:
    broker.create_topic("loop", 1)
    await plant(broker.namesrv, "g3", 1, {})
    await plant(broker.namesrv, "g3", 1, origin("never-created"))
    await plant(broker.namesrv, "g3", 1, origin("loop", **{"orbitmq.replays": "3"}))
    await plant(broker.namesrv, "g3", 1, origin("loop", **{"orbitmq.replays": "2"}))
    redrive = Redrive(admin, "here", journal)
    preview = await redrive.preview("g3", Asked())
    assert preview.would_send == 1
    assert preview.skipped == {
        "its first topic is not known": 1,
        "topic never-created does not exist": 1,
        "it was sent again 3 times": 1,
    }
    run = await redrive.carry_out(await redrive.begin("g3", Asked(), "ann"))
    assert run.counts == {"sent": 1, "skipped": 3}
    [(_, message)] = await messages_from(admin, "loop", 0)
    assert message.property_map()["orbitmq.replays"] == "3"


async def test_a_letter_is_edited_and_an_edit_that_no_message_can_have_is_refused(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal
) -> None:
    broker.create_topic("edited", 1)
    await plant(broker.namesrv, "g4", 1, origin("edited", TAGS="old", colour="red"), b"bad")
    redrive = Redrive(admin, "here", journal)
    place = Place("broker-a", 0, 0)
    for properties in ({"TAGS": "x"}, {"a": ""}, {"a\x01": "b"}):
        with pytest.raises(IllegalMessage):
            await redrive.preview("g4", Asked(places=(place,), edit=Edit(properties=properties)))
    with pytest.raises(BadRequest, match="one dead letter"):
        Asked(edit=Edit(body=b"x"))
    asked = Asked(places=(place,), edit=Edit(b"good", "new", "k1 k2", {"size": "9"}))
    await redrive.carry_out(await redrive.begin("g4", asked, "ann"))
    [(_, message)] = await messages_from(admin, "edited", 0)
    assert (message.body, message.tags, message.keys) == (b"good", "new", ["k1", "k2"])
    properties = message.property_map()
    assert properties["size"] == "9"
    assert "colour" not in properties


async def test_the_retry_topic_gives_a_letter_to_its_group_alone(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal
) -> None:
    broker.create_topic("own", 1)
    await plant(broker.namesrv, "g5", 1, origin("own", TAGS="t"), b"once more")
    got: asyncio.Queue[ReceivedMessage] = asyncio.Queue()
    other: list[ReceivedMessage] = []
    redrive = Redrive(admin, "here", journal)
    async with (
        PushConsumer("g5", broker.namesrv, consume_from_where=FIRST_OFFSET) as reader,
        PushConsumer("g5-other", broker.namesrv, consume_from_where=FIRST_OFFSET) as bystander,
    ):
        reader.subscribe("own", "t", got.put)
        bystander.subscribe("own", "*", lambda message: other.append(message))
        preview = await redrive.preview("g5", Asked(to="retry"))
        async with asyncio.timeout(60):
            while not preview.would_send:  # the retry topic is made by the first heartbeat
                await asyncio.sleep(0.05)
                preview = await redrive.preview("g5", Asked(to="retry"))
        await redrive.carry_out(await redrive.begin("g5", Asked(to="retry"), "ann"))
        message = await asyncio.wait_for(got.get(), 60)
        assert (message.topic, message.body) == ("own", b"once more")
    assert other == []


async def test_a_run_that_is_cut_off_goes_on_and_sends_each_letter_once(
    admin: Admin, broker: LocalBroker, tmp_path: Path
) -> None:
    broker.create_topic("cut", 1)
    await plant(broker.namesrv, "g7", 300, origin("cut"))
    path = tmp_path / "cut.sqlite3"
    journal = RedriveJournal(path)
    redrive = Redrive(admin, "here", journal)
    run_id = await redrive.begin("g7", Asked(rate=5000), "ann")
    cuts, seconds = 0, 0.03
    while True:
        task = asyncio.create_task(redrive.carry_out(run_id))
        done, _ = await asyncio.wait([task], timeout=seconds)
        if done:
            break
        task.cancel()
        await asyncio.wait([task])
        cuts += 1
        seconds *= 1.2  # a slow machine gets its plan made in the end, too
        journal.close()
        journal = RedriveJournal(path)
        [run] = await journal.do(journal.runs)
        if run.state == DONE:  # it was cut off while it noted its end
            break
        assert [one.id for one in await journal.do(journal.unfinished)] == [run_id]
        redrive = Redrive(admin, "here", journal)
    assert cuts
    [run] = await journal.do(journal.runs)
    assert run.counts == {"sent": 300}
    assert await sent(admin, "cut", 300) == Counter(f"l-{number}" for number in range(300))
    journal.close()


class Killed(Exception):
    """The end of the process, as far as a run goes."""


async def die_before_note(
    redrive: Redrive, journal: RedriveJournal, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Carries out a run that is killed between a batch's leaving and its note."""

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(journal, "record_outcomes", dies)
        with pytest.raises(Killed):
            await redrive.carry_out(run_id)


async def test_letters_in_doubt_are_looked_for_before_they_are_sent_again(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between a batch's leaving and its note: some of it is there, some is not."""
    broker.create_topic("doubt", 1)
    await plant(broker.namesrv, "g8", 10, origin("doubt"))
    redrive = Redrive(admin, "here", journal)
    run_id = await redrive.begin("g8", Asked(rate=5000), "ann")
    await die_before_note(redrive, journal, run_id, monkeypatch)
    assert len(await journal.do(journal.under_way, run_id)) == 10
    run = await redrive.carry_out(run_id)
    assert run.counts == {"sent": 10}
    assert await sent(admin, "doubt", 10) == Counter(f"l-{number}" for number in range(10))


class Forgetful:
    """Name servers that know no route of some topics, and none of their brokers, for the next questions."""

    def __init__(self, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ask = admin.ask
        self._topics: tuple[str, ...] = ()
        self.left = 0
        monkeypatch.setattr(admin, "ask", self.ask)
        monkeypatch.setattr("orbitmq.admin.dead_letters.redrive.PAUSE_SECONDS", 0.0)

    def forget(self, *topics: str) -> None:
        self._topics, self.left = topics, 20

    async def ask(self, request: Request[Any]) -> Any:
        if self.left and isinstance(request, GetRouteinfoByTopic) and request.topic in self._topics:
            self.left -= 1
            raise TopicNotExist(ResponseCode.TOPIC_NOT_EXIST, "no route")
        reply = await self._ask(request)
        if self.left and isinstance(request, GetBrokerClusterInfo):
            self.left -= 1
            reply.body = ClusterInfo({}, {})
        return reply


@pytest.mark.parametrize("forgotten", ["%DLQ%g10", "away"], ids=["of the letters", "of their topic"])
async def test_letters_wait_for_brokers_that_name_servers_do_not_know(
    admin: Admin,
    broker: LocalBroker,
    journal: RedriveJournal,
    monkeypatch: pytest.MonkeyPatch,
    forgotten: str,
) -> None:
    """As after a start of the name server: what it does not know yet has not been deleted."""
    broker.create_topic("away", 1)
    await plant(broker.namesrv, "g10", 10, origin("away"))
    before = (await admin.topic_status("away")).popitem()[1].max_offset
    redrive, names = Redrive(admin, "here", journal), Forgetful(admin, monkeypatch)
    places = tuple([one.place async for page in scan(admin, "g10") for one in page.letters][-10:])
    run_id = await redrive.begin("g10", Asked(places=places, rate=5000), "ann")
    claim = journal.claim

    def claimed(run: str, most: int, after: Place | None) -> list[Entry]:
        monkeypatch.setattr(journal, "claim", claim)
        names.forget(forgotten)
        return claim(run, most, after)

    monkeypatch.setattr(journal, "claim", claimed)
    run = await redrive.carry_out(run_id)
    assert (run.state, run.counts) == ("done", {"sent": 10})
    assert (await admin.topic_status("away")).popitem()[1].max_offset == before + 10


async def test_letters_in_doubt_are_not_sent_again_while_nobody_knows_where_they_went(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("unknown", 1)
    await plant(broker.namesrv, "g11", 10, origin("unknown"))
    redrive, names = Redrive(admin, "here", journal), Forgetful(admin, monkeypatch)
    run_id = await redrive.begin("g11", Asked(rate=5000), "ann")
    await die_before_note(redrive, journal, run_id, monkeypatch)
    names.forget("unknown")
    run = await redrive.carry_out(run_id)
    assert not names.left
    assert run.counts == {"sent": 10}
    assert await sent(admin, "unknown", 10) == Counter(f"l-{number}" for number in range(10))


@pytest.mark.parametrize("lasts", [False, True], ids=["for a while", "for ever"])
async def test_letters_that_a_broker_refuses_hold_up_no_others(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal, monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    """More of them than are under way at a time, in front of all others."""
    group, topic = f"g12-{lasts}", f"refused-{lasts}"
    broker.create_topic(topic, 1)
    await plant(broker.namesrv, group, 100, origin(topic), b"bad")
    await plant(broker.namesrv, group, 50, origin(topic), b"good", start=100)
    monkeypatch.setattr("orbitmq.admin.dead_letters.redrive.PAUSE_SECONDS", 0.0)
    call, tries = admin.call, Counter[str]()

    async def refusing(address: str, request: Request[Any], *rest: Any) -> Any:
        if isinstance(request, SendMessageV2) and bytes(request.body or b"") == b"bad":
            tries[request.properties or ""] += 1
            if lasts or tries[request.properties or ""] < 3:
                raise BrokerRefused(ResponseCode.SYSTEM_ERROR, "not now")
        return await call(address, request, *rest)

    monkeypatch.setattr(admin, "call", refusing)
    redrive = Redrive(admin, "here", journal)
    run = await redrive.carry_out(await redrive.begin(group, Asked(rate=10_000), "ann"))
    assert run.state == "done"
    assert run.counts == ({"sent": 50, "refused": 100} if lasts else {"sent": 150})
    entries = await journal.do(journal.entries, run.id, "refused", 1)
    assert all("(10 times)" in one.note for one in entries)
    found = await sent(admin, topic, run.counts["sent"])
    assert set(found.values()) == {1}
    if lasts:  # they are listed, and another run may take them
        monkeypatch.setattr(admin, "call", call)
        assert (await redrive.preview(group, Asked())).would_send == 100


async def test_a_stopped_run_keeps_the_rest_for_another(
    admin: Admin, broker: LocalBroker, journal: RedriveJournal
) -> None:
    broker.create_topic("stopped", 1)
    await plant(broker.namesrv, "g9", 20, origin("stopped"))
    redrive = Redrive(admin, "here", journal)
    run_id = await redrive.begin("g9", Asked(rate=1), "ann")
    task = asyncio.create_task(redrive.carry_out(run_id))
    async with asyncio.timeout(60):
        while not (await admin.topic_status("stopped")).popitem()[1].max_offset:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    redrive.stop(run_id)
    run = await task
    assert run.state == "stopped"
    assert run.counts["sent"] + run.counts["stopped"] == 20
    rest = await redrive.carry_out(await redrive.begin("g9", Asked(rate=5000), "ann"))
    assert rest.counts == {"sent": run.counts["stopped"], "skipped": run.counts["sent"]}
    assert set((await sent(admin, "stopped", 20)).values()) == {1}


async def test_a_journal_is_used_by_one_process_at_a_time(journal: RedriveJournal, tmp_path: Path) -> None:
    await journal.do(journal.begin, "here", "g", Asked().as_json(), "ann")
    second = RedriveJournal(tmp_path / "redrives.sqlite3")
    with pytest.raises(JournalUnusable, match="another process uses it"):
        await second.do(second.runs)
    second.close()
    broken = tmp_path / "broken"
    broken.write_bytes(b"no database" * 1000)
    third = RedriveJournal(broken)
    with pytest.raises(JournalUnusable, match="not a database"):
        await third.do(third.runs)
    third.close()


async def test_two_programs_that_redrive_the_same_letters_at_once_send_each_once(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a journal of its own, and one sends to the first topic, the other to the group alone."""
    monkeypatch.setattr("orbitmq.admin.dead_letters.redrive.PAUSE_SECONDS", 0.05)
    broker.create_topic("shared", 1)
    broker.create_topic("%RETRY%g13", 1)
    await plant(broker.namesrv, "g13", 300, origin("shared"))
    async with Admin(broker.namesrv) as admin, Admin(broker.namesrv) as other:
        journals = [RedriveJournal(tmp_path / "one.sqlite3"), RedriveJournal(tmp_path / "two.sqlite3")]
        programs = [
            Redrive(one, "here", journal) for one, journal in zip((admin, other), journals, strict=True)
        ]
        asked = [Asked(rate=2000), Asked(rate=2000, to="retry")]
        ids = [await program.begin("g13", one, "ann") for program, one in zip(programs, asked, strict=True)]
        runs = await asyncio.gather(
            *(program.carry_out(run_id) for program, run_id in zip(programs, ids, strict=True))
        )
        for journal in journals:
            journal.close()
        counts = [run.counts for run in runs]
        assert [one.get("sent", 0) + one.get("skipped", 0) for one in counts] == [300, 300]
        assert sum(one.get("sent", 0) for one in counts) == 300
        found = Counter[str]()
        for topic, run in zip(("shared", "%RETRY%g13"), runs, strict=True):
            found += await sent(admin, topic, run.counts.get("sent", 0))
    assert found == Counter(f"l-{number}" for number in range(300))
