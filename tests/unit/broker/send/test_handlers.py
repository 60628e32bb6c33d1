"""Sends, plain and not so plain: what is stored, what is answered, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.handling.call import Durable, Saved, Wait
from orbitmq.protocol.bodies.auth import Policy, User
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import MalformedField, Refused
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.ids import parse_offset_message_id
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.send import SendBatchMessage, SendReply
from tests.kit.access import entry
from tests.kit.real_broker import HOST, NOW, PEER, RealBroker, message, resumed
from tests.kit.store import full_disk


def refusal(result: object) -> Refused:
    assert isinstance(result, Refused), f"accepted: {result}"
    return result


def test_a_plain_send_is_stored_as_it_came_with_what_the_broker_adds(broker: RealBroker) -> None:
    reply = broker.send()
    stored = broker.stored("TopicTest", 1)
    assert (stored.body, stored.flag, stored.queue_id, stored.queue_offset) == (b"hello", 7, 1, 0)
    assert (stored.born_timestamp, stored.store_timestamp) == (NOW - 5, NOW)
    assert (stored.born_host, stored.store_host) == (PEER.host, HOST)
    assert decode_properties(stored.properties) == {
        "UNIQ_KEY": "7F000001ABCD",
        "WAIT": "true",
        "TAGS": "TagA",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }
    assert (reply.code, reply.queue_id, reply.queue_offset) == (0, 1, 0)
    assert reply.transaction_id == "7F000001ABCD"
    assert parse_offset_message_id(reply.msg_id) == (HOST, stored.physical_offset)
    assert reply.extra["MSG_REGION"] == "DefaultRegion"
    assert reply.extra["TRACE_ON"] == "true"


def test_sends_that_came_together_keep_their_order_and_their_own_answers(broker: RealBroker) -> None:
    requests = [message(body=b"%d" % n, queue_id=n % 2) for n in range(10)]
    requests[4] = message(queue_id=99)
    requests[7] = message(properties="DELAY\x012\x02UNIQ_KEY\x01AB\x02")
    results = broker.send_together(requests)
    assert refusal(results[4]).code == ResponseCode.INVALID_PARAMETER
    offsets = [(r.queue_id, r.queue_offset) for n, r in enumerate(results) if n not in (4, 7)]
    assert offsets == [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (0, 2), (0, 3), (1, 3)]
    assert broker.stored("TopicTest", 1, 2).body == b"5"


ASIDE = [
    "UNIQ_KEY\x01AB\x02DELAY\x013\x02",
    "DELAY\x0118\x02TAGS\x01a\x02UNIQ_KEY\x01AB",
    "UNIQ_KEY\x01AB\x02DELAY\x0199\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x0103\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x01\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x010\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x01x\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x013\x02DELAY\x014\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x013\x02REAL_QID\x017\x02a\x01b\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x013\x02TIMER_DELAY_SEC\x017\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x013\x02MSG_REGION\x01mars\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x013\x02empty\x01\x02\x02\x01x\x02none\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x013\x02a\x01b\x01c\x02",
    "UNIQ_KEY\x01AB\x02DELAY\x013\x02Ä\x01ö\x02",
    "UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01PG\x02__SHARDINGKEY\x01k\x02UNIQ_KEY\x01AB",
    "UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02",
    "UNIQ_KEY\x01AB\x02TRAN_MSG\x01false\x02PGROUP\x01PG\x02",
    "UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02TRAN_MSG\x01false\x02PGROUP\x01PG\x02",
    "UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02TRANSACTION_CHECK_TIMES\x014\x02",
    "UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02TRAN_PREPARED_QUEUE_OFFSET\x014\x02",
    "UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02__transactionId__\x01other\x02",
    "UNIQ_KEY\x01AB\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x014\x02",
]


@pytest.mark.parametrize("text", ASIDE)
@pytest.mark.parametrize("sys_flag", [0, 4])
def test_what_waits_elsewhere_first_is_stored_to_the_byte_as_by_the_general_way(
    broker: RealBroker, text: str, sys_flag: int
) -> None:
    frame = encode_command(message(properties=text, sys_flag=sys_flag).to_command())
    broker.broker.topics.note_saved()
    stored, answers = [], []
    for at_once in (True, False):
        at = broker.store.max_physical
        reply = SendReply.from_command(broker.read_sends(frame, at_once=at_once)[0])
        answers.append((reply.code, reply.queue_id, reply.queue_offset - len(answers), reply.transaction_id))
        (record,) = broker.store.log.records(at)
        unit = broker.store.physical_offset_of(record.topic, record.queue_id, record.queue_offset)
        assert unit is not None
        stored.append(
            (
                (record.topic, record.queue_id, record.properties, record.body, record.flag),
                (record.sys_flag, record.born_timestamp, record.born_host, record.reconsume_times, unit[2]),
            )
        )
    assert stored[0] == stored[1]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("field", ["d", "e", "f", "g", "h"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_header_with_a_number_that_is_none_is_refused_and_nothing_stored(
    broker: RealBroker, field: str, at_once: bool
) -> None:
    command = message().to_command()
    assert command.ext is not None
    command.ext[field] = ","
    broker.broker.topics.note_saved()
    end = broker.store.max_physical
    (answer,) = broker.read_sends(encode_command(command), at_once=at_once)
    assert isinstance(answer, MalformedField)
    assert f"<{field}>" in answer.remark
    assert broker.store.max_physical == end


def test_a_message_without_an_id_gets_one(broker: RealBroker) -> None:
    assert broker.send(properties="TAGS\x01x\x02").transaction_id == "MADEHERE"


def test_properties_of_an_earlier_journey_do_not_travel_on(broker: RealBroker) -> None:
    broker.send(properties="UNIQ_KEY\x01AB\x02MSG_REGION\x01mars\x02POP_CK\x01x\x02CLUSTER\x01other\x02")
    properties = decode_properties(broker.stored("TopicTest", 1).properties)
    assert (properties["MSG_REGION"], properties["CLUSTER"]) == ("DefaultRegion", "DefaultCluster")
    assert "POP_CK" not in properties


def test_the_first_send_makes_its_topic_and_waits_until_that_is_saved(broker: RealBroker) -> None:
    result = broker.send(topic="Fresh", default_topic_queue_nums=3, queue_id=0)
    assert isinstance(result, Wait)
    assert result.on == (Saved("topics"),)
    config = broker.broker.topics.get("Fresh")
    assert config is not None
    assert (config.write_queue_nums, config.perm) == (3, 6)
    assert resumed(result).code == 0
    assert broker.broker.topics.drain_changed() >= {"Fresh"}


def test_whoever_sends_to_a_new_topic_waits_until_it_is_saved(broker: RealBroker) -> None:
    first, second = broker.send_together([message(topic="Fresh", queue_id=0) for _ in range(2)])
    assert isinstance(first, Wait)
    assert isinstance(second, Wait)
    assert isinstance(broker.send(topic="Fresh", queue_id=0), Wait)
    broker.broker.topics.note_saved()
    assert not isinstance(broker.send(topic="Fresh", queue_id=0), Wait)


def test_without_auto_creation_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, autoCreateTopicEnable=False)
    refused = refusal(broker.send(topic="Unknown"))
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
    assert refused.remark.startswith("topic[Unknown] not exist, apply first please!")
    broker.close()


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("", ResponseCode.INVALID_PARAMETER),
        ("with space", ResponseCode.INVALID_PARAMETER),
        ("ü", ResponseCode.INVALID_PARAMETER),
        ("x" * 128, ResponseCode.INVALID_PARAMETER),
        ("SCHEDULE_TOPIC_XXXX", ResponseCode.NO_PERMISSION),
        ("RMQ_SYS_TRANS_HALF_TOPIC", ResponseCode.NO_PERMISSION),
        ("OFFSET_MOVED_EVENT", ResponseCode.NO_PERMISSION),
    ],
)
def test_topics_nobody_may_send_to(broker: RealBroker, topic: str, code: ResponseCode) -> None:
    refused = refusal(broker.send(topic=topic))
    assert refused.code == code
    assert refused.extra == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def test_a_topic_without_write_permission_refuses(broker: RealBroker) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="RO", perm=4), NOW)
    assert refusal(broker.send(topic="RO", queue_id=0)).code == ResponseCode.NO_PERMISSION


def test_a_broker_that_is_not_open_yet_refuses(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, startAcceptSendRequestTimeStamp=NOW + 1)
    assert refusal(broker.send()).code == ResponseCode.SYSTEM_ERROR
    broker.close()


def test_too_large_a_message_is_refused_and_its_neighbours_are_stored(broker: RealBroker) -> None:
    results = broker.send_together([message(), message(body=bytes((4 << 20) + 1)), message()])
    assert refusal(results[1]).code == ResponseCode.MESSAGE_ILLEGAL
    assert "4194304B" in refusal(results[1]).remark
    assert [results[0].queue_offset, results[2].queue_offset] == [0, 1]


def test_properties_beyond_what_a_record_holds_are_refused(broker: RealBroker) -> None:
    text = "UNIQ_KEY\x01AB\x02BIG\x01" + "x" * 40_000 + "\x02"
    assert refusal(broker.send(properties=text)).code == ResponseCode.MESSAGE_ILLEGAL


def test_a_broker_may_choose_the_queue(broker: RealBroker) -> None:
    assert {broker.send(queue_id=-1).queue_id for _ in range(4)} == {0, 1, 2, 3}


def test_a_delayed_message_waits_in_its_level_until_it_is_due(broker: RealBroker) -> None:
    reply = broker.send(properties="DELAY\x013\x02UNIQ_KEY\x01AB\x02", queue_id=2)
    assert reply.code == 0
    waiting = broker.stored("SCHEDULE_TOPIC_XXXX", 2)
    properties = decode_properties(waiting.properties)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("TopicTest", "2")
    found = broker.store.physical_offset_of("SCHEDULE_TOPIC_XXXX", 2, 0)
    assert found is not None
    assert found[2] == NOW + 10_000
    broker.broker.delay.deliver_due(NOW + 9_999)
    assert broker.store.max_offset("TopicTest", 2) == 0
    broker.broker.delay.deliver_due(NOW + 10_000)
    assert broker.stored("TopicTest", 2).body == b"hello"


def test_a_retry_that_was_delivered_often_enough_becomes_a_dead_letter(broker: RealBroker) -> None:
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="CG", retry_max_times=3), NOW)
    result = broker.send(topic="%RETRY%CG", queue_id=0, reconsume_times=4, properties="UNIQ_KEY\x01AB\x02")
    assert resumed(result).code == 0
    assert broker.stored("%DLQ%CG", 0).reconsume_times == 4
    result = broker.send(topic="%RETRY%CG", queue_id=0, reconsume_times=3, properties="UNIQ_KEY\x01AB\x02")
    assert broker.stored("%RETRY%CG", 0).reconsume_times == 3


@pytest.mark.parametrize("batch_id", [None, "BATCH"], ids=["plain", "with an id of its own"])
def test_a_batch_is_stored_as_its_messages(broker: RealBroker, batch_id: str | None) -> None:
    parts = [
        (n, b"body%d" % n * (1 + 200 * n), b"KEYS\x01k%d\x02UNIQ_KEY\x01ID%d\x02" % (n, n)) for n in range(5)
    ]
    request = SendBatchMessage(
        **{row.name: getattr(message(), row.name) for row in type(message()).FIELDS}
        | {
            "batch": True,
            "body": encode_batch(parts),
            "properties": ("" if batch_id is None else f"UNIQ_KEY\x01{batch_id}\x02") + "WAIT\x01true\x02",
        }
    )
    (reply,) = broker.send_together([request])
    ids = [parse_offset_message_id(one) for one in reply.msg_id.split(",")]
    assert (reply.queue_offset, reply.transaction_id, reply.queue_id) == (0, batch_id, 1)
    assert reply.extra is not None
    assert (reply.extra["MSG_REGION"], reply.extra["TRACE_ON"]) == ("DefaultRegion", "true")
    for n in range(5):
        stored = broker.stored("TopicTest", 1, n)
        assert ids[n] == (HOST, stored.physical_offset)
        properties = parts[n][2] + b"CLUSTER\x01DefaultCluster\x02"
        assert (stored.body, stored.flag, stored.properties) == (parts[n][1], n, properties)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (b"", b""),
        (b"KEYS\x01k", b"KEYS\x01k\x02"),
        (b"A\x011\x02POP_CK\x010 1 2 3 0 b 0 9\x02B\x012", b"A\x011\x02B\x012\x02"),
        (b"CLUSTER\x01another\x02", b""),
        (b"K\x01" + b"x" * 31_717, b"K\x01" + b"x" * 31_717 + b"\x02"),
        (b"K\x01" + b"x" * 31_718, None),
    ],
)
def test_messages_of_a_batch_have_the_cluster_and_no_handle_of_a_pop(
    broker: RealBroker, sent: bytes, stored: bytes | None
) -> None:
    broker.send()
    broker.broker.topics.note_saved()
    fields = {row.name: getattr(message(), row.name) for row in type(message()).FIELDS}
    batch = SendBatchMessage(**fields | {"batch": True, "body": encode_batch([(0, b"x", sent)])})
    for number, at_once in enumerate((True, False), 1):
        (answer,) = broker.read(encode_command(batch.to_command(7)), at_once=at_once).values()
        if stored is None:
            assert answer[0] == ResponseCode.MESSAGE_ILLEGAL
            continue
        assert broker.stored("TopicTest", 1, number).properties == stored + b"CLUSTER\x01DefaultCluster\x02"


def test_who_has_no_right_to_a_topic_cannot_say_that_its_message_is_from_there(tmp_path: Path) -> None:
    for guarded in (False, True):
        broker = RealBroker(tmp_path / str(guarded), authorizationEnabled=guarded)
        table = broker.broker.auth
        table.put_user(User("ann", "ann-secret", user_type=2, user_status=1))
        table.merge_acl("ann", [Policy(1, [entry("Topic:mine", "Sub"), entry("Group:g", "All")])])
        for number, (claimed, kept) in enumerate([("mine", True), ("salaries", not guarded)]):
            text = f"UNIQ_KEY\x01AB\x02RETRY_TOPIC\x01{claimed}\x02"
            for queue, topic in enumerate(["%RETRY%g", "%DLQ%g"]):
                command = message(topic=topic, properties=text, queue_id=0).to_command(1)
                command.ext = {**(command.ext or {}), "AccessKey": "ann"}
                answer = broker.by_rules(command)
                assert not isinstance(answer, Exception), (queue, answer)
                found = broker.stored(topic, 0, number).property_map().get("RETRY_TOPIC")
                assert found == (claimed if kept else None)
        broker.close()


@pytest.mark.parametrize(
    ("body", "properties", "code"),
    [
        (b"", "", ResponseCode.MESSAGE_ILLEGAL),
        (b"\x00\x00\x00\x05junk", "", ResponseCode.MESSAGE_ILLEGAL),
        (encode_batch([(0, b"x", b"")]), "DELAY\x013\x02", ResponseCode.MESSAGE_ILLEGAL),
        (encode_batch([(0, b"x", b"")]), "TRAN_MSG\x01true\x02", ResponseCode.MESSAGE_ILLEGAL),
        (bytes((4 << 20) + 1), "", ResponseCode.SYSTEM_ERROR),
    ],
)
def test_batches_that_cannot_be(broker: RealBroker, body: bytes, properties: str, code: ResponseCode) -> None:
    result = broker.send(batch=True, body=body, properties=properties)
    assert refusal(result).code == code
    assert broker.store.max_offset("TopicTest", 1) == 0


def test_under_sync_flush_the_answer_waits_for_the_disk(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, flushDiskType="SYNC_FLUSH")
    broker.broker.topics.put(TopicConfig(topic_name="TopicTest", read_queue_nums=4, write_queue_nums=4), NOW)
    result = broker.send()
    assert isinstance(result, Wait)
    (condition,) = result.on
    assert condition == Durable(broker.store.max_physical)
    assert resumed(result, timed_out=True).code == ResponseCode.FLUSH_DISK_TIMEOUT
    unhurried = broker.send(properties="UNIQ_KEY\x01AB\x02WAIT\x01false\x02")
    assert not isinstance(unhurried, Wait)
    broker.close()


def test_a_full_store_answers_instead_of_losing(broker: RealBroker) -> None:
    broker.store.close()
    assert refusal(broker.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_what_was_sent_is_counted(broker: RealBroker) -> None:
    broker.send_together([message() for _ in range(7)])
    assert broker.broker.stats.totals.put_messages == 7


def test_a_disk_that_fills_up_takes_no_delayed_messages_and_still_takes_others(broker: RealBroker) -> None:
    for _ in range(2):  # the last file of the log never goes, so one alone is in no danger
        broker.send(body=bytes(600 << 10))
    with full_disk(broker.store, used=0.87):
        refused = broker.send(properties="UNIQ_KEY\x01AB\x02DELAY\x013\x02")
        assert isinstance(refused, Refused)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "delayed messages are not taken" in refused.remark
        assert broker.send().code == ResponseCode.SUCCESS
    assert not isinstance(broker.send(properties="UNIQ_KEY\x01AB\x02DELAY\x013\x02"), Refused)
