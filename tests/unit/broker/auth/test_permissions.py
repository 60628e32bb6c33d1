"""Every request that is served has its row, and rows name what their requests hold."""

import csv
from pathlib import Path

import pytest

import orbitmq.protocol.requests.every  # noqa: F401 (declares them)
from orbitmq.broker.auth.handlers import AuthTables  # noqa: F401 (registers its handlers)
from orbitmq.broker.auth.permissions import NEEDS, STRICTER
from orbitmq.broker.auth.policies import Action, shown
from orbitmq.broker.broker import handlers
from orbitmq.protocol.bodies.group import DeleteSubscriptionGroupListRequestBody, SubscriptionGroupConfig
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from orbitmq.protocol.bodies.pop import BatchAck, BatchAckMessageRequestBody, QueryAssignmentRequestBody
from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue
from orbitmq.protocol.bodies.topic import CreateTopicListRequestBody, DeleteTopicListRequestBody, TopicConfig
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import Heartbeat, UnregisterClient
from orbitmq.protocol.requests.group import (
    DeleteSubscriptionGroupList,
    GetConsumeStats,
    UpdateAndCreateSubscriptiongroup,
)
from orbitmq.protocol.requests.lock import LockBatchMq
from orbitmq.protocol.requests.offset import CloneGroupOffset, QueryCorrectionOffset
from orbitmq.protocol.requests.pop import BatchAckMessage, QueryAssignment
from orbitmq.protocol.requests.pull import ViewMessageById
from orbitmq.protocol.requests.topic import DeleteTopicInBrokerList, UpdateAndCreateTopicList
from orbitmq.protocol.schema.declare import REQUESTS, Request
from tests.kit.real_broker import message

SERVED = {request.CODE for request in handlers.by_request}
ANYTHING = [("anything", {"Any"})]
"""Any right at all is enough: the request names nothing of anybody."""
OF_5_5 = {
    29: "topic=TOPIC:SUB|GET",
    30: "topic=TOPIC:SUB|GET",
    5002: "each topic of the body=TOPIC:DELETE",
    5003: "each group of the body=GROUP:DELETE",
    200070: "topic=TOPIC,consumerGroup=GROUP:SUB",
    200071: "",
    200074: "",
    200075: "topic=TOPIC:GET",
    200076: "parentTopic=TOPIC:GET",
    200077: "parentTopic=TOPIC,group=GROUP:GET",
    200078: "group=GROUP:GET",
    200079: "group=GROUP:UPDATE",
}
"""Requests that Apache has since 5.5, and those that 5.5.1 checks in another way."""
CODES = Path(__file__).parents[3] / "wire" / "vectors" / "request_codes.csv"


def wanted(request: Request) -> list[tuple[str, set[str]]]:
    command = request.to_command()
    found = NEEDS[command.code].accesses(command, "DefaultCluster")
    return [(str(access), {shown(action) for action in access.actions}) for access in found]


def test_every_request_to_brokers_says_what_it_needs() -> None:
    asked = {code for code, request in REQUESTS.items() if "broker" in request.SERVED_BY}
    assert asked | SERVED == set(NEEDS)


@pytest.mark.parametrize("code", sorted(NEEDS))
def test_the_fields_of_a_row_are_fields_of_its_request(code: int) -> None:
    need, request = NEEDS[code], REQUESTS[code]
    rows = {row.wire_name: row for row in request.FIELDS}
    assert set(need.fields) <= set(rows)
    assert set(need.may_lack) <= set(need.fields)
    for name in need.may_lack:
        assert rows[name].optional, f"{name} cannot be absent"
    names_something = bool(need.fields or need.cluster or need.body)
    assert names_something is not bool(need.open_reason)


def test_topics_and_groups_that_a_request_names_are_asked_for() -> None:
    """A field called topic or group that no row looks at would be a way around the rules."""
    passed_over = {
        14: set(),
        36: {"originTopic"},  # the record's own topic is what counts
    }
    for code, need in NEEDS.items():
        if need.open_reason or need.cluster:
            continue
        named = {
            row.wire_name
            for row in REQUESTS[code].FIELDS
            if row.kind == "str" and row.name.endswith(("topic", "group", "groups", "topic_list"))
        }
        ignored = {"defaultTopic", "producerGroup", "c", "a", "liteTopic"} | passed_over.get(code, set())
        assert named - ignored <= set(need.fields), REQUESTS[code].__name__


def test_rows_are_apaches_but_for_those_that_are_stricter() -> None:
    with CODES.open(newline="") as file:
        apache = {int(row["code"]): row["acl_resource_actions"] for row in csv.DictReader(file)} | OF_5_5
    for code, need in NEEDS.items():
        column = apache[code]
        if code in STRICTER:
            assert not any(word in column for word in ("=", "each", "CLUSTER", "body")), code
            continue
        if need.open_reason:
            assert column == "", code
            continue
        actions = column.split("(")[0].strip().rsplit(":", 1)[1].split("|")
        assert {action.strip() for action in actions} == {action.name for action in need.actions}, code
        for kind, names in (("TOPIC", need.topics), ("GROUP", need.groups)):
            for name in names:
                assert f"{name}={kind}" in column, (code, name)
        assert ("CLUSTER" in column) is need.cluster, code


