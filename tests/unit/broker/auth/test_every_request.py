# ruff: noqa: E501 (bodies are JSON texts)
"""Every request that is declared, in every form of its header, from users who have no right to what it is about.

Sent over connections to a running broker. Nothing may come of them: neither an answer nor a push tells anything
of somebody else's, and no table and no byte of the store changes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import orbitmq.protocol.requests.every  # noqa: F401 (declares them)
from orbitmq.broker.auth.permissions import NEEDS
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.auth import Policy, User
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.handles.recall import RecallHandle
from orbitmq.protocol.records.ids import offset_message_id, pack_host
from orbitmq.protocol.remoting.command import FLAG_ONEWAY, SERIALIZE_BINARY, Command
from orbitmq.protocol.remoting.frame import FrameSplitter, encode_command
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.offset import GetMaxOffset, UpdateConsumerOffset
from orbitmq.protocol.requests.pop import PopMessage
from orbitmq.protocol.schema import fastjson
from orbitmq.protocol.schema.declare import REQUESTS, Request
from tests.kit.access import entry
from tests.kit.running_standalone import Running, running
from tests.kit.store import read_queue

ROOT, BOB = Credentials("root", "root-secret"), Credentials("bob", "bob-secret")
NOBODY, ANN = Credentials("nobody", "nobody-secret"), Credentials("ann", "ann-secret")
SECRET = b"read by bob alone"
GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "recallMessageEnable": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}

OPEN = {
    46: "it asks whether the filter in its own body can be read: it reads and changes nothing of anybody",
}
"""Requests that a user without any right may send."""

BINARY_LIMIT = 1 << 15
"""Codes from here on have no place in a binary header."""


@dataclass
class Place:
    """Places of things of bob that a request could name."""

    half: int
    """Physical offset of an open half message; its queue offset is 0."""
    message: int
    handle: str
    recall: str
    host: bytes


def texts(place: Place, topic: str, group: str, client: str) -> dict[str, str]:
    """A value for each header field, by wire name, that is about one owner's things."""
    topics = dict.fromkeys(("topic", "topicList"), topic)
    groups = dict.fromkeys(
        [
            "consumerGroup",
            "group",
            "groupName",
            "producerGroup",
            "srcGroup",
            "destGroup",
            "compareGroup",
            "filterGroups",
        ],
        group,
    )
    clients = dict.fromkeys(("clientId", "clientID", "clientAddr", "proxyFrowardClientId"), client)
    id_of_half = offset_message_id(place.host, place.half)
    return topics | groups | clients | {
        "a": group, "b": topic, "c": "TBW102", "defaultTopic": "TBW102", "i": "REPLY_TO_CLIENT\x01bobs-client\x02",
        "properties": "REPLY_TO_CLIENT\x01bobs-client\x02", "commitLogOffset": str(place.half),
        "tranStateTableOffset": "0", "commitOrRollback": "12", "msgId": id_of_half, "transactionId": "UH",
        "offset": str(place.message), "extraInfo": place.handle, "recallHandle": place.recall,
        "username": "bob", "subject": "User:bob", "resource": "Topic:other", "key": "k", "maxNum": "9",
        "endTimestamp": str(1 << 60), "maxMsgNums": "9", "invisibleTime": "60000", "readQueueNums": "4",
        "writeQueueNums": "4", "perm": "6", "timestamp": "0", "commitOffset": "0", "cleanOffset": "true",
        "offline": "true", "readable": "false", "sysFlag": "5", "subscription": "*", "expressionType": "TAG",
        "E_T": "F", "READ_AHEAD_MODE": "0", "clusterName": "DefaultCluster", "delayLevel": "1",
        "attributes": "", "topicFilterType": "SINGLE_TAG", "policyType": "Custom", "configType": "topics",
        "count": "9", "statsName": "TOPIC_PUT_NUMS", "statsKey": topic, "commitOffset ": "0",
    }  # fmt: skip


