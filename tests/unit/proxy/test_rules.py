"""Small rules of the proxy: places of groups, handles, back-off, routes, callers, clients, renewals."""

from __future__ import annotations

import pytest

from orbitmq.client.core.routes import TopicRoute
from orbitmq.options import Layer
from orbitmq.protocol.bodies.group import (
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    GroupRetryPolicyType,
    SubscriptionGroupConfig,
)
from orbitmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.records.hashing import consistent_place
from orbitmq.protocol.requests.pop import PopReply
from orbitmq.proxy.access import read_authorization
from orbitmq.proxy.clients import Clients
from orbitmq.proxy.context import Caller, host_of, read_caller
from orbitmq.proxy.errors import ProxyRefused, joined_status, status_of
from orbitmq.proxy.options import PROXY_TABLE, ProxySettings
from orbitmq.proxy.receipts import PopAnswer, read_handle
from orbitmq.proxy.renewal import RENEW_STEPS_MS, Renewals, Renewed
from orbitmq.proxy.routes import assignments, endpoints_of, message_queues, told_endpoints
from orbitmq.proxy.settings import consumer_settings, producer_settings, retry_delay_ms
from orbitmq.proxy.transactions import OpenTransaction
from orbitmq.proxy.wire import messaging_pb2 as pb
from tests.unit.proxy.test_messages import record

ENDPOINTS = endpoints_of(["127.0.0.1:8081"])
CALLER = Caller("c1", "JAVA", "5.0.7", "127.0.0.1:1", None)
HANDLE = PopHandle(7, 1000, 60_000, 3, 0, "broker-a", 2, 7, 4096)


def test_groups_keep_their_places_when_queues_are_added() -> None:
    names = [f"group-{number}" for number in range(1000)]
    before = [consistent_place(name, 8) for name in names]
    after = [consistent_place(name, 9) for name in names]
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(before) == set(range(8))
    assert set(moved) == {8}
    assert 60 < len(moved) < 180
    assert consistent_place("any", 1) == 0


def test_a_handle_that_is_none_is_refused() -> None:
    assert read_handle(HANDLE.to_text()) == HANDLE
    for text in ("", "1 2 3", "1 2 3 4 5 b 6", "x " * 9):
        with pytest.raises(ProxyRefused) as refused:
            read_handle(text)
        assert refused.value.code == pb.INVALID_RECEIPT_HANDLE


def test_the_answer_to_a_pop_gives_every_record_its_handle_and_number() -> None:
    reply = PopReply(1000, 60_000, 3, 0, "0 2 5;1 0 9", "0 2 7;1 0 9", "0 2 4;0 qo2%8 6")
    answer = PopAnswer(reply, "broker-a")
    assert answer.handle(record({})).to_text() == "5 1000 60000 3 0 broker-a 2 7 4096"
    retried = record({"POP_CK": "9 900 60000 1 1 broker-a 0 9"})
    assert answer.handle(retried).to_text() == "9 900 60000 1 1 broker-a 0 9 4096"
    assert answer.deliveries(record({})) == 5
    assert PopAnswer(PopReply(1, 1, 3, 0), "b").deliveries(record({})) == 2


def test_settings_follow_the_options_and_the_group() -> None:
    options = PROXY_TABLE.load([])
    asked = pb.Settings(client_type=pb.PRODUCER)
    asked.publishing.topics.add(name="orders")
    producer = producer_settings(asked, options)
    assert producer.publishing.max_body_size == 4 << 20
    assert producer.backoff_policy.max_attempts == 3
    assert [topic.name for topic in producer.publishing.topics] == ["orders"]
    asked = pb.Settings(client_type=pb.PUSH_CONSUMER)
    asked.subscription.group.name = "g"
    group = SubscriptionGroupConfig("g", consume_message_orderly=True, retry_max_times=5)
    consumer = consumer_settings(asked, options, group)
    assert consumer.subscription.fifo
    assert consumer.backoff_policy.max_attempts == 6
    seconds = [wait.seconds for wait in consumer.backoff_policy.customized_backoff.next]
    assert seconds[:3] == [1, 5, 10]
    assert len(seconds) == 18


def given(**options: object) -> ProxySettings:
    return PROXY_TABLE.load([Layer("the test", {name: str(value) for name, value in options.items()})])


