from orbitmq.broker.client.lock_handlers import QUEUES_PER_TURN
from orbitmq.broker.client.locks import TRUSTED_MS
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue, UnlockBatchRequestBody
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq
from tests.kit.waiting import turns_of
from tests.kit.world import NOW, World

QUEUES = [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)]


def test_queues_are_locked_and_given_up() -> None:
    world = World()
    assert (
        world.ask(LockBatchMq(LockBatchRequestBody("G", "c1", False, QUEUES))).body.lock_ok_mq_set == QUEUES
    )
    assert world.ask(LockBatchMq(LockBatchRequestBody("G", "c2", False, QUEUES))).body.lock_ok_mq_set == []
    world.ask(UnlockBatchMq(UnlockBatchRequestBody("G", "c1", False, QUEUES[:1])))
    held = world.ask(LockBatchMq(LockBatchRequestBody("G", "c2", False, QUEUES))).body.lock_ok_mq_set
    assert held == QUEUES[:1]


def test_the_queues_of_a_consumer_that_died_are_handed_over_once_it_would_not_trust_its_locks() -> None:
    world = World()
    for number, client_id in enumerate(("c1", "c2")):
        data = ConsumerData(
            "G",
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            subscription_data_set=[SubscriptionData("T", "*")],
        )
        world.clients.register_consumer(
            data, client_id, world.peer(number), NOW, notifies=False, with_subscriptions=True
        )

    def lock(client_id: str, now: int) -> list[MessageQueue]:
        request = LockBatchMq(LockBatchRequestBody("G", client_id, False, QUEUES))
        held: list[MessageQueue] = world.ask(request, now=now).body.lock_ok_mq_set
        return held

    assert lock("c1", NOW) == QUEUES
    assert lock("c2", NOW + TRUSTED_MS + 1) == [], "it is connected, and may be late only"
    world.clients.connection_closed(0)
    assert lock("c2", NOW + TRUSTED_MS) == [], "it may live, and still work on a message"
    assert lock("c2", NOW + TRUSTED_MS + 1) == QUEUES


def test_very_many_queues_are_locked_and_given_up_over_several_turns() -> None:
    world = World()
    many = [MessageQueue("T", "broker-a", number) for number in range(2 * QUEUES_PER_TURN + 1)]
    turns, reply = turns_of(world.handle(LockBatchMq(LockBatchRequestBody("G", "c1", False, many))))
    assert turns == 2
    assert reply.body.lock_ok_mq_set == many
    turns, _ = turns_of(world.handle(UnlockBatchMq(UnlockBatchRequestBody("G", "c1", False, many))))
    assert turns == 2
    held = world.ask(LockBatchMq(LockBatchRequestBody("G", "c2", False, many[:1]))).body.lock_ok_mq_set
    assert held == many[:1]
    assert world.ask(LockBatchMq(LockBatchRequestBody("G", "c2", False, []))).body.lock_ok_mq_set == []
