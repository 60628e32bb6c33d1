import pytest

from orbitmq.net.name_servers import NameServers
from orbitmq.net.near_names import MOST_COMPARED, near_names, near_topics
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.topic import TopicList
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.route import GetAllTopicListFromNameserver
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.fake_broker import FakeBroker

KNOWN = ["orders", "order-events", "Payments", "%RETRY%orders", "%DLQ%orders", "SCHEDULE_TOPIC_XXXX", "x"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ordrs", ["orders"]),
        ("payments", ["Payments"]),
        ("order-event", ["order-events"]),
        ("invoices", []),
        ("orders", []),
    ],
)
def test_names_that_may_be_meant(name: str, near: list[str]) -> None:
    assert near_names(name, KNOWN) == near


def test_very_many_names_cost_little() -> None:
    names = (f"topic-{number:06}" for number in range(1_000_000))
    assert len(near_names("topic-00000x", names)) == 3
    assert next(names) == f"topic-{MOST_COMPARED + 1:06}"


async def test_a_name_server_that_does_not_tell_is_no_error(pool: ConnectionPool) -> None:
    server = await FakeBroker().start()
    names = NameServers([server.address], pool, 60_000)
    server.on(GetAllTopicListFromNameserver, lambda _: JsonReply[TopicList](TopicList(KNOWN)))
    assert await near_topics(names, "ordrs") == ["orders"]
    server.on(GetAllTopicListFromNameserver, lambda _: Refused(1, "disable"))
    assert await near_topics(names, "ordrs") == []
    await server.stop()
    assert await near_topics(names, "ordrs") == []