def test_settings_have_the_values_of_the_options() -> None:
    options = given(
        maxMessageSize=5, enableTopicMessageTypeCheck="false",
        grpcClientProducerMaxAttempts=7, grpcClientProducerBackoffInitialMillis=20,
        grpcClientProducerBackoffMaxMillis=3000, grpcClientProducerBackoffMultiplier=4,
        grpcClientConsumerLongPollingBatchSize=9, grpcClientConsumerMaxLongPollingTimeoutMillis=11_000,
    )  # fmt: skip
    producer = producer_settings(pb.Settings(client_type=pb.PRODUCER), options)
    assert (producer.publishing.max_body_size, producer.publishing.validate_message_type) == (5, False)
    growing = producer.backoff_policy.exponential_backoff
    assert (producer.backoff_policy.max_attempts, growing.multiplier) == (7, 4)
    assert [growing.initial.ToMilliseconds(), growing.max.ToMilliseconds()] == [20, 3000]
    told = consumer_settings(pb.Settings(), options, SubscriptionGroupConfig("g")).subscription
    assert (told.receive_batch_size, told.long_polling_timeout.ToMilliseconds()) == (9, 11_000)


def test_retries_of_messages_that_were_held_for_too_long_wait_as_the_group_says() -> None:
    group = SubscriptionGroupConfig("g")
    assert [retry_delay_ms(group, attempt) for attempt in (1, 2, 99)] == [10_000, 30_000, 7_200_000]
    growing = ExponentialRetryPolicy(1000, 8000, 2)
    group.group_retry_policy = GroupRetryPolicy(GroupRetryPolicyType.EXPONENTIAL, growing)
    assert [retry_delay_ms(group, attempt) for attempt in (1, 2, 3, 9, 10_000)] == [
        1000,
        2000,
        4000,
        8000,
        8000,
    ]


def route(*rows: QueueData) -> TopicRoute:
    brokers = [BrokerData("c", row.broker_name, {0: "127.0.0.1:10911"}) for row in rows]
    return TopicRoute("orders", TopicRouteData(queue_datas=list(rows), broker_datas=brokers))


def test_a_route_shows_queues_to_read_first_then_to_write_then_for_both() -> None:
    queues = message_queues("orders", route(QueueData("a", 4, 3, 6, 0)), "FIFO", ENDPOINTS)
    assert [(one.id, one.permission) for one in queues] == [
        (0, pb.READ), (1, pb.READ_WRITE), (2, pb.READ_WRITE), (3, pb.READ_WRITE),
    ]  # fmt: skip
    assert list(queues[0].accept_message_types) == [pb.FIFO]
    assert queues[0].broker.endpoints == ENDPOINTS
    closed = message_queues("orders", route(QueueData("a", 2, 2, 0, 0)), "MIXED", ENDPOINTS)
    assert {one.permission for one in closed} == {pb.NONE}


def test_one_broker_without_a_master_does_not_hide_the_others() -> None:
    shown = route(QueueData("a", 2, 2, 6, 0), QueueData("b", 2, 2, 6, 0))
    shown.brokers["a"] = {}
    assert {one.broker.name for one in message_queues("orders", shown, "NORMAL", ENDPOINTS)} == {"b"}
    assert [one.message_queue.broker.name for one in assignments("orders", shown, ENDPOINTS, fifo=False)] == [
        "b"
    ]


def test_ordered_groups_are_assigned_queues_and_others_brokers() -> None:
    both = route(QueueData("a", 2, 2, 6, 0), QueueData("b", 1, 1, 6, 0))
    ids = [one.message_queue.id for one in assignments("orders", both, ENDPOINTS, fifo=False)]
    assert ids == [-1, -1]
    ids = [one.message_queue.id for one in assignments("orders", both, ENDPOINTS, fifo=True)]
    assert ids == [0, 1, 0]
    with pytest.raises(ProxyRefused) as refused:
        assignments("orders", route(QueueData("a", 2, 2, 2, 0)), ENDPOINTS, fifo=False)
    assert refused.value.code == pb.FORBIDDEN


def test_clients_are_told_the_host_that_they_named_or_the_endpoints_of_the_balancer() -> None:
    asked = endpoints_of(["mq.example:443"])
    assert asked.scheme == pb.DOMAIN_NAME
    told = told_endpoints(asked, 8081, [], own_port=True)
    assert [(one.host, one.port) for one in told.addresses] == [("mq.example", 8081)]
    assert told_endpoints(asked, 8081, [], own_port=False) == asked
    balancer = told_endpoints(asked, 8081, ["a:1", "b:2"], own_port=True)
    assert [(one.host, one.port) for one in balancer.addresses] == [("a", 1), ("b", 2)]
    with pytest.raises(ProxyRefused):
        told_endpoints(pb.Endpoints(), 8081, [], own_port=True)