def bodies(topic: str, group: str, client: str) -> dict[int, list[bytes]]:
    """Bodies that name one owner's things, by request code."""
    queue = f'{{"brokerName":"broker-a","queueId":0,"topic":"{topic}"}}'
    lock = f'{{"clientId":"{client}","consumerGroup":"{group}","mqSet":[{queue}]}}'
    consumer = (
        f'{{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"{group}",'
        f'"messageModel":"CLUSTERING","subscriptionDataSet":[{{"subString":"*","topic":"{topic}"}}]}}'
    )
    beats = [
        f'{{"clientID":"{client}","consumerDataSet":{consumers},"producerDataSet":{producers}}}'
        for consumers in ("[]", f"[{consumer}]")
        for producers in ("[]", f'[{{"groupName":"{group}"}}]')
    ]
    made = {
        18: [f'{{"topicConfigList":[{{"topicName":"{topic}","readQueueNums":9,"writeQueueNums":9,"perm":6}}]}}'],
        25: ["brokerPermission=4\n"],
        34: beats,
        41: [lock, lock.replace(queue, "")],
        42: [lock, lock.replace(queue, "")],
        46: [f'{{"clientId":"{client}","group":"{group}","subscriptionData":{{"subString":"a","topic":"{topic}"}}}}'],
        200: [f'{{"groupName":"{group}","retryMaxTimes":1}}'],
        225: [f'{{"groupConfigList":[{{"groupName":"{group}","retryMaxTimes":1}}]}}'],
        400: [f'{{"topic":"{topic}","consumerGroup":"{group}","clientId":"{client}","strategyName":"AVG"}}'],
        401: [f'{{"topic":"{topic}","consumerGroup":"{group}","mode":"POP"}}'],
        3001: ['{"username":"eve","password":"p"}'],
        3002: ['{"username":"bob","password":"changed"}'],
        3006: ['{"subject":"User:nobody","policies":[{"entries":[{"resource":"*","actions":["All"],"decision":"Allow"}]}]}'],
        200151: [
            f'{{"brokerName":"broker-a","acks":[{{"c":"{group}","t":"{topic}","r":"0","so":0,"q":0,"rq":0,"pt":1,"it":1,"b":"AQ=="}}]}}',
            '{"brokerName":"broker-a","acks":[]}',
        ],
    }  # fmt: skip
    made[3007] = made[3006]
    return {code: [body.encode() for body in given] for code, given in made.items()}


def value(row: Any, known: Mapping[str, str]) -> str:
    default = {"str": "x", "bool": "false"}.get(row.kind, "0")
    return known.get(row.wire_name, default)


NAMES = (
    "topic",
    "group",
    "groups",
    "topic_list",
    "client_id",
    "client_addr",
    "username",
    "subject",
    "resource",
)


def is_name(row: Any) -> bool:
    """True if a field names the subject of a request."""
    return row.kind == "str" and (row.name.endswith(NAMES) or row.wire_name in ("a", "b"))


