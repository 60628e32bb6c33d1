"""Lite topics as a proxy asks for them: sends, subscriptions, pops, acknowledgements, redelivery."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.handling.call import Peer
from orbitmq.protocol.bodies.lite import LiteSubscriptionCtlBody, OffsetOption, OffsetOptionType
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.lite_topics import lite_queue
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.lite import LiteSubscriptionCtl, NotifyUnsubscribeLite, PopLiteMessage
from orbitmq.protocol.requests.offset import (
    GetMaxOffset,
    InvokeBrokerToResetOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pop import Notification
from orbitmq.protocol.requests.pull import COMMITS_OFFSET, LitePullMessage, pull_without_commit
from tests.kit.lite import GROUP, PARENT, LiteWorld
from tests.kit.nameserver_story import off_loop_done
from tests.kit.pop import Call
from tests.kit.real_broker import message

OTHER = Peer(2, bytes([10, 0, 0, 9, 0, 0, 0x30, 0x40]), "10.0.0.9:12346", 493)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LiteWorld]:
    made = LiteWorld(tmp_path)
    yield made
    made.close()


def test_a_client_gets_the_lite_topics_it_asked_for_in_order_and_once(world: LiteWorld) -> None:
    world.add("c1", "a", "b")
    sent = {name: world.put(name, 3) for name in "abc"}
    got = world.take("c1")
    by_topic = {name: [one.body for one in got if one.lite_topic == name] for name in "abc"}
    assert by_topic == {"a": sent["a"], "b": sent["b"], "c": []}
    assert world.take("c1") == []
    world.settle(*got)
    assert [world.committed(name) for name in "abc"] == [3, 3, -1]
    assert world.take("c1") == []


def test_a_batch_blocks_its_lite_topic_alone_until_it_is_acknowledged(world: LiteWorld) -> None:
    world.add("c1", "a", "b")
    (first, second) = world.put("a", 2)
    (one,) = world.take("c1", max_msg_num=1)
    world.put("b")
    assert [got.lite_topic for got in world.take("c1")] == ["b"]
    world.settle(one)
    (two,) = world.take("c1")
    assert (one.body, two.body) == (first, second)


def test_what_is_not_acknowledged_comes_again_and_is_counted(world: LiteWorld) -> None:
    world.add("c1", "a")
    world.put("a", 3)
    first = world.take("c1", invisible_time=2_000)
    world.settle(first[0])
    assert world.committed("a") == 1
    world.put("a")
    assert world.take("c1") == []
    held = world.ask("c1", poll_time=5_000)
    world.wait(2_100)
    again = world.found(held)
    assert [(one.offset, one.times) for one in again] == [(1, 1), (2, 1), (3, 0)]
    world.settle(first[1])  # of the pop before: its time is over
    assert world.committed("a") == 1
    world.settle(*again)
    assert world.committed("a") == 4


def test_the_same_attempt_gets_the_same_batch(world: LiteWorld) -> None:
    world.add("c1", "a")
    world.put("a", 2)
    first = world.take("c1", attempt_id="A")
    world.broker.lite_events.tell(lite_queue(PARENT, "a"), world.now)
    assert [one.body for one in world.take("c1", attempt_id="A")] == [one.body for one in first]
    world.broker.lite_events.tell(lite_queue(PARENT, "a"), world.now)
    assert world.take("c1", attempt_id="B") == []


def test_invisible_times_are_changed_and_suspension_is_no_delivery(world: LiteWorld) -> None:
    world.add("c1", "a")
    world.put("a")
    (got,) = world.take("c1", invisible_time=1_000)
    reply = world.postpone(got, 5_000)
    assert reply.pop_time + reply.invisible_time == world.now + 5_000
    world.wait(4_900)
    assert world.take("c1") == []
    world.wait(200)
    (again,) = world.take("c1", invisible_time=1_000)
    assert again.times == 1
    world.postpone(again, 2_000, suspend=True)
    world.wait(1_900)
    assert world.take("c1") == []
    world.wait(200)
    (third,) = world.take("c1")
    assert third.times == 1
    world.settle(third)
    assert (world.postpone(third, 1_000).pop_time, world.committed("a")) == (0, 1)


def test_a_notice_tells_of_the_lite_topics_of_its_client_and_leaves_them_to_pops(world: LiteWorld) -> None:
    world.add("c1", "a")

    def ask(poll_ms: int) -> Call:
        call = Call(None)
        notice = Notification(GROUP, PARENT, -1, poll_ms, world.now, is_lite_consumer=True, client_id="c1")
        world.took(call, world.real.handle(notice, world.now))
        if call.result is not None:
            world.calls.append(call)
        return call

    assert ask(0).reply.has_msg is False
    notice = ask(3_000)
    pop = world.ask("c1", poll_time=3_000)
    world.put("b")
    assert None not in (notice.result, pop.result)
    world.put("a")
    assert notice.reply.has_msg is True
    assert [got.lite_topic for got in world.found(pop)] == ["a"]
    assert ask(0).reply.has_msg is False


def test_a_held_pop_is_woken_by_its_own_lite_topics_alone(world: LiteWorld) -> None:
    world.add("c1", "a")
    held = world.ask("c1", poll_time=3_000)
    world.put("b")
    assert held.result is not None
    (body,) = world.put("a")
    assert [one.body for one in world.found(held)] == [body]
    late = world.ask("c1", poll_time=3_000)
    world.wait(3_100)
    assert world.found(late) == []


def test_each_group_gets_all_and_one_member_each_message(world: LiteWorld) -> None:
    world.group("G2")
    for client, group in (("c1", GROUP), ("c2", GROUP), ("d1", "G2")):
        world.add(client, "a", group=group)
    sent = []
    mine = []
    for _ in range(6):
        sent += world.put("a")
        got = world.take("c1") + world.take("c2")
        assert len(got) == 1
        mine += [one.body for one in got]
        world.settle(*got)
    assert mine == sent
    assert [one.body for one in world.take("d1", group="G2")] == sent


def test_a_member_that_fetches_nothing_loses_it_to_another(world: LiteWorld) -> None:
    world.add("c1", "a")
    (body,) = world.put("a")
    world.add("c2", "a")
    assert world.take("c2") == []
    world.wait(11_000)
    world.broker.lite_events.scan(world.now)
    assert [one.body for one in world.take("c2")] == [body]


def test_a_client_that_leaves_hands_on_what_it_had(world: LiteWorld) -> None:
    world.add("c1", "a")
    world.put("a")
    world.add("c2", "a")
    world.tell("COMPLETE_REMOVE", "c1")
    assert len(world.take("c2")) == 1
    world.tell("PARTIAL_REMOVE", "c2", "a")
    world.wait(10_100)
    assert world.take("c2") == []
    assert world.broker.lite_subscriptions.count == 0


def test_complete_add_replaces_and_keeps_a_client_alive(world: LiteWorld) -> None:
    world.put("b")
    world.add("c1", "a")
    world.tell("COMPLETE_ADD", "c1", "b", "c")
    assert sorted(world.broker.lite_subscriptions.clients["c1"].lmqs) == [
        lite_queue(PARENT, name) for name in "bc"
    ]
    assert len(world.take("c1")) == 1
    world.wait(170_000)
    world.tell("COMPLETE_ADD", "c1", "b", "c")
    world.wait(170_000)
    world.broker.lite_changes.drop_silent(world.now)
    assert "c1" in world.broker.lite_subscriptions.clients
    world.wait(20_000)
    world.broker.lite_changes.drop_silent(world.now)
    assert not world.broker.lite_subscriptions.clients


def test_an_exclusive_lite_topic_goes_to_the_last_who_asks(world: LiteWorld) -> None:
    world.group(model="Exclusive", reset_offset_exclusive="TRUE")
    world.add("c1", "a")
    sent = world.put("a", 2)
    world.settle(*world.take("c1"))
    world.broker.outbox.drain()
    world.add("c1", "a")
    assert not world.broker.outbox.pushes  # its own is not taken from it
    world.add("c2", "a", peer=OTHER)
    ((connection_id, told),) = world.broker.outbox.drain()
    assert isinstance(told, NotifyUnsubscribeLite)
    assert (connection_id, told.lite_topic, told.consumer_group, told.client_id) == (1, "a", GROUP, "c1")
    assert [one.body for one in world.take("c2")] == sent  # from the beginning, as the group says
    world.tell("COMPLETE_ADD", "c1", "a")
    assert len(world.broker.outbox.drain()) == 1  # it did not hear of it: told again, and gets nothing
    world.wait(10_100)
    assert world.take("c1") == []


def test_a_wildcard_group_gets_every_lite_topic_of_its_parent(world: LiteWorld) -> None:
    world.group("W", wildcard="true")
    sent = world.put("a") + world.put("b")
    world.tell("COMPLETE_ADD", "w1", group="W")
    got = world.take("w1", group="W")
    assert sorted(one.body for one in got) == sent
    world.settle(*got)
    assert [one.body for one in world.take("w1", group="W")] == []
    new = world.put("c")
    assert [one.body for one in world.take("w1", group="W")] == new
    with pytest.raises(Refused, match="not supported for this group"):
        world.add("w1", "a", group="W")


@pytest.mark.parametrize(
    ("option", "first"),
    [
        (OffsetOption(OffsetOptionType.POLICY, 0), 2),
        (OffsetOption(OffsetOptionType.POLICY, 1), 0),
        (OffsetOption(OffsetOptionType.POLICY, 2), None),
        (OffsetOption(OffsetOptionType.OFFSET, 1), 1),
        (OffsetOption(OffsetOptionType.TAIL_N, 1), 1),
        (OffsetOption(OffsetOptionType.TIMESTAMP, 1), 2),
    ],
)
def test_a_client_says_where_it_begins(world: LiteWorld, option: OffsetOption, first: int | None) -> None:
    world.add("c0", "a")
    world.put("a", 2)
    world.settle(*world.take("c0"))
    world.put("a")
    world.tell("COMPLETE_REMOVE", "c0")
    world.add("c1", "a", option=option)
    got = world.take("c1")
    assert (got[0].offset if got else None) == first


def test_more_lite_topics_than_may_wait_all_come_in_the_end(world: LiteWorld) -> None:
    world.group(client_max_event_cnt="10")
    names = [f"n{number}" for number in range(75)]
    world.add("c1", *names)
    sent = [world.put(name)[0] for name in names]
    got: list[bytes] = []
    for _ in range(20):
        some = world.take("c1", max_msg_num=7)
        world.settle(*some)
        got += [one.body for one in some]
    assert sorted(got) == sorted(sent)


def test_clients_have_limits_of_the_broker(tmp_path: Path) -> None:
    world = LiteWorld(
        tmp_path, maxClientEventCount=2, liteSubscriptionCheckTimeoutMills=500, liteEventCheckInterval=2_000
    )
    world.add("c1", "a", "b", "c")
    for name in "abc":
        world.put(name)
    assert sorted(one.lite_topic for one in world.take("c1")) == ["a", "b"]
    world.add("c2", "c")
    world.wait(1_900)
    world.broker.lite_events.scan(world.now)
    assert world.broker.lite_events.has_some("c1")
    world.broker.lite_changes.drop_silent(world.now)
    assert not world.broker.lite_subscriptions.clients
    world.close()


def test_a_light_queue_is_read_and_reset_under_its_own_name(world: LiteWorld) -> None:
    world.add("c1", "a")
    sent = world.put("a", 3)
    world.settle(*world.take("c1"))
    name = lite_queue(PARENT, "a")
    assert world.real.handle(GetMaxOffset(name, 0), world.now).offset == 3
    world.real.handle(UpdateConsumerOffset(GROUP, name, 0, 1), world.now)
    world.broker.lite_events.tell(name, world.now)
    got = world.take("c1")
    assert [one.body for one in got] == sent[1:]
    world.real.handle(InvokeBrokerToResetOffset(GROUP, name, -1, True, 0, 0), world.now)
    world.broker.lite_events.tell(name, world.now)
    assert [one.body for one in world.take("c1")] == sent  # a reset frees what was blocked


def test_pulls_and_searches_may_name_a_lite_topic_of_their_topic(world: LiteWorld) -> None:
    world.group("plain")
    for name, count in (("a", 1), ("b", 3)):
        sent = world.put(name, count)
    pull = pull_without_commit("plain", PARENT, 2, 1, 32)
    pull.lite_topic = "b"
    for one in (pull, LitePullMessage.from_command(pull.to_command())):
        reply = world.real.handle(one, world.now)
        assert [record.body for record in decode_records(reply.body)[0]] == sent[1:]
        assert (reply.next_begin_offset, reply.max_offset) == (3, 3)
    pull.sys_flag |= COMMITS_OFFSET
    pull.commit_offset = 1
    world.real.handle(pull, world.now)
    assert world.broker.offsets.get("plain", lite_queue(PARENT, "b"), 0) == 1
    assert world.broker.offsets.get("plain", PARENT, 2) == -1
    for name, offset in (("b", 3), ("nobody", 0)):
        search = SearchOffsetByTimestamp(PARENT, 2, world.now + 1000, lite_topic=name)
        assert off_loop_done(world.real.handle(search, world.now), world.now).offset == offset


def test_offsets_survive_a_kill_and_nothing_is_lost(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path)
    world.add("c1", "a")
    world.put("a", 3)
    got = world.take("c1")
    world.settle(got[0])
    world.save()
    world.restart(kill=True)
    world.group()
    assert world.take("c1") == []
    world.tell("COMPLETE_ADD", "c1", "a")
    world.settle(got[2])  # popped before: what is before it may not be handled
    assert world.committed("a") == 1
    assert [one.offset for one in world.take("c1")] == [1, 2]
    world.close()


def test_refusals_have_apaches_codes(world: LiteWorld) -> None:
    real, broker = world.real, world.broker

    def pop(**fields: object) -> Refused:
        values: dict[str, object] = {
            "client_id": "c1", "consumer_group": GROUP, "topic": PARENT, "max_msg_num": 1,
            "invisible_time": 1000, "poll_time": 0, "born_time": 0, **fields,
        }  # fmt: skip
        return real.refusal(PopLiteMessage(**values))  # type: ignore[arg-type]

    assert pop(max_msg_num=33).code == ResponseCode.INVALID_PARAMETER
    assert pop(topic="nothing").code == ResponseCode.TOPIC_NOT_EXIST
    assert pop(topic="TopicTest").remark == "the topic [TopicTest] message type not match"
    broker.topics.put(TopicConfig("P2", attributes={"message.type": "LITE"}), world.now)
    assert pop(topic="P2").remark == f"subscription bind topic not match, {GROUP}"
    assert (
        real.refusal(LiteSubscriptionCtl(LiteSubscriptionCtlBody([]))).code == ResponseCode.ILLEGAL_OPERATION
    )
    broker.settings.max_lite_subscription_count = 1
    world.add("c1", "a", "b")
    with pytest.raises(Refused) as refused:
        world.add("c2", "c")
    assert refused.value.code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    world.put("a", 2)
    got = world.take("c1", max_msg_num=1)[0]
    world.group(GROUP + "2")
    for wrong, code in (
        ({"offset": 7}, ResponseCode.NO_MESSAGE),
        ({"offset": 1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"group": "TOOLS_CONSUMER"}, ResponseCode.INVALID_PARAMETER),
    ):
        with pytest.raises(Refused) as refused:
            world.settle(type(got)(**{**{name: getattr(got, name) for name in got.__annotations__}, **wrong}))
        assert refused.value.code == code


def test_a_message_of_a_transaction_is_in_no_lite_topic(world: LiteWorld) -> None:
    with pytest.raises(Refused, match="cannot be of a transaction") as refused:
        world.put("a", TRAN_MSG="true", PGROUP="P")
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("delay", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}])
def test_a_delayed_message_is_in_its_lite_topic_when_it_is_due(
    world: LiteWorld, delay: dict[str, str]
) -> None:
    world.add("c1", "a")
    (body,) = world.put("a", **delay)
    assert (world.take("c1"), world.store.lmq_count) == ([], 0)
    for _ in range(40):
        world.wait(100)
        world.broker.delay.deliver_due(world.now)
        world.turn()
    (got,) = world.take("c1")
    assert (got.body, got.offset) == (body, 0)


@pytest.mark.parametrize("name", ["a$b", "a/b", "..", "é", "a" * 250])
def test_a_lite_topic_has_a_name_that_a_folder_can_have(world: LiteWorld, name: str) -> None:
    with pytest.raises(Refused) as refused:
        world.put(name)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert world.store.lmq_count == 0


def test_too_many_lite_topics_are_refused_with_a_code_of_their_own(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path, enableLmqQuota=True, maxLmqConsumeQueueNum=1)
    world.put("a")
    with pytest.raises(Refused) as refused:
        world.put("b")
    assert refused.value.code == ResponseCode.LMQ_QUOTA_EXCEEDED
    world.put("a")
    world.close()


def test_without_the_switches_a_message_of_a_lite_topic_is_not_swallowed(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path, enableMultiDispatch=False)
    with pytest.raises(Refused, match="enableLmq=true and enableMultiDispatch=true"):
        world.put("a")
    world.close()


def test_the_short_path_leaves_lite_topics_to_the_rules(world: LiteWorld) -> None:
    """A read brings plain sends, and one of a lite topic among them."""
    plain = "UNIQ_KEY\x01U1\x02"
    sends = [
        message(topic=PARENT, queue_id=0, body=b"%d" % number, properties=properties)
        for number, properties in enumerate((plain, plain + "__LITE_TOPIC\x01a\x02", plain))
    ]
    data = b"".join(encode_command(one.to_command(opaque=number)) for number, one in enumerate(sends))
    world.real.read_sends(data, world.now)
    world.add("c1", "a")
    assert [one.body for one in world.take("c1")] == [b"1"]
    assert world.store.max_offset(PARENT, 0) == 3


@pytest.mark.parametrize("seed", range(3))
def test_whatever_clients_do_each_message_comes_in_order_and_none_is_lost(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    world = LiteWorld(tmp_path)
    names, clients = [f"n{number}" for number in range(8)], ["c1", "c2", "c3"]
    sent: dict[str, list[bytes]] = defaultdict(list)
    done: dict[str, list[bytes]] = defaultdict(list)
    for client in clients:
        world.tell("COMPLETE_ADD", client, *dice.sample(names, 6))
    for _ in range(250):
        client = dice.choice(clients)
        match dice.randrange(7):
            case 0 | 1:
                name = dice.choice(names)
                sent[name] += world.put(name, dice.randrange(1, 4))
            case 2:
                world.tell("COMPLETE_ADD", client, *dice.sample(names, dice.randrange(9)))
            case 3:
                world.wait(dice.randrange(3_000))
            case 4 if dice.random() < 0.2:
                world.save()
                world.restart(kill=True)
                for one in clients:
                    world.tell("COMPLETE_ADD", one, *dice.sample(names, 6))
            case _:
                for got in world.take(client, max_msg_num=dice.randrange(1, 9), invisible_time=4_000):
                    if dice.random() < 0.8:
                        world.settle(got)
                        if got.body not in done[got.lite_topic]:
                            done[got.lite_topic].append(got.body)
    world.tell("COMPLETE_ADD", "c1", *names)
    for _ in range(40):
        world.wait(4_100)
        world.broker.lite_events.scan(world.now)
        for client in clients:
            for got in world.take(client):
                world.settle(got)
                if got.body not in done[got.lite_topic]:
                    done[got.lite_topic].append(got.body)
    for name in names:
        assert sorted(done[name]) == sorted(sent[name])
        assert world.committed(name) == (len(sent[name]) or -1)
    world.close()
