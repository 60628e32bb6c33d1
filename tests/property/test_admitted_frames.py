"""Whatever users send in one read where access is controlled, damaged or forged too: as frames it comes to
the same as one by one, each asked about by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.auth import admission_cy
from orbitmq.handling.call import Wait
from orbitmq.protocol.bodies.auth import Policy, User
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import MalformedFrame, Refused
from orbitmq.protocol.remoting.command import FLAG_ONEWAY, Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, FrameSplitter, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.transaction import EndTransaction
from tests.kit.access import entry
from tests.kit.real_broker import NOW, PEER, RealBroker, as_sent, message, resumed
from tests.property.reads import damaged, damages, on_lasting_brokers

IS_COMPILED = not (admission_cy.__file__ or "").endswith(".py")
GUARDED = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
USERS = {
    "root": User("root", "r", user_type=1, user_status=1),
    "ann": User("ann", "a", user_type=2, user_status=1),
    "sender": User("sender", "s", user_type=2, user_status=1),
    "off": User("off", "o", user_type=1, user_status=2),
    "nobody": User("nobody", "n", user_type=2, user_status=1),
}
RULES = {
    "ann": [entry("Topic:TopicTest"), entry("Group:CG")],
    "sender": [entry("Topic:T*", "Pub"), entry("Topic:Other", "All", "Deny")],
}
WHO = st.sampled_from(
    [
        *(("ann", "a"), ("ann", "a"), ("root", "r"), ("sender", "s")),
        *(("off", "o"), ("nobody", "n"), ("ann", "wrong"), ("missing", "a")),
    ]
)
TOPICS = st.sampled_from(["TopicTest", "TopicTest", "TopicTest", "Other", "%RETRY%CG"])
PROPERTIES = st.sampled_from(
    [
        *["UNIQ_KEY\x017F000001ABCD\x02KEYS\x01k\x02"] * 3,
        "UNIQ_KEY\x017F000001ABCD\x02DELAY\x011\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x017F000001ABCD\x02",
    ]
)
SENDS = st.builds(
    lambda topic, queue_id, properties, body: message(
        topic=topic, queue_id=queue_id, properties=properties, body=body
    ),
    TOPICS,
    st.integers(0, 3),
    PROPERTIES,
    st.binary(max_size=40) | st.just(b"b" * 2000),
)
PULLS = st.builds(
    lambda group, topic, queue_offset: PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        queue_offset=queue_offset,
        max_msg_nums=2,
        sys_flag=5,
        commit_offset=3,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    ),
    st.sampled_from(["CG", "CG", "Else"]),
    TOPICS,
    st.integers(0, 2),
)
REQUESTS_ = st.one_of(SENDS, SENDS, PULLS)
READS = st.lists(
    st.tuples(
        REQUESTS_, WHO, st.sampled_from([0, 0, 0, FLAG_ONEWAY]), st.sampled_from([None] * 5 + ["b", "e", "x"])
    ),
    min_size=1,
    max_size=5,
)


def prepare(broker: RealBroker) -> None:
    for user in USERS.values():
        broker.broker.auth.put_user(user)
    for name, entries in RULES.items():
        broker.broker.auth.merge_acl(name, [Policy(1, entries)])
    for topic in ("TopicTest", "Other"):
        for queue_id in range(4):
            broker.send(topic=topic, queue_id=queue_id)
    broker.broker.topics.note_saved()


@contextlib.contextmanager
def guarded_pair(folder: Path) -> Iterator[tuple[RealBroker, RealBroker]]:
    pair = RealBroker(folder / "a", **GUARDED), RealBroker(folder / "b", **GUARDED)
    for broker in pair:
        prepare(broker)
    try:
        yield pair
    finally:
        for broker in pair:
            broker.close()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealBroker, RealBroker]]:
    with guarded_pair(tmp_path_factory.mktemp("brokers")) as pair:
        yield pair


def answered(broker: RealBroker, data: bytes, *, at_once: bool) -> tuple[list[Command], int]:
    """The answers to a read, and how much of it was handled as frames."""
    gate = broker.broker.gate
    assert gate is not None
    answers: list[Command] = []
    end, may = 0, gate.admitted_bytes(data, PEER, NOW + 1) if at_once else 0
    while end < may:
        taken = None
        for taker in broker.broker.bind()[2][:4]:
            if data.startswith(taker.begins, end + 8):
                taken = taker.handle(data[end:may], PEER, NOW + 1)
                break
        if taken is None:
            break
        answers += FrameSplitter().feed(taken.answers)
        for command, result in taken.results:
            answers.append(as_sent(resumed(result), command.opaque))
        end += taken.end
    for command in decode_frames(data, MAX_FRAME_BYTES, end)[0]:
        if command.code not in (310, 37, 11, 200051) or command.flag & 1:
            continue  # damaged: another request
        remark = gate.refusal(command, PEER, NOW + 1)
        if remark is not None:
            answers.append(Command(ResponseCode.NO_PERMISSION, command.opaque, 1, None, None, remark))
            continue
        result = broker.by_rules(command, NOW + 1)
        if isinstance(result, Wait):
            result = resumed(result, now=NOW + 1)
        if isinstance(result, Refused):
            answers.append(Command(int(result.code), command.opaque, 1, result.extra, None, result.remark))
        elif isinstance(result, Exception):
            answers.append(Command(-1, command.opaque, 1, None, None, repr(result)))
        elif result is not None and not command.is_oneway:
            answers.append(as_sent(result, command.opaque))
    return answers, end


def read_of(items: list[tuple[Any, tuple[str, str], int, str | None]]) -> bytes:
    frames = []
    for opaque, (request, who, flag, forged) in enumerate(items):
        command = request.to_command(opaque)
        command.flag |= flag
        Credentials(*who).sign(command)
        if forged is not None:
            command.ext[forged] = "TopicTest"
        frames.append(encode_command(command))
    return b"".join(frames)


def told(answers: list[Command]) -> list[tuple[Any, ...]]:
    return [(one.opaque, one.code, one.ext or {}, one.remark, one.body or b"") for one in answers]


@on_lasting_brokers
@given(READS, damages(900))
def test_frames_come_to_the_same_as_requests(brokers, items, damage) -> None:  # type: ignore[no-untyped-def]
    data = damaged(read_of(items), damage)
    try:
        decode_frames(data, MAX_FRAME_BYTES)
    except MalformedFrame:
        return
    for broker in brokers:
        broker.broker.topics.note_saved()
    begin = brokers[0].store.max_physical
    ours, _ = answered(brokers[0], data, at_once=True)
    theirs, _ = answered(brokers[1], data, at_once=False)
    assert told(ours) == told(theirs)
    assert list(brokers[0].store.log.records(begin)) == list(brokers[1].store.log.records(begin))
    assert brokers[0].broker.offsets.queues("CG", "TopicTest") == brokers[1].broker.offsets.queues(
        "CG", "TopicTest"
    )


HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x017F000001ABCD\x02"


@pytest.mark.parametrize(
    ("who", "named", "is_open", "is_taken"),
    [
        (("root", "r"), "Other", False, True),
        (("root", "r"), "TopicTest", False, False),
        (("ann", "a"), "Other", True, False),
        (("ann", "a"), "TopicTest", True, False),
        (("ann", "a"), None, True, False),
        (("root", "r"), None, False, False),
    ],
    ids=[
        "who may",
        "who may, under another name",
        "who may not",
        "by a name that is allowed",
        "by none",
        "all",
    ],
)
def test_whose_half_message_is_decided_about_is_what_counts(
    tmp_path: Path, who: tuple[str, str], named: str | None, is_open: bool, is_taken: bool
) -> None:
    with guarded_pair(tmp_path) as pair:
        for broker, at_once in zip(pair, (True, False), strict=True):
            # The first ones make the queues, which no fast path does.
            for user, name in ((("root", "r"), "Other"), (who, named)):
                half = read_of([(message(topic="Other", properties=HALF), ("root", "r"), 0, None)])
                answers, _ = answered(broker, half, at_once=at_once)
                place = int((answers[0].ext or {})["msgId"][-16:], 16)
                offset = int((answers[0].ext or {})["queueOffset"])
                end = EndTransaction("PG", offset, place, 12, "7F000001ABCD", name)
                read = read_of([(end, user, 0, None)])
                _, taken = answered(broker, read, at_once=at_once)
            transactions = broker.broker.transactions
            found = transactions.window.next_open(0, transactions.end)
            assert (found is not None and found <= offset) == is_open
            assert taken == (len(read) if is_taken and at_once and IS_COMPILED else 0)


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted, all requests go the general path")
def test_usual_frames_of_those_who_may_are_taken(brokers: tuple[RealBroker, RealBroker]) -> None:
    broker = brokers[0]
    send = (message(queue_id=0), ("ann", "a"), 0, None)
    pull = PullMessage(
        consumer_group="CG",
        topic="TopicTest",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=1,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    for items in ([send] * 3, [(pull, ("ann", "a"), 0, None)] * 3):
        data = read_of(items)
        assert answered(broker, data, at_once=True)[1] == len(data)