def forms(
    request: type[Request[Any]], base: Mapping[str, str], other: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Headers: all fields of `base`; each absent, each empty; each name one of `other`; all of them, and all but
    one of them.
    """
    rows = [row for row in request.FIELDS if row.kind not in ("bytes", "json", "either", "meta")]
    whole = {row.wire_name: value(row, base) for row in rows}
    yield whole
    for row in rows:
        yield {name: text for name, text in whole.items() if name != row.wire_name}
        if row.kind == "str":
            yield {**whole, row.wire_name: ""}
        if is_name(row):
            yield {**whole, row.wire_name: value(row, other)}
    yield {row.wire_name: value(row, base) for row in rows if not row.optional}
    others = {row.wire_name: value(row, other if is_name(row) else base) for row in rows}
    yield others
    for row in rows:
        if is_name(row):
            yield {name: text for name, text in others.items() if name != row.wire_name}
    yield {}


class Line:
    """A connection on which a user sends whatever it likes; what it is sent is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, who: Credentials) -> None:
        self._reader, self._writer, self._who = reader, writer, who
        self._splitter = FrameSplitter()
        self._opaque = 0

    def send(
        self, code: int, ext: dict[str, str], body: bytes | None, *, flag: int = 0, binary: bool = False
    ) -> int:
        self._opaque += 1
        command = Command(code, self._opaque, flag, dict(ext), body)
        self._who.sign(command)
        command.serialize = SERIALIZE_BINARY if binary else 0
        self._writer.write(encode_command(command))
        return self._opaque

    async def settle(self, topic: str = "mine") -> list[Command]:
        """Answers that came since the last time, until the answer to a last question."""
        last = self.send(GetMaxOffset.CODE, {"topic": topic, "queueId": "0"}, None)
        since: list[Command] = []
        while not any(heard.opaque == last and heard.flag & 1 for heard in since):
            async with asyncio.timeout(60):
                data = await self._reader.read(1 << 16)
            assert data, "the connection was cut"
            since += self._splitter.feed(data)
        return [heard for heard in since if not (heard.opaque == last and heard.flag & 1)]


@asynccontextmanager
async def line(here: Running, who: Credentials) -> AsyncIterator[Line]:
    host, _, port = here.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
    try:
        yield Line(reader, writer, who)
    finally:
        writer.close()


def picture(thing: Any, seen: set[int] | None = None) -> Any:
    """A value of everything that hangs on an object: two pictures are equal if nothing has changed."""
    seen = set() if seen is None else seen
    if thing is None or isinstance(thing, str | int | float | bytes | Enum):
        return thing
    if isinstance(thing, bytearray | memoryview):
        return bytes(thing)
    if id(thing) in seen or callable(thing):
        return "..."
    seen = seen | {id(thing)}
    if isinstance(thing, dict):
        return [(str(key), picture(each, seen)) for key, each in thing.items()]
    if isinstance(thing, list | tuple | deque):
        return [picture(each, seen) for each in thing]
    if isinstance(thing, set | frozenset):
        return sorted(map(str, thing))
    names = [row.name for row in fields(thing)] if is_dataclass(thing) else [*getattr(thing, "__dict__", ())]
    for base in type(thing).__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return [(name, picture(getattr(thing, name, None), seen)) for name in names]


def tables(here: Running) -> dict[str, Any]:
    """All that a broker knows and keeps, by name."""
    broker = here.broker.broker
    # A snapshot of these counts itself, or is sealed anew.
    counted = {"transactions", "auth", "timermetrics"}
    kept: dict[str, Any] = {
        name: snapshot()() for name, (_, snapshot, _) in broker.files.items() if name not in counted
    }
    kept["users"], kept["rules"] = picture(broker.auth.users()), picture(broker.auth.acls())
    kept["log"] = broker.store.max_physical
    kept["config"] = broker.config.properties()
    for name in ("producers", "consumers"):
        kept[name] = strip(picture(getattr(broker.clients, name)))
    kept["locks"] = picture(broker.locks)
    for name in ("held_pops", "held_notices"):
        kept[name] = getattr(broker, name).count
    kept["in flight"] = picture(broker.in_flight)
    kept["newest"] = picture(broker.transactions.newest)
    kept["open halves"] = broker.transactions.window.next_open(0, broker.transactions.end)
    return kept


def strip(seen: Any) -> Any:
    """Without when somebody was seen."""
    if isinstance(seen, list | tuple):
        return [
            strip(each)
            for each in seen
            if not (isinstance(each, tuple) and each and each[0] == "last_seen_ms")
        ]
    return seen


