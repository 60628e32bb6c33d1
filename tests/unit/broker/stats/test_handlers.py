from orbitmq.broker.stats.handlers import QUEUES_PER_TURN
from orbitmq.handling.call import Pause, Wait
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import ConsumeStatsList
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.admin import ViewBrokerStatsData
from orbitmq.protocol.requests.group import GetBrokerConsumeStats, GetConsumeStats, QueryConsumeTimeSpan
from tests.kit.waiting import met
from tests.kit.world import NOW, World


def world() -> World:
    world = World()
    world.groups.find("G", NOW)
    for topic in ("T", "U"):
        world.topics.ensure(topic, 2, NOW)
    world.put("T", 0, 8, NOW)
    world.offsets.commit("G", "T", 0, 5, NOW)
    return world


def test_lag_of_a_group_queue_by_queue() -> None:
    stats = world().ask(GetConsumeStats("G", "T")).body
    row = stats.offset_table[MessageQueue("T", "broker-a", 0)]
    assert (row.broker_offset, row.consumer_offset, row.pull_offset, row.last_timestamp) == (8, 5, 5, NOW)
    empty = stats.offset_table[MessageQueue("T", "broker-a", 1)]
    assert (empty.broker_offset, empty.consumer_offset, empty.last_timestamp) == (0, 0, 0)


def test_which_topics_are_looked_at() -> None:
    broker = world()
    broker.offsets.commit("G", "U", 0, 0, NOW)
    broker.offsets.commit("G", "gone", 0, 0, NOW)
    topics = {queue.topic for queue in broker.ask(GetConsumeStats("G")).body.offset_table}
    assert topics == {"T", "U"}
    topics = {queue.topic for queue in broker.ask(GetConsumeStats("G", topic_list="U;V")).body.offset_table}
    assert topics == {"U"}
    broker.clients.register_consumer(
        ConsumerData(
            "G",
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            subscription_data_set=[SubscriptionData("T", "*")],
        ),
        "c1",
        broker.peer(),
        NOW,
        notifies=False,
        with_subscriptions=True,
    )
    topics = {queue.topic for queue in broker.ask(GetConsumeStats("G")).body.offset_table}
    assert topics == {"T"}


def test_an_unknown_group_has_an_empty_table() -> None:
    assert world().ask(GetConsumeStats("H")).body.offset_table == {}


def test_lag_of_all_groups() -> None:
    body = world().ask(GetBrokerConsumeStats(False)).body
    assert [list(groups) for groups in body.consume_stats_list] == [["G"]]
    assert (body.total_diff, body.broker_addr) == (3, "127.0.0.1:10911")
    assert body.total_inflight_diff == -5, "nothing was pulled since the start"
    assert world().ask(GetBrokerConsumeStats(True)).body.consume_stats_list == [{"G": []}]


def test_times_of_a_group_on_a_topic() -> None:
    broker = world()
    broker.put("T", 0, 2, NOW + 4000)
    spans = {
        span.message_queue.queue_id: span
        for span in broker.ask(QueryConsumeTimeSpan("T", "G"), now=NOW + 5000).body.consume_time_span_set
    }
    span = spans[0]
    assert (span.min_time_stamp, span.max_time_stamp, span.consume_time_stamp) == (NOW, NOW + 4000, NOW)
    assert span.delay_time == 5000
    assert (spans[1].min_time_stamp, spans[1].max_time_stamp) == (-1, -1)
    assert spans[1].delay_time == NOW + 5001
    broker.offsets.commit("G", "T", 0, 10, NOW)
    spans = {
        span.message_queue.queue_id: span
        for span in broker.ask(QueryConsumeTimeSpan("T", "G")).body.consume_time_span_set
    }
    assert spans[0].delay_time == 0
    assert broker.refusal(QueryConsumeTimeSpan("V", "G")).code == ResponseCode.TOPIC_NOT_EXIST


def test_a_statistic_or_that_there_is_none() -> None:
    broker = world()
    broker.stats.put("T", 0, 3, 30)
    broker.stats.tick(NOW + 10_000)
    body = broker.ask(ViewBrokerStatsData("TOPIC_PUT_NUMS", "T")).body
    assert (body.stats_minute.sum, body.stats_minute.tps) == (3, 0.3)
    refused = broker.refusal(ViewBrokerStatsData("TOPIC_PUT_NUMS", "U"))
    assert (refused.code, refused.remark) == (1, "The stats <TOPIC_PUT_NUMS> <U> not exist")


def test_the_lag_of_very_many_queues_is_told_over_several_turns() -> None:
    broker = world()
    for n in range(300):
        broker.groups.find(f"many-{n}", NOW)
        for topic in ("T", "U"):
            broker.offsets.commit(f"many-{n}", topic, 0, 1, NOW)
    result, turns = broker.handle(GetBrokerConsumeStats(False)), 0
    while isinstance(result, Wait):
        (condition,) = result.on
        turns += isinstance(condition, Pause)
        result = result.then(met(result), NOW)
    body = ConsumeStatsList.from_json(result.body)
    assert turns == 1202 // QUEUES_PER_TURN
    assert len(body.consume_stats_list) == 301
    assert body.total_diff == 3 + 300 * 7 - 300, "T has 8 messages, U has none and is said to be past its end"
