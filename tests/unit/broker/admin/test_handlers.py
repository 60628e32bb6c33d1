from orbitmq.broker.role.links import SlaveLink
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.ha import ExchangeBrokerHaInfo, GetBrokerHaStatus
from orbitmq.protocol.requests.topic import CleanUnusedTopic
from tests.kit.world import NOW, World


def test_figures_as_texts() -> None:
    world = World()
    world.stats.put("T", 0, 2, 20)
    table = world.ask(GetBrokerRuntimeInfo(), now=NOW + 61_000).body.table
    assert table["msgPutTotalTodayNow"] == "2"
    assert table["runtime"] == "[ 0 days, 0 hours, 1 minutes, 1 seconds ]"
    assert table["queryThreadPoolQueueCapacity"] == "20000"


def test_a_master_without_slaves() -> None:
    body = World().ask(GetBrokerHaStatus()).body
    assert (body.master, body.in_sync_slave_nums, body.ha_connection_info) == (True, 0, [])


def test_a_master_notes_the_words_of_those_who_follow_it_and_no_others() -> None:
    world, link = World(), SlaveLink("h:1", NOW)
    link.broker_id = 2
    world.replication.links.add(link)
    for broker_id in (2, 3, 4):
        world.ask(ExchangeBrokerHaInfo(broker_id=broker_id, table_version=1, may_be_blind=True))
    assert world.role.able == {2}
    versions = world.replication.table_versions
    assert not versions.are_taken(NOW, {2})
    assert versions.are_taken(NOW, {3, 4})


def test_queues_of_unknown_topics_are_deleted() -> None:
    world = World()
    world.topics.ensure("T", 1, NOW)
    for topic in ("T", "gone", "SCHEDULE_TOPIC_XXXX"):
        world.put(topic)
    world.ask(CleanUnusedTopic())
    assert world.store.topics() == {"T", "SCHEDULE_TOPIC_XXXX"}


def test_a_slave_keeps_queues_of_topics_that_its_master_has_not_told_of_yet() -> None:
    world = World(broker_role="SLAVE")
    world.put("new")
    world.ask(CleanUnusedTopic())
    assert world.store.topics() == {"new"}