@asynccontextmanager
async def world(root: Path) -> AsyncIterator[tuple[Running, Place, Line]]:
    """A broker with things of bob, who is there; ann has a topic and a group of her own, nobody has nothing."""
    async with running(root, credentials=ROOT, **GUARDED) as here:
        broker = here.broker.broker
        for who in (BOB, ANN, NOBODY):
            broker.auth.put_user(User(who.access_key, who.secret_key, user_type=2, user_status=1))
        for who, topic, group in ((BOB, "other", "others"), (ANN, "mine", "own")):
            rules = [entry(f"Topic:{topic}"), entry(f"Group:{group}")]
            broker.auth.merge_acl(who.access_key, [Policy(1, rules)])
        topics = {
            topic: await here.send(topic, b"anns" if topic == "mine" else SECRET, "KEYS\x01k\x02")
            for topic in ("other", "other", "mine")
        }
        half = await here.send(
            "other",
            SECRET,
            "UNIQ_KEY\x01UH\x02TRAN_MSG\x01true\x02PGROUP\x01others\x02",
            sys_flag=4,
            born_timestamp=here.now(),
        )
        pool = ConnectionPool(credentials=BOB)
        pop = PopMessage("others", "other", -1, 9, 60_000, 0, 0, 0)
        popped = await pool.call(here.address, pop)
        await pool.call(here.address, UpdateConsumerOffset("others", "other", 0, 1))
        await pool.close()
        start, queue, offset = popped.start_offset_info.split(";")[0].split(" "), 0, 0
        handle = " ".join(
            [
                "0",
                str(popped.pop_time),
                "60000",
                str(popped.revive_qid),
                "0",
                "broker-a",
                str(queue),
                str(offset),
            ]
        )
        assert start
        recall = RecallHandle("other", broker.identity.name, here.now() + 60_000, "U1").encode()
        place = Place(
            int(half.msg_id[-16:], 16),
            int(topics["other"].msg_id[-16:], 16),
            handle,
            recall,
            pack_host("127.0.0.1", here.broker.settings.listen_port),
        )
        async with line(here, BOB) as bobs:
            consumer = ConsumerData("others", subscription_data_set=[SubscriptionData("other", "*")])
            beat = Heartbeat(HeartbeatData("bobs-client", [ProducerData("others")], [consumer])).to_command()
            bobs.send(34, beat.ext or {}, beat.body)  # type: ignore[arg-type]
            await bobs.settle("other")
            yield here, place, bobs


def body_of(code: int) -> list[bytes | None]:
    """Bodies of requests that have none to speak of, or could have any."""
    kinds = {row.kind for row in REQUESTS[code].FIELDS}
    return [b"a body", None, b"{}"] if kinds & {"bytes", "json", "either"} else [None]


async def test_a_user_without_rights_gets_nothing_and_changes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as (here, place, bobs), line(here, NOBODY) as mine:
        base = texts(place, "other", "others", "bobs-client")
        others = texts(place, "mine", "own", "anns-client")
        given = bodies("other", "others", "bobs-client")
        before, count, connections = tables(here), 0, len(here.broker.broker.clients.producers)
        for code, request in sorted(REQUESTS.items()):
            if code in OPEN:
                continue
            asked = 0
            for ext in forms(request, base, others):
                for body in [*given.get(code, ()), *body_of(code)]:
                    for flag in (0, FLAG_ONEWAY):
                        mine.send(code, ext, body, flag=flag)
                    asked += 1
                    if code < BINARY_LIMIT:
                        mine.send(code, ext, body, binary=True)
                        asked += 1
            answers = await mine.settle()
            assert len(answers) == asked, f"{request.__name__}: pushed, or not answered"
            codes = {answer.code for answer in answers if answer.flag & 1}
            assert codes == {ResponseCode.NO_PERMISSION}, request.__name__
            after = tables(here)
            assert after == before, (
                request.__name__,
                [name for name in after if after[name] != before[name]],
            )
            count += asked
        assert count > 1500
        assert len(here.broker.broker.clients.producers) == connections
        assert await bobs.settle("other") == []


