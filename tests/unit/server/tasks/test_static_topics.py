"""Earlier stretches of logical queues are dropped once their brokers hold nothing of them."""

from types import SimpleNamespace
from typing import Any

from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.handling.call import OtherBroker
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.net.errors import NoNameServer
from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem as Item
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail
from orbitmq.protocol.requests.offset import GetMinOffset, OffsetReply
from orbitmq.server.tasks.static_topics import StretchExpiry

LED = Item(1, 0, "broker-a", 10_000)


class Others:
    """Brokers `full`, `empty` and `expired` with one queue each; `away` does not answer."""

    async def call(self, question: OtherBroker, timeout_ms: int) -> OffsetReply:
        assert question.request.to_command().ext["lo"] == "false"  # type: ignore[index]
        if question.name == "away":
            raise NoNameServer([])
        low, end = {"full": (3, 4), "empty": (0, 0), "expired": (7, 7)}[question.name]
        return OffsetReply(low if isinstance(question.request, GetMinOffset) else end)


async def test_what_holds_messages_or_does_not_answer_stays() -> None:
    static = StaticMappings("broker-a", DirtyTables(), 0)
    earlier = [Item(0, number, name, 0) for number, name in enumerate(("full", "empty", "expired", "away"))]
    own = [Item(0, number, "broker-a", 0) for number in (4, 5)]
    queues = {number: [item, LED] for number, item in enumerate([*earlier, *own])}
    static.put(TopicQueueMappingDetail("T", bname="broker-a", hosted_queues=queues), 0)
    store: Any = SimpleNamespace(
        min_offset=lambda topic, queue_id: 5, queue_end=lambda topic, queue_id: queue_id + 1
    )
    others: Any = Others()
    await StretchExpiry("broker-a", static, store, others, lambda: 1).run()
    kept = static.by_topic["T"].hosted_queues
    assert [number for number, items in kept.items() if items == [LED]] == [1, 2, 4]
    assert all(items == queues[number] for number, items in kept.items() if items != [LED])
