"""Durations of requests as metrics show them: by request, by answer, in whole ms."""

from __future__ import annotations

from orbitmq.broker.metrics import Distribution, Sample
from orbitmq.broker.stats.metric_families import RPC_BOUNDS_MS
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.server.turn.latency import (
    UPDATE_GROUP,
    UPDATE_TOPIC,
    Durations,
    RpcLatency,
    request_name,
    response_name,
)

SENT = (SendMessageV2.CODE, ResponseCode.SUCCESS, False, False)
RPC, REFUSED = "rocketmq_rpc_latency_milliseconds", "orbitmq_refused_total"


def named(latency: RpcLatency, family: str) -> list[Sample]:
    return [one for one in latency.samples() if one.family == family]


def test_durations_count_in_whole_ms_and_in_the_class_up_to_their_bound() -> None:
    durations = Durations((1, 10))
    for took_ms, count in ((0.9, 5), (1.9, 1), (10.0, 2), (10.9, 1), (11.0, 1)):
        durations.add(took_ms, count)
    assert durations.distribution() == Distribution((6, 3, 1), 1 + 3 * 10 + 11)


def test_requests_that_ended_alike_are_one_distribution() -> None:
    latency = RpcLatency()
    latency.record(SENT, 0.2, 3)
    latency.record(SENT, 2.0)
    latency.record((PullMessage.CODE, ResponseCode.PULL_NOT_FOUND, True, True), 7.0)
    sent, pulled = named(latency, RPC)
    assert sent.labels == ("false", "remoting", "send_message_v2", "success", "success")
    assert (sum(sent.value.counts), sent.value.total) == (4, 2)  # type: ignore[union-attr]
    assert len(sent.value.counts) == len(RPC_BOUNDS_MS) + 1  # type: ignore[union-attr]
    assert pulled.labels == ("true", "remoting", "pull_message", "pull_not_found", "oneway")


def test_refusals_that_protect_the_broker_are_counted_by_request_and_answer() -> None:
    latency = RpcLatency()
    for held in (False, True):
        latency.record((SendMessageV2.CODE, ResponseCode.SYSTEM_BUSY, held, False), 0.1, 2)
    latency.record((SendMessageV2.CODE, ResponseCode.NO_PERMISSION, False, False), 0.1)
    assert named(latency, REFUSED) == [Sample(REFUSED, ("send_message_v2", "system_busy"), 4)]


def test_changes_of_topics_and_groups_are_counted_by_their_success() -> None:
    latency = RpcLatency()
    latency.record_creation(UPDATE_TOPIC, ResponseCode.SUCCESS, "orders", 3.0)
    latency.record_creation(UPDATE_TOPIC, ResponseCode.SUCCESS, "TBW102", 3.0)
    latency.record_creation(UPDATE_GROUP, ResponseCode.SYSTEM_ERROR, "G", 3.0)
    topics = named(latency, "rocketmq_topic_create_execution_time_milliseconds")
    assert [one.labels for one in topics] == [("success", "false"), ("success", "true")]
    groups = named(latency, "rocketmq_consumer_group_create_execution_time_milliseconds")
    assert [one.labels for one in groups] == [("failure",)]


def test_numbers_that_nobody_knows_are_their_own_names() -> None:
    assert request_name(PullMessage.CODE) == "pull_message"
    assert request_name(77_777) == "77777"
    assert response_name(ResponseCode.PULL_NOT_FOUND) == "pull_not_found"
    assert response_name(77_777) == "77777"