async def test_what_is_open_to_all_reads_and_changes_nothing_of_anybody(tmp_path: Path) -> None:
    assert set(OPEN) == {code for code, need in NEEDS.items() if need.open_reason}
    async with world(tmp_path) as (here, _, bobs), line(here, NOBODY) as mine:
        before = tables(here)
        for code in OPEN:
            for body in bodies("other", "others", "bobs-client")[code]:
                mine.send(code, {}, body)
        assert [answer.code for answer in await mine.settle()] == [0]
        assert tables(here) == before
        assert await bobs.settle("other") == []


ANNS_TOPICS = ("mine", "%RETRY%own", "%DLQ%own", "SCHEDULE_TOPIC_XXXX")
"""Topics whose messages come to ann, now or later."""


def given_away(here: Running) -> list[tuple[str, int]]:
    """Messages of bob's that will come to ann."""
    store = here.broker.broker.store
    return [
        (topic, queue_id)
        for topic in ANNS_TOPICS
        for queue_id in store.queue_ids(topic)
        for record in read_queue(store, topic, queue_id)
        if SECRET in record.body
    ]


def bobs_part(here: Running) -> dict[str, Any]:
    """Things that bob has on the broker, and those that are nobody's."""
    broker = here.broker.broker
    window, members = broker.transactions.window, broker.clients.consumers["others"].members
    client_ids = [
        client.client_id for client in broker.clients.producers["others"].values() if client.user == "bob"
    ]
    return {
        "topic": picture(broker.topics.get("other")),
        "messages": [broker.store.max_offset("other", queue_id) for queue_id in range(4)],
        "first": [broker.store.min_offset("other", queue_id) for queue_id in range(4)],
        "group": picture(broker.groups.get("others")),
        "forbidden": picture(broker.groups.forbidden.get("others")),
        "given away": given_away(here),
        "offsets": broker.offsets.queues("others", "other"),
        "half": window.next_open(0, broker.transactions.end),
        "members": [client.client_id for client in members.values()],
        "subscriptions": picture(broker.clients.consumers["others"].subscriptions),
        "producers": client_ids,
        "locks": picture(broker.locks._by_group.get("others")),
        "users": picture(broker.auth.users()),
        "rules": picture(broker.auth.acls()),
        "config": broker.config.properties(),
        "modes": [mode for mode in picture(broker.modes.to_body()) if "other" in str(mode)],
        "replies": [broker.store.max_offset("DefaultCluster_REPLY_TOPIC", 0)],
        "in flight": {key: dict(each) for key, each in broker.in_flight.by_group.items() if "others" in key},
    }


async def test_rights_to_ones_own_are_none_to_what_is_somebody_elses(tmp_path: Path) -> None:
    """Each request in a form that its sender may send, but for what it names, leaves out, or leaves empty."""
    async with world(tmp_path) as (here, place, bobs), line(here, ANN) as mine:
        broker = here.broker.broker
        # Fields that name no topic, group or client are bob's all the same: places, handles, ids.
        own = texts(place, "mine", "own", "anns-client")
        others = texts(place, "other", "others", "bobs-client")
        bodies_own, bodies_others = (
            bodies("mine", "own", "bobs-client"),
            bodies("other", "others", "bobs-client"),
        )
        before = bobs_part(here)
        for code, request in sorted(REQUESTS.items()):
            for ext in forms(request, own, others):
                for body in [*bodies_own.get(code, ()), *bodies_others.get(code, ()), *body_of(code)]:
                    mine.send(code, ext, body)
                    if code < BINARY_LIMIT:
                        mine.send(code, ext, body, binary=True)
            for heard in await mine.settle():
                shown = b"".join((bytes(heard.body or b""), str(heard.ext).encode()))
                assert SECRET not in shown, (request.__name__, shown)
                assert b"others" not in shown, (request.__name__, shown)
            after = bobs_part(here)
            assert after == before, (
                request.__name__,
                [name for name in after if after[name] != before[name]],
            )
            broker.topics.ensure("mine", 4, here.now())
            assert await bobs.settle("other") == [], request.__name__