def test_a_heartbeat_names_groups_and_topics() -> None:
    consumer = ConsumerData("G", subscription_data_set=[SubscriptionData("T"), SubscriptionData("%RETRY%G")])
    request = Heartbeat(HeartbeatData("c", consumer_data_set=[consumer]))
    assert wanted(request) == [("Group:G", {"Sub"}), ("Topic:T", {"Sub"}), ("Group:G", {"Sub"})]
    assert wanted(Heartbeat(HeartbeatData("c"))) == ANYTHING
    producer = HeartbeatData("c", producer_data_set=[ProducerData("PG")])
    assert wanted(Heartbeat(producer)) == ANYTHING


def test_bodies_are_read() -> None:
    lock = LockBatchMq(LockBatchRequestBody("G", "c", mq_set={MessageQueue("T", "b", 0)}))
    assert wanted(lock) == [("Group:G", {"Sub"}), ("Topic:T", {"Sub"})]
    topics = UpdateAndCreateTopicList(CreateTopicListRequestBody([TopicConfig("A"), TopicConfig("B")]))
    assert wanted(topics) == [("Topic:A", {"Create"}), ("Topic:B", {"Create"})]
    gone = DeleteTopicInBrokerList(DeleteTopicListRequestBody(["A", "B"]))
    assert wanted(gone) == [("Topic:A", {"Delete"}), ("Topic:B", {"Delete"})]
    groups = DeleteSubscriptionGroupList(DeleteSubscriptionGroupListRequestBody(False, ["G"]))
    assert wanted(groups) == [("Group:G", {"Delete"})]
    group = UpdateAndCreateSubscriptiongroup(SubscriptionGroupConfig(group_name="G"))
    assert wanted(group) == [("Group:G", {"Create"})]
    assignment = QueryAssignment(QueryAssignmentRequestBody(topic="T", consumer_group="G"))
    assert wanted(assignment) == [("Topic:T", {"Sub"}), ("Group:G", {"Sub"})]
    acks = BatchAckMessage(BatchAckMessageRequestBody("b", [BatchAck(consumer_group="G", topic="T")]))
    assert wanted(acks) == [("Topic:T", {"Sub"}), ("Group:G", {"Sub"})]


def test_a_body_that_cannot_be_read_is_refused() -> None:
    for code in (18, 34, 41, 200, 400, 5002, 5003, 200151):
        with pytest.raises(Refused):
            NEEDS[code].accesses(Command(code, body=b"{"), "c")
        with pytest.raises(Refused):
            NEEDS[code].accesses(Command(code), "c")


def test_several_names_in_one_field() -> None:
    stats = GetConsumeStats("G", topic_list="A;B")
    assert [name for name, _ in wanted(stats)] == ["Topic:A", "Topic:B", "Group:G"]
    correction = QueryCorrectionOffset("G0", "T", "G1, G2,")
    assert wanted(correction) == [
        ("Topic:T", {"Get"}),
        ("Group:G0", {"Get"}),
        ("Group:G1", {"Update"}),
        ("Group:G2", {"Update"}),
    ]


def test_a_message_by_offset_alone_is_asked_about_when_it_is_read() -> None:
    assert wanted(ViewMessageById(0, "T")) == [("Topic:T", {"Get"})]
    assert wanted(ViewMessageById(0, None)) == ANYTHING


def test_a_name_that_has_to_be_there_and_is_not_is_asked_for_as_empty() -> None:
    assert [str(access) for access in NEEDS[310].accesses(Command(310), "c")] == ["Topic:"]
    assert [str(access) for access in NEEDS[11].accesses(Command(11), "c")] == ["Topic:", "Group:"]
    assert wanted(UnregisterClient("c", "P", None)) == ANYTHING
    assert Action.SUB in NEEDS[35].actions


def test_offsets_are_copied_by_those_who_may_read_them() -> None:
    clone = CloneGroupOffset("theirs", "mine", "T")
    assert wanted(clone) == [("Topic:T", {"Update"}), ("Group:mine", {"Update"}), ("Group:theirs", {"Get"})]


def test_who_sends_to_topics_that_the_broker_obeys_needs_a_right_over_the_cluster() -> None:
    """Their messages have it store others wherever they say: of whichever topic, for whichever group."""
    cluster = [("Cluster:DefaultCluster", {"Update"})]
    for topic in ("rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster"):
        assert wanted(message(topic=topic)) == cluster
    assert wanted(message(topic="orders")) == [("Topic:orders", {"Pub"})]