def test_a_call_without_a_client_id_is_refused() -> None:
    caller = read_caller(
        [("x-mq-client-id", "c1"), ("x-mq-language", "GOLANG"), ("x-mq-client-version", "5.0.2")], "h:1", 2
    )
    assert caller.host == "h:1"
    assert (caller.client_id, caller.language, caller.deadline_ms) == ("c1", "GO", 2000)
    assert not caller.knows_polling_time
    for metadata in ([], [("x-mq-client-id", "")], [("x-mq-client-id", "x" * 256)]):
        with pytest.raises(ProxyRefused) as refused:
            read_caller(metadata, "h:1", None)
        assert refused.value.code == pb.CLIENT_ID_REQUIRED
    assert host_of("ipv6:%5B::1%5D:40000") == "[::1]:40000"


def test_authorization_headers() -> None:
    text = "MQv2-HMAC-SHA1 Credential=ak1/x, SignedHeaders=x-mq-date-time, Signature=61E7"
    assert read_authorization(text) == ("ak1", "61E7")
    for wrong in ("", "MQv2-HMAC-SHA1", "MQv2-HMAC-SHA1 Credential=ak1", "x Signature=1"):
        assert read_authorization(wrong) is None


def test_an_answer_with_different_results_says_so() -> None:
    one = pb.Status(code=pb.OK)
    other = status_of(ProxyRefused(pb.FORBIDDEN, "no"))
    assert joined_status([one, one]).code == pb.OK
    assert joined_status([one, other]).code == pb.MULTIPLE_RESULTS
    assert joined_status([other, other]) == pb.Status(code=pb.FORBIDDEN, message="FORBIDDEN: no")


def test_a_transaction_id_is_all_that_a_proxy_needs_to_end_the_transaction() -> None:
    opened = OpenTransaction("01ABC", "broker:a", 4096, 7)
    assert OpenTransaction.from_text(opened.to_text()) == opened
    for text in ("", "01ABC", "a:b:c:d", "a:-1:2:b"):
        with pytest.raises(ProxyRefused) as refused:
            OpenTransaction.from_text(text)
        assert refused.value.code == pb.INVALID_TRANSACTION_ID


def test_clients_are_bounded_expire_and_are_asked_in_turn() -> None:
    clients = Clients(2)
    settings = pb.Settings()
    settings.publishing.topics.add(name="orders")
    told: list[str] = []
    for name in ("c1", "c2"):
        client = clients.register(Caller(name, "JAVA", "5", "h:1", None), settings, 1000)
        client.streams.append(lambda command, name=name: told.append(name) is None)
    with pytest.raises(ProxyRefused) as refused:
        clients.register(Caller("c3", "JAVA", "5", "h:1", None), settings, 1000)
    assert refused.value.code == pb.TOO_MANY_REQUESTS
    for _ in range(4):
        assert clients.tell_a_producer("orders", pb.TelemetryCommand())
    assert set(told) == {"c1", "c2"}
    assert not clients.tell_a_producer("others", pb.TelemetryCommand())
    assert clients.expire(2000) == []
    for client in clients:
        client.streams.clear()
    assert len(clients.expire(2000)) == 2
    with pytest.raises(ProxyRefused) as refused:
        clients.heard("c1", 3000)
    assert refused.value.code == pb.UNRECOGNIZED_CLIENT_TYPE


def test_a_message_is_renewed_in_growing_steps_until_it_was_held_for_too_long() -> None:
    renewals = Renewals(PROXY_TABLE.load([]))
    one = Renewed("g", "orders", "c1", "01", HANDLE, 1000, 1)
    assert renewals.add("given", one)
    assert list(renewals.due(50_000)) == []
    assert list(renewals.due(51_000)) == [("given", one)]
    steps = []
    for number in range(8):
        steps.append(renewals.next_ms(one))
        renewals.renewed(one, PopHandle(7, 2000 + number, 60_000, 3, 0, "broker-a", 2, 7, 4096))
    assert steps == [*RENEW_STEPS_MS, RENEW_STEPS_MS[-1], RENEW_STEPS_MS[-1]]
    assert renewals.newest("c1", "given") == one.handle
    assert renewals.newest("c2", "given") is None
    assert [renewals.failed(one) for _ in range(3)] == [False, False, True]
    assert not renewals.is_over(one, 10_800_999)
    assert renewals.is_over(one, 10_801_000)
    assert renewals.remove("c1", "given") is one
    assert len(renewals) == 0


def test_renewals_begin_end_and_are_given_up_as_the_options_say() -> None:
    renewals = Renewals(given(renewAheadTimeMillis=3000, renewMaxTimeMillis=5000, maxRenewRetryTimes=2))
    one = Renewed("g", "orders", "c1", "01", HANDLE, 1000, 1)
    renewals.add("given", one)
    assert [len(list(renewals.due(now))) for now in (57_999, 58_000)] == [0, 1]
    assert [renewals.is_over(one, now) for now in (5999, 6000)] == [False, True]
    assert [renewals.failed(one) for _ in range(2)] == [False, True]