async def test_half_messages_are_shown_to_those_who_may_send_to_their_topic(tmp_path: Path) -> None:
    async with world(tmp_path) as (here, _, bobs), line(here, ANN) as anns:
        beat = Heartbeat(HeartbeatData("x", [ProducerData("others")])).to_command()
        anns.send(34, beat.ext or {}, beat.body)  # type: ignore[arg-type]
        assert [answer.code for answer in await anns.settle()] == [0]
        assert len(here.broker.broker.clients.producers["others"]) == 2
        later = here.now()
        asked = []
        for _ in range(4):
            later += 40_000
            while here.broker.broker.check_back.tick(later):
                pass
            here.run_task("sample statistics", later)
            assert await anns.settle() == []
            asked += await bobs.settle("other")
        assert {one.code for one in asked} == {39}
        assert all(SECRET in bytes(one.body or b"") for one in asked)


async def test_a_reply_goes_to_nobody_where_two_users_have_its_askers_id(tmp_path: Path) -> None:
    async with world(tmp_path) as (here, place, bobs), line(here, ANN) as anns:
        here.broker.broker.auth.merge_acl(
            "ann", [Policy(1, [entry("Topic:DefaultCluster_REPLY_TOPIC", "Pub")])]
        )
        fields = {**texts(place, "DefaultCluster_REPLY_TOPIC", "own", "x"), "m": "false"}
        row = {
            one.wire_name: value(one, fields)
            for one in REQUESTS[325].FIELDS
            if one.kind not in ("bytes", "meta")
        }
        row |= {"f": "0", "e": "0"}
        anns.send(325, row, b"pong", flag=FLAG_ONEWAY)
        assert await anns.settle() == []
        assert [one.code for one in await bobs.settle("other")] == [326]
        beat = Heartbeat(HeartbeatData("bobs-client", [ProducerData("a")])).to_command()
        anns.send(34, beat.ext or {}, beat.body)  # type: ignore[arg-type]
        anns.send(325, row, b"pong")
        assert [answer.code for answer in await anns.settle()] == [0, 1]
        assert await bobs.settle("other") == []


def long_bodies() -> dict[int, bytes]:
    """Bodies that name very much, and are read to find out what."""
    many = range(3_000)
    listed = {
        18: ("topicConfigList", ",".join(f'{{"topicName":"t{number}"}}' for number in many)),
        34: ("clientID", ",".join(f'{{"groupName":"g{number}"}}' for number in many)),
        41: ("mqSet", ",".join(f'{{"topic":"t{number}"}}' for number in many)),
        42: ("mqSet", ",".join(f'{{"topic":"t{number}"}}' for number in many)),
        225: ("groupConfigList", ",".join(f'{{"groupName":"g{number}"}}' for number in many)),
        200151: ("acks", ",".join(f'{{"t":"t{number}"}}' for number in many)),
    }
    made = {code: f'{{"{name}":[{items}]}}'.encode() for code, (name, items) in listed.items()}
    made[34] = made[34].replace(b'"clientID":[', b'"clientID":"x","consumerDataSet":[')
    return made


async def test_long_bodies_are_looked_through_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who may not ask are refused, and hold up nobody by the length of what they ask."""
    read_in: set[int] = set()
    plain = fastjson.parse

    def parse(data: Any, *limits: Any) -> Any:
        if len(data) > 1 << 14:
            read_in.add(threading.get_ident())
        return plain(data, *limits)

    async with world(tmp_path) as (here, _, _), line(here, NOBODY) as mine, line(here, ANN) as anns:
        before = tables(here)
        monkeypatch.setattr(fastjson, "parse", parse)
        for code, body in long_bodies().items():
            for user in (mine, anns):
                user.send(code, {}, body)
        for user in (mine, anns):
            asked = len(long_bodies())
            answers: list[Command] = []
            while len(answers) < asked:
                answers += await user.settle()
            assert {answer.code for answer in answers} == {ResponseCode.NO_PERMISSION}
        assert tables(here) == before
    assert read_in
    assert threading.get_ident() not in read_in
