"""Pulls: the order of the checks, the codes by store status, and what holds a pull."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from orbitmq.handling.call import DataAt, Saved, Wait, Warm
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.pop import Notification, NotificationReply, PeekMessage, PopMessage
from orbitmq.protocol.requests.pull import LitePullMessage, PullMessage
from orbitmq.store import GetResult, GetStatus
from orbitmq.store.log.messages import Cold
from tests.kit.real_broker import NOW, PEER, RealBroker, resumed
from tests.unit.broker.pull.test_pulls_cy import compiled_only

SUSPEND, COMMIT, SUBSCRIPTION = 2, 1, 4


def pull(kind: Any = PullMessage, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "consumer_group": "CG",
        "topic": "TopicTest",
        "queue_id": 1,
        "queue_offset": 0,
        "max_msg_nums": 32,
        "sys_flag": SUBSCRIPTION,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 0,
        "subscription": "*",
        "expression_type": "TAG",
        "max_msg_bytes": 262_144,
    }
    return kind(**{**values, **fields})


def send(broker: RealBroker, count: int = 1, tag: str = "TagA", body: bytes = b"hello") -> None:
    for _ in range(count):
        broker.send(properties=f"UNIQ_KEY\x01AB\x02TAGS\x01{tag}\x02", body=body)


def subscribe(
    broker: RealBroker, text: str = "*", version: int = 1, model: MessageModel = MessageModel.CLUSTERING
) -> None:
    data = ConsumerData(
        group_name="CG",
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=model,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        subscription_data_set=[SubscriptionData(topic="TopicTest", sub_string=text, sub_version=version)],
    )
    broker.broker.clients.register_consumer(data, "client", PEER, NOW, notifies=True, with_subscriptions=True)


def bodies(reply: Any) -> list[bytes]:
    records, data = [], bytes(reply.body or b"")
    while data:
        size = int.from_bytes(data[:4], "big")
        records.append(decode_record(data[:size]).body)
        data = data[size:]
    return records


def test_messages_come_in_order_with_where_to_go_on(broker: RealBroker) -> None:
    for n in range(5):
        send(broker, body=b"%d" % n)
    reply = broker.handle(pull(queue_offset=1, max_msg_nums=3))
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert bodies(reply) == [b"1", b"2", b"3"]
    assert (reply.next_begin_offset, reply.min_offset, reply.max_offset) == (4, 0, 5)
    assert reply.suggest_which_broker_id == 0


@pytest.mark.parametrize(
    ("queue_offset", "code", "remark", "next_offset"),
    [
        (3, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 3),
        (9, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 3),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    ],
)
def test_offsets_outside_the_queue(
    broker: RealBroker, queue_offset: int, code: ResponseCode, remark: str, next_offset: int
) -> None:
    send(broker, 3)
    reply = broker.handle(pull(queue_offset=queue_offset))
    assert (reply.code, reply.remark, reply.next_begin_offset) == (code, remark, next_offset)


@pytest.mark.parametrize(
    ("queue_offset", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (5, ResponseCode.PULL_OFFSET_MOVED)]
)
def test_a_queue_nobody_wrote_to(broker: RealBroker, queue_offset: int, code: ResponseCode) -> None:
    assert broker.handle(pull(queue_offset=queue_offset)).code == code


def test_tags_choose_and_what_does_not_fit_is_passed(broker: RealBroker) -> None:
    for tag in ("A", "B", "A", "C"):
        send(broker, tag=tag, body=tag.encode())
    assert bodies(broker.handle(pull(subscription="A || C"))) == [b"A", b"A", b"C"]
    reply = broker.handle(pull(subscription="D"))
    assert (reply.code, reply.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 4)


def test_a_pull_at_the_end_is_held_until_a_fitting_message_comes(broker: RealBroker) -> None:
    send(broker)
    wait = broker.handle(pull(queue_offset=1, sys_flag=SUSPEND | SUBSCRIPTION, subscription="A"))
    assert isinstance(wait, Wait)
    assert wait.on == (DataAt("TopicTest", 1, 1, frozenset({java_hash("A")})),)
    assert wait.deadline == NOW + 15_000
    send(broker, tag="A", body=b"new")
    assert bodies(resumed(wait)) == [b"new"]


both_ways = pytest.mark.parametrize(
    "at_once", [pytest.param(True, marks=compiled_only), False], ids=["from its frame", "by the rules"]
)


def held_at_the_end(broker: RealBroker, at_once: bool) -> Any:
    """A pull that is held behind the only message: from its frame, or by the rules."""
    send(broker)
    broker.broker.topics.note_saved()
    request = pull(queue_offset=1, sys_flag=SUSPEND | SUBSCRIPTION)
    held = broker.handle(request)
    if at_once:
        taken = broker.handle_pulls(encode_command(request.to_command(opaque=1)), PEER, NOW)
        assert taken is not None
        ((_, held),) = taken.results
    return held


@both_ways
def test_a_held_pull_gets_nothing_of_a_topic_that_may_not_be_read_any_more(
    broker: RealBroker, at_once: bool
) -> None:
    held = held_at_the_end(broker, at_once)
    broker.broker.topics.put(TopicConfig(topic_name="TopicTest", read_queue_nums=4, perm=2), NOW)
    broker.broker.topics.note_saved()
    send(broker)
    with pytest.raises(Refused, match=r"the topic\[TopicTest\] pulling message is forbidden"):
        resumed(held)


def test_a_held_pull_whose_time_is_over_finds_nothing_and_is_not_held_again(broker: RealBroker) -> None:
    wait = broker.handle(pull(sys_flag=SUSPEND | SUBSCRIPTION))
    assert resumed(wait, timed_out=True).code == ResponseCode.PULL_NOT_FOUND


def test_without_long_polling_a_pull_is_held_for_a_second(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, longPollingEnable=False)
    broker.broker.topics.put(TopicConfig(topic_name="TopicTest", read_queue_nums=4), NOW)
    wait = broker.handle(pull(sys_flag=SUSPEND | SUBSCRIPTION))
    assert wait.deadline == NOW + 1000
    broker.close()


def test_a_pull_may_carry_the_commit_of_an_offset(broker: RealBroker) -> None:
    send(broker, 3)
    broker.handle(pull(queue_offset=3, sys_flag=COMMIT | SUBSCRIPTION, commit_offset=2))
    assert broker.broker.offsets.get("CG", "TopicTest", 1) == 2


@pytest.mark.parametrize(("bulk", "count"), [(True, 50), (False, 32), (None, 32)])
def test_who_reads_whole_topics_says_so(broker: RealBroker, bulk: bool | None, count: int) -> None:
    send(broker, 50)
    assert broker.handle(pull(max_msg_nums=1000, bulk=bulk)).next_begin_offset == count


def test_a_reset_reaches_the_next_pull_once(broker: RealBroker) -> None:
    send(broker, 5)
    broker.broker.offsets.reset("CG", "TopicTest", 1, 2, NOW)
    moved = broker.handle(pull(queue_offset=5))
    assert (moved.code, moved.next_begin_offset) == (ResponseCode.PULL_OFFSET_MOVED, 2)
    assert broker.handle(pull(queue_offset=2)).code == ResponseCode.SUCCESS


def test_checks_in_apache_s_order(broker: RealBroker) -> None:
    assert broker.refusal(pull(topic="None")).code == ResponseCode.TOPIC_NOT_EXIST
    assert broker.refusal(pull(queue_id=4)).code == ResponseCode.INVALID_PARAMETER
    assert broker.refusal(pull(queue_id=-1)).code == ResponseCode.INVALID_PARAMETER
    assert broker.refusal(pull(sys_flag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert broker.refusal(pull(subscription=" || ")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    sql = broker.refusal(pull(expression_type="SQL92", subscription="a > 1"))
    assert (sql.code, "SQL92" in sql.remark) == (ResponseCode.SYSTEM_ERROR, True)
    broker.broker.topics.put(TopicConfig(topic_name="WO", perm=2), NOW)
    forbidden = broker.refusal(pull(topic="WO"))
    assert (forbidden.code, forbidden.extra) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "3"})
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="CG", consume_enable=False), NOW)
    forbidden = broker.refusal(pull(topic="None"))
    assert (forbidden.code, forbidden.extra) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "2"})


def test_a_group_nobody_may_make_is_refused(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, autoCreateSubscriptionGroup=False)
    assert broker.refusal(pull()).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    broker.close()


def test_subscriptions_of_heartbeats_count_where_the_pull_has_none(broker: RealBroker) -> None:
    send(broker, tag="A", body=b"A")
    send(broker, tag="B", body=b"B")
    subscribe(broker, "B", version=5)
    assert bodies(broker.handle(pull(sys_flag=0, sub_version=5))) == [b"B"]
    assert broker.refusal(pull(sys_flag=0, sub_version=6)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    broker.broker.topics.put(TopicConfig(topic_name="Other"), NOW)
    assert broker.refusal(pull(sys_flag=0, topic="Other")).code == ResponseCode.SUBSCRIPTION_NOT_EXIST


def test_a_group_that_may_not_broadcast_or_may_not_read_the_topic(broker: RealBroker) -> None:
    subscribe(broker)
    broker.broker.groups.set_readable("CG", "TopicTest", False, NOW)
    assert broker.refusal(pull(sys_flag=0)).extra == {"forbiddenType": "5"}
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="CG", consume_broadcast_enable=False), NOW)
    subscribe(broker, model=MessageModel.BROADCASTING)
    assert broker.refusal(pull(sys_flag=0)).extra == {"forbiddenType": "4"}


def test_lite_pulls_are_served_unless_switched_off(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, litePullMessageEnable=False)
    assert broker.refusal(pull(LitePullMessage)).code == ResponseCode.NO_PERMISSION
    broker.close()


def test_what_was_pulled_is_counted(broker: RealBroker) -> None:
    send(broker, 4)
    broker.handle(pull())
    broker.handle(pull(queue_offset=4))
    totals = broker.broker.stats.totals
    assert (totals.get_messages, totals.get_found_times, totals.get_miss_times) == (4, 1, 1)


def test_a_reader_of_old_messages_is_pointed_to_the_slave_where_slaves_may_be_read(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, slaveReadEnable="true", accessMessageInMemoryMaxRatio=0)
    broker.broker.topics.put(TopicConfig(topic_name="TopicTest", read_queue_nums=4, write_queue_nums=4), NOW)
    broker.broker.groups.put(
        SubscriptionGroupConfig(group_name="CG", broker_id=0, which_broker_when_consume_slowly=1), NOW
    )
    send(broker, 2)
    assert broker.handle(pull(max_msg_nums=1)).suggest_which_broker_id == 1
    broker.broker.settings.slave_read_enable = False
    assert broker.handle(pull(max_msg_nums=1)).suggest_which_broker_id == 0
    broker.close()


def test_units_and_messages_that_are_on_the_disk_only_are_waited_for_in_turn(
    broker: RealBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker, 1)
    real, colds = broker.store.get, [Cold(0, 64_000, object()), Cold(0, 262_144)]

    def get(*args: Any, **more: Any) -> Any:
        result = real(*args, **more)
        if colds:
            result = GetResult.without_records(GetStatus.NO_MATCHED_MESSAGE, 0, 0, 1)
            result.cold = colds.pop(0)
        return result

    monkeypatch.setattr(broker.store, "get", get)
    units = broker.handle(pull())
    assert isinstance(units.on[0], Warm)
    assert units.on[0].queue is not None
    messages = resumed(units)
    assert messages.on == (Warm(0, 262_144),)
    assert resumed(messages).code == ResponseCode.SUCCESS


@both_ways
def test_a_held_pull_gets_a_message_though_its_unit_has_left_the_memory(
    broker: RealBroker, at_once: bool
) -> None:
    held = held_at_the_end(broker, at_once)
    send(broker, body=b"written before it is shown")
    (write,) = (task for task in broker.store.periodic_tasks() if task.name == "write queues")
    write.run(NOW)
    units = resumed(held)
    assert isinstance(units, Wait)
    (cold,) = units.on
    assert isinstance(cold, Warm)
    broker.store.reader.read_cold(cold.offset, cold.size_bytes, cold.queue)
    assert bodies(resumed(units)) == [b"written before it is shown"]


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: pull(topic="New", queue_id=0),
        lambda: PopMessage("CG", "New", -1, 32, 60_000, 0, NOW, 0),
        lambda: PeekMessage("New", -1, 32, "CG"),
        lambda: Notification("CG", "New", -1, 0, NOW),
    ],
    ids=["pull", "pop", "peek", "notification"],
)
def test_a_topic_that_is_in_no_file_yet_shows_nothing(broker: RealBroker, request_of: Any) -> None:
    broker.send(topic="New", queue_id=0)
    asked = broker.handle(request_of())
    assert isinstance(asked, Wait)
    assert asked.on == (Saved("topics"),)
    with pytest.raises(Refused, match=re.escape("topic[New] is new, and cannot be saved")) as caught:
        resumed(asked, timed_out=True)
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    broker.broker.topics.note_saved()
    shown = resumed(asked)
    assert shown.has_msg if isinstance(shown, NotificationReply) else shown.body


def test_what_is_pulled_as_frames_leaves_nothing_to_do_behind_the_turn(broker: RealBroker) -> None:
    broker.send()
    broker.broker.topics.note_saved()
    data = encode_command(pull(consumer_group="New").to_command(opaque=1))
    assert broker.handle_pulls(data, PEER, NOW) is None  # the group is made on the way, and has to be saved
    broker.handle(pull(consumer_group="New"))
    assert "groups" in broker.broker.dirty_tables.drain_soon()
    taken = broker.handle_pulls(data, PEER, NOW)
    assert taken is None or not taken.concerns_others
    assert not broker.broker.dirty_tables.any_soon
    assert not broker.broker.outbox.pushes
